"""`twinlog import-connectors`: MM2's connectors in Kafka Connect -> the mm2.properties that means the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli.say import warn
from twinlog.errors import ConfigError, UsageError


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
    """Write the mm2.properties that is equivalent to MM2's connectors of one pair of clusters.

    What of the JSON is not in it is named on stderr, with the reason. A file that could not be used is not written.
    """
    from twinlog.config.flow.connect_json import equivalent_file, read_connectors
    from twinlog.config.flow.load import resolve_text

    made = equivalent_file(read_connectors(files), offset_storage_topic)
    for line in made.left_out:
        warn(str(line))
    text = made.text
    try:
        resolution = resolve_text(text, to or Path("mm2.properties"))
    except ConfigError as error:
        message = f"the file would not work and is not written: {error.message}"
        raise ConfigError(message, hint=error.hint, **error.data) from error
    for warning in resolution.configuration.warnings:
        warn(warning)
    if not offset_storage_topic:
        warn("without --offset-storage-topic twinlog does not find where the connectors stopped")
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
