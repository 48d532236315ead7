"""The options that mean the same in every command, and how moments, durations and topics are written in them."""

from __future__ import annotations

import datetime as dt
import re
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.errors import UsageError

if TYPE_CHECKING:
    from twinlog.topics.discovery import Discovery


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

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_moment(text: str, option: str = "--until") -> int:
    """Read a moment as epoch ms: `2026-01-31T12:00:00Z` (UTC if no zone is given) or epoch ms itself.

    Raises UsageError for anything else.
    """
    if re.fullmatch(r"\d{12,14}", text):
        return int(text)
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option}: {text!r} is no time", hint="write 2026-01-31T12:00:00Z") from None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def parse_duration(text: str, option: str = "--for") -> int:
    """Read a duration as seconds: `90s`, `10m`, `2h`, `1h30m`.  Raises UsageError for anything else."""
    if not re.fullmatch(r"(\d{1,9}[smhd])+", text):
        raise UsageError(f"{option}: {text!r} is no duration", hint="write 90s, 10m or 1h30m")
    return sum(int(count) * SECONDS[unit] for count, unit in re.findall(r"(\d+)([smhd])", text))


BY_COMMAS = "--topics takes names of source topics, comma separated"


def parse_topics(text: str | None) -> frozenset[str] | None:
    """Split `orders,payments`; None if no topic was named."""
    names = frozenset(name.strip() for name in (text or "").split(",") if name.strip())
    return names or None


def refuse_unknown_topics(discovery: Discovery, topics: frozenset[str] | None, hint: str = BY_COMMAS) -> None:
    """Raise UsageError for a named topic that the flow does not replicate, with the reason."""
    known = {topic.topic for topic in discovery.topics}
    reasons = {topic.topic: topic.reason for topic in discovery.left_out}
    for name in sorted((topics or frozenset()) - known):
        reason = reasons.get(name, "the source has no such topic, or does not show it")
        raise UsageError(
            f"flow {discovery.flow} does not replicate topic {name}: {reason}",
            hint=hint,
            flow=discovery.flow,
            topic=name,
        )
