"""`twinlog import-connectors`: MM2's connectors in Kafka Connect -> the mm2.properties that means the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli.say import say
from twinlog.errors import UsageError


def import_connectors(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="JSON of the connectors, as posted to Connect's REST API."),
    ],
    offset_storage_topic: Annotated[
        str,
        typer.Option(
            "--offset-storage-topic",
            metavar="TOPIC",
            help="offset.storage.topic of the Connect cluster: where the connectors' progress is kept.",
        ),
    ] = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write there instead of to stdout.")
    ] = None,
) -> None:
    """Write the mm2.properties that is equivalent to MM2's connectors of one pair of clusters."""
    from twinlog.config.connect_json import properties_text, read_connectors

    text = properties_text(read_connectors(files), offset_storage_topic)
    if not offset_storage_topic:
        say("warning: without --offset-storage-topic twinlog does not find where the connectors stopped")
    if to is None:
        sys.stdout.write(text)
        return
    try:
        # It may hold the passwords of the JSON files.
        to.touch(mode=0o600, exist_ok=False)
        to.write_text(text, encoding="ascii")
    except FileExistsError:
        raise UsageError(f"{to} exists already", hint="name a new file") from None
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror}") from error
