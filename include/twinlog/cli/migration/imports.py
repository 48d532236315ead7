"""`twinlog migrate import`: the configuration of another tool -> the mm2.properties that means the same."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli.render import warn
from twinlog.errors import ConfigError, UsageError


def import_files(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="JSON of MM2's connectors, a KafkaMirrorMaker2 of Strimzi, properties of connect-standalone, or"
            " MirrorMaker 1's consumer and producer file.",
        ),
    ],
    offset_storage_topic: Annotated[
        str,
        typer.Option(
            "--offset-storage-topic",
            metavar="TOPIC",
            help="offset.storage.topic of the Connect cluster: where the connectors' progress is kept."
            " A KafkaMirrorMaker2 names it itself.",
        ),
    ] = "",
    flow: Annotated[
        str,
        typer.Option(
            "--flow",
            "-f",
            metavar="A->B",
            help="Which mirror of a KafkaMirrorMaker2; or names for both clusters of MirrorMaker 1.",
        ),
    ] = "",
    topics: Annotated[
        str, typer.Option("--topics", metavar="REGEX", help="MirrorMaker 1's --whitelist or --include.")
    ] = "",
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write there instead of to stdout.")
    ] = None,
) -> None:
    """Write the mm2.properties that is equivalent to another tool's files, for one pair of clusters.

    What of the files is not in it is named on stderr, with the reason. A file that could not be used is not written.

    Such as `twinlog migrate import mirror.yaml --to mm2.properties`; then `twinlog check --config mm2.properties`.
    """
    from twinlog.config.flow.load import resolve_text
    from twinlog.migration.imports import forms

    made = forms.import_files(files, offset_storage_topic, flow, topics)
    for line in (*made.left_out, *made.warnings):
        warn(str(line))
    text = made.text
    try:
        resolution = resolve_text(text, to or Path("mm2.properties"))
    except ConfigError as error:
        message = f"the file would not work and is not written: {error.message}"
        raise ConfigError(message, hint=error.hint, **error.data) from error
    for warning in resolution.configuration.warnings:
        warn(warning)
    if to is None:
        sys.stdout.write(text)
        return
    try:
        # It may hold the passwords of the files.
        to.touch(mode=0o600, exist_ok=False)
        to.write_text(text, encoding="ascii")
    except FileExistsError:
        raise UsageError(f"{to} exists already", hint="name a new file") from None
    except OSError as error:
        raise UsageError(f"{to} cannot be written: {error.strerror}") from error
