"""The options that mean the same in every command, and how moments, durations and topics are written in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from typer import Option

from twinlog import clock
from twinlog.errors import UsageError


def option(declared: str, text: str, **more: Any) -> Any:
    """Return the option that is declared as in a manual, such as `--flow -f A->B`, and what its help says."""
    words = declared.split()
    names = [word for word in words if word.startswith("-")]
    return Option(*names, metavar=" ".join(words[len(names) :]) or None, help=text, **more)


ConfigOption = Annotated[
    Path,
    option(
        "--config -c FILE", "The mm2.properties file that names clusters and flows.", envvar="TWINLOG_CONFIG"
    ),
]

FlowOption = Annotated[
    list[str] | None, option("--flow -f A->B", "A flow of the file; repeatable. Default: every enabled flow.")
]

OneFlowOption = Annotated[
    list[str] | None, option("--flow -f A->B", "The flow. Default: the only one enabled.")
]

TopicsOption = Annotated[
    list[str] | None,
    option(
        "--topic -t --topics TOPIC",
        "Only this source topic; repeatable, or several with commas. Default: all.",
    ),
]

SourceTopicOption = Annotated[str, option("--topic -t TOPIC", "The source topic.")]

GroupsOption = Annotated[str, option("--groups REGEX", "Only groups whose whole name matches (Java regex).")]

DryRunOption = Annotated[bool, option("--dry-run", "Say what would be done, and change nothing.")]

ExecuteOption = Annotated[
    bool, option("--execute", "Do it. Default: say what would be done, and change nothing.")
]

ReasonOption = Annotated[str, option("--reason TEXT", "Why; kept in the ledger.")]

UntilOption = Annotated[
    str | None,
    option("--until TIME", "Only records before this time, such as 2026-01-31T12:00:00Z. Default: now."),
]


def parse_moment(text: str, option: str = "--until") -> int:
    """Read a moment as epoch ms: `2026-01-31T12:00:00Z` (UTC if no zone is given) or epoch ms itself.

    Raises UsageError for anything else.
    """
    if (found := clock.moment_ms(text)) is None:
        raise UsageError(f"{option}: {text!r} is no time", "write 2026-01-31T12:00:00Z")
    return found


def parse_duration(text: str, option: str = "--for") -> int:
    """Read a duration as seconds: `90s`, `10m`, `2h`, `1h30m`.  Raises UsageError for anything else."""
    if (found := clock.duration_seconds(text)) is None:
        raise UsageError(f"{option}: {text!r} is no duration", "write 90s, 10m or 1h30m")
    return found


def parse_topics(named: Sequence[str] | None) -> frozenset[str] | None:
    """Return the names of `orders,payments`, or of several such; None if no topic was named."""
    names = frozenset(name.strip() for name in ",".join(named or ()).split(",") if name.strip())
    return names or None


class OfTopic(Protocol):
    """Something that is about one source topic."""

    @property
    def topic(self) -> str:
        """Return the topic's name."""


Item = TypeVar("Item", bound=OfTopic)


def of_topics(items: Iterable[Item], topics: frozenset[str] | None) -> tuple[Item, ...]:
    """Return the items of these topics; None: of all."""
    return tuple(item for item in items if topics is None or item.topic in topics)
