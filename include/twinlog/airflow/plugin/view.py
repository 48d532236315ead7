"""Turn the state of the flows into the words and numbers on the page, and into its JSON.  Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinlog.airflow.plugin.status import SeenFlow, SeenFlows
from twinlog.checks.gaps import open_gaps
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.formats.ledger.records import CycleReport
    from twinlog.monitoring.status import FlowStatus, TopicStatus

UNKNOWN = "–"
_ORPHANS = {
    "deleted": "gone from the source",
    "left-out": "left out by the configuration",
    "unknown": "not known to this flow",
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One number of a flow, with a line below it."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One line of a flow's table.  `tone` is good, warn, bad or idle."""

    name: str
    remote: str
    partitions: str
    copied_up_to: str
    lag: str
    behind: str
    word: str
    tone: str


@dataclass(frozen=True, slots=True)
class FlowCard:
    """One flow on the page."""

    dag_id: str
    source: str
    target: str
    state: str
    tone: str
    facts: tuple[Fact, ...] = ()
    topics: tuple[TopicRow, ...] = ()
    gaps: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The whole page."""

    file: str
    as_of: str
    flows: tuple[FlowCard, ...]
    warnings: tuple[str, ...]
    problem: str


def page_of(seen: SeenFlows) -> Page:
    """Return what the page shows."""
    as_of = f"{dt.datetime.fromtimestamp(seen.at, dt.UTC):%Y-%m-%d %H:%M:%S}"
    cards = tuple(_card(flow, seen.at) for flow in seen.flows)
    return Page(seen.file, as_of, cards, seen.warnings, seen.error)


def json_of(seen: SeenFlows) -> dict[str, Any]:
    """Return the same as JSON: `twinlog status` of every flow, with its Dag and its last cycle."""
    return {
        "file": seen.file,
        "error": seen.error,
        "flows": [
            {
                "flow": it.flow.name,
                "dag_id": it.dag_id,
                "error": it.error,
                "status": to_json(it.status),
                "last_cycle": to_json(it.last_cycle),
            }
            for it in seen.flows
        ],
    }


def _card(seen: SeenFlow, now: float) -> FlowCard:
    source, target = seen.flow.source.alias, seen.flow.target.alias
    status = seen.status
    if status is None:
        return FlowCard(seen.dag_id, source, target, "cannot be read", "bad", problems=(seen.error,))
    state, tone = _state(status, seen.last_cycle)
    return FlowCard(
        dag_id=seen.dag_id,
        source=source,
        target=target,
        state=state,
        tone=tone,
        facts=tuple(_facts(status, seen.last_cycle, now)),
        topics=tuple(_topic(topic) for topic in status.topics),
        gaps=tuple(
            f"{gap.topic} partition {gap.partition}: {gap.first_offset} to {gap.last_offset} ({gap.cause.value})"
            for gap in open_gaps(status.gaps)
        ),
        problems=tuple(_problems(status, source)),
    )


def _state(status: FlowStatus, last_cycle: CycleReport | None) -> tuple[str, str]:
    if not status.source_reachable:
        return "source out of reach", "bad"
    if status.held:
        return status.state.value, "warn"
    if any(problem.blocking for problem in status.problems):
        return "needs attention", "bad"
    if last_cycle is None:
        return "not run yet", "idle"
    if last_cycle.summary.get("state") == "failed":
        return "last cycle failed", "bad"
    return status.state.value, "good" if status.state.value == "active" else "warn"


def _facts(status: FlowStatus, last_cycle: CycleReport | None, now: float) -> Iterator[Fact]:
    partitions = sum(len(topic.partitions) for topic in status.topics)
    topics = f"records, over {partitions:,} partitions"
    yield Fact("Lag", _records(status.lag_records), topics if status.source_reachable else "as last known")
    if status.undecided_records:
        yield Fact(
            "Undecided", _records(status.undecided_records), "records behind open transactions, not copied"
        )
    missing = status.lag_records != 0 or status.undecided_records != 0 or status.unseen_partitions
    copied = status.rpo_seconds == 0 and not missing
    note = "everything is copied" if copied else "oldest record not copied yet"
    yield Fact("Behind", _duration(status.rpo_seconds), note)
    if last_cycle is None:
        yield Fact("Last cycle", UNKNOWN, "none yet")
        return
    said = last_cycle.summary
    ago = _duration(max(0.0, now - last_cycle.at_ms / 1000))
    yield Fact("Last cycle", f"{ago} ago", f"took {_duration(said.get('seconds'))}, {said.get('state')}")
    # While a run follows, the map knows the records, and only the lanes know the bytes.
    size = _bytes(said.get("bytes")) if said.get("bytes") or not said.get("records") else ""
    yield Fact("Copied in it", _records(said.get("records")), size)


def _topic(topic: TopicStatus) -> TopicRow:
    copied = sum(partition.last_upstream_offset + 1 for partition in topic.partitions)
    end = sum(partition.source_end for partition in topic.partitions)
    done = not topic.lag_records and not topic.undecided_records and topic.rpo_seconds is not None
    return TopicRow(
        name=topic.topic,
        remote=topic.remote_topic,
        partitions=f"{len(topic.partitions):,}",
        copied_up_to=f"{copied:,} of {end:,}",
        lag=f"{topic.lag_records:,}",
        behind=UNKNOWN if done else _duration(topic.rpo_seconds),
        word="up to date" if done else "waiting" if not copied else "behind",
        tone="good" if done else "idle" if not copied else "warn",
    )


def _problems(status: FlowStatus, source: str) -> Iterator[str]:
    if not status.source_reachable:
        yield f"{source} does not answer. What is shown is what the last cycle report said, and its age."
    if status.held:
        yield f"The flow is {status.held}. Nothing is copied."
    for it in status.undecided:
        yield f"{it.message}; {it.hint}"
    for pause in status.paused:
        yield f"{pause.topic} is paused by {pause.by} since {pause.since}: {pause.reason}"
    for orphan in status.orphans:
        yield f"Nothing is copied into {orphan.remote_topic} any more: {orphan.topic} is {_ORPHANS[orphan.kind]}."
    for problem in status.problems:
        yield f"{problem.message}; {problem.hint}" if problem.hint else problem.message


def _records(count: int | None) -> str:
    return UNKNOWN if count is None else f"{count:,}"


def _bytes(count: int | None) -> str:
    if count is None:
        return ""
    if count < 1_000_000:
        return f"{count / 1e3:,.1f} KB on the wire"
    return f"{count / 1e6:,.1f} MB on the wire"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds / 86_400:,.0f} d"
