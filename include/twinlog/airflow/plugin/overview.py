"""Turn the state of the flows into the overview, worst first, and into JSON.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinlog.airflow.flows import slug
from twinlog.airflow.plugin.reading import SeenFlow, SeenFlows
from twinlog.airflow.plugin.troubles import State, Trouble, readiness_of, state_of, troubles_of
from twinlog.clock import iso
from twinlog.gate.record import UNKNOWN, duration, number
from twinlog.jsonable import Json, to_json
from twinlog.state.seats import Role
from twinlog.visible import singular

if TYPE_CHECKING:
    from twinlog.monitoring.status import FlowStatus

TROUBLES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Fact:
    """One number of a flow, with a line below it."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class FlowCard:
    """What both pages say of a flow."""

    slug: str
    dag_id: str
    source: str
    target: str
    state: State
    read: str
    being_read: bool
    readiness: tuple[State, ...]
    facts: tuple[Fact, ...]
    troubles: tuple[Trouble, ...]

    @property
    def first(self) -> tuple[Trouble, ...]:
        """Return the troubles that stand on the overview, too."""
        return self.troubles[:TROUBLES_SHOWN]


@dataclass(frozen=True, slots=True)
class Overview:
    """The page of all flows."""

    file: str
    flows: tuple[FlowCard, ...]
    warnings: tuple[str, ...]
    problem: str
    being_read: bool


def overview_of(seen: SeenFlows, now: float) -> Overview:
    """Return what the page shows at `now` (epoch seconds)."""
    cards = [FlowCard(**card_of(flow, now)) for flow in seen.flows if not flow.never_began]
    worst_first = sorted(cards, key=lambda it: -it.state.tone)
    return Overview(seen.file, tuple(worst_first), seen.warnings, seen.error, seen.being_read)


def json_of(seen: SeenFlows) -> Json:
    """Return the same as JSON: `twinlog status` of every flow, with its Dag, its last cycle and when it was read."""
    return {
        "file": seen.file,
        "error": seen.error,
        "flows": [
            {
                "flow": flow.flow.name,
                "dag_id": flow.dag_id,
                "read_at": iso(int(flow.at * 1000)) if flow.at else None,
                "error": f"{flow.error}; {flow.hint}" if flow.hint else flow.error,
                "status": to_json(flow.status),
                "last_cycle": to_json(flow.ledger.last_report if flow.ledger is not None else None),
            }
            for flow in seen.flows
            if not flow.never_began
        ],
    }


def card_of(seen: SeenFlow, now: float) -> Json:
    """Return the fields of a `FlowCard`."""
    troubles = troubles_of(seen, now)
    return {
        "slug": slug(seen.dag_id),
        "dag_id": seen.dag_id,
        "source": seen.flow.state_alias,
        "target": seen.flow.target.alias,
        "state": state_of(seen, now, troubles),
        "read": f"read {duration(max(0.0, now - seen.at))} ago"
        if seen.at
        else "being read for the first time",
        "being_read": not seen.at,
        "readiness": readiness_of(seen),
        "facts": facts_of(seen, now),
        "troubles": troubles,
    }


def facts_of(seen: SeenFlow, now: float) -> tuple[Fact, ...]:
    """Return a flow in four or five numbers; none before it was read."""
    if seen.status is None or seen.ledger is None:
        return ()
    return (*_lag(seen.status), *_last_cycle(seen, now), *_leader(seen.status))


def _lag(status: FlowStatus) -> Iterator[Fact]:
    partitions = sum(len(topic.partitions) for topic in status.topics)
    topics = singular(f"records, over {partitions:,} partitions")
    if status.observed:
        yield Fact("Copied by", status.copied_by, "twinlog only observes it")
    yield Fact("Lag", number(status.lag_records), topics if status.source_reachable else "as last known")
    if status.undecided_records:
        yield Fact(
            "Undecided", number(status.undecided_records), "records behind open transactions, not copied"
        )
    if not status.has_run:  # nothing was copied, and an age of 0 would say otherwise
        yield Fact("Behind", UNKNOWN, "nothing was copied yet")
        return
    missing = status.lag_records != 0 or status.undecided_records != 0 or status.unseen_partitions
    copied = status.rpo_seconds == 0 and not missing
    strictest = min((it.rpo_budget_seconds for it in status.topics if it.rpo_budget_seconds), default=None)
    note = "everything is copied" if copied else "oldest record not copied yet"
    if not status.source_reachable:
        note = "at most: nothing is known of what came since the last cycle"
    budget = f"; RPO {duration(strictest)}" if strictest else ""
    yield Fact("Behind", duration(status.rpo_seconds), note + budget)


def _last_cycle(seen: SeenFlow, now: float) -> Iterator[Fact]:
    report = seen.ledger.last_report if seen.ledger is not None else None
    if report is None:
        yield Fact("Last cycle", "none", "no cycle has ever ended")
        return
    said = report.summary
    ago = duration(max(0.0, now - report.at_ms / 1000))
    yield Fact("Last cycle", f"{ago} ago", f"took {duration(said.get('seconds'))}, {said.get('state')}")
    # While a run follows, the map knows the records, and only the lanes know the bytes.
    size = bytes_of(said.get("bytes")) if said.get("bytes") or not said.get("records") else ""
    yield Fact("Copied in it", number(said.get("records")), size)


def _leader(status: FlowStatus) -> Iterator[Fact]:
    if status.members:
        first, *others = status.members
        role = "leads" if first.role is Role.LEADS else "stands by"
        yield Fact("Process", first.host, f"process {first.pid} {role}, {len(others):,} more stand by")


def bytes_of(count: int | None) -> str:
    """Write a size on the wire."""
    if count is None:
        return ""
    if count < 1_000_000:
        return f"{count / 1e3:,.1f} KB on the wire"
    return f"{count / 1e6:,.1f} MB on the wire"
