"""The options that mean the same in every command."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    """What stdout carries: tables for people, or one JSON document."""

    TABLE = "table"
    JSON = "json"


ConfigOption = Annotated[
    Path,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        envvar="TWINLOG_CONFIG",
        help="The mm2.properties file that names clusters and flows.",
    ),
]
FlowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--flow", "-f", metavar="A->B", help="A flow of the file; repeatable. Default: every enabled flow."
    ),
]
OneFlowOption = Annotated[
    str | None, typer.Option("--flow", "-f", metavar="A->B", help="The flow. Default: the only one enabled.")
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="table for people, json for one document on stdout.")
]
StrictOption = Annotated[
    bool, typer.Option("--strict", help="Fail on everything the file would otherwise be warned about.")
]
TopicsOption = Annotated[
    str | None,
    typer.Option(
        "--topics", metavar="T1,T2", help="Only these source topics, comma separated. Default: all."
    ),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME",
        help="Only records before this time, such as 2026-01-31T12:00:00Z. Default: now.",
    ),
]
