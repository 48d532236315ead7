"""Turn one flow into its own page: every part shortened with counts, worst first.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from twinlog.airflow.flows import BY_HAND, HOMEWARD, dag_id_of
from twinlog.airflow.plugin.overview import FlowCard, card_of
from twinlog.airflow.plugin.reading import SeenFlow
from twinlog.airflow.plugin.reports import KeptReport
from twinlog.airflow.plugin.troubles import Tone
from twinlog.audit.coverage import Coverage, PartitionCoverage, by_topic, told, total
from twinlog.facts.gaps import GapState
from twinlog.gate.record import duration, moment
from twinlog.groups.report import GroupPartitionRow, SyncState
from twinlog.recovery.history import RunStatus, status_of
from twinlog.visible import listed

if TYPE_CHECKING:
    from twinlog.formats.ledger.gate import GateOutcome
    from twinlog.formats.ledger.recovery import DrillRun
    from twinlog.monitoring.status import FlowStatus, TopicStatus
    from twinlog.state.ledger import Ledger

MOST_ROWS = 200
"""Rows of a table; what is left is counted, and topics are named below it."""

MOST_RUNS = 20
"""Failovers and drills."""

NUMBERED = 10
"""Differing partitions of a topic that are told."""

DAGS = {
    "replicate": "copy",
    "sync_metadata": "metadata",
    "audit": "audit",
    "failover_readiness": "readiness",
    "drill": "drill",
    "failover": "failover",
    "failback": "failback",
    "rebuild": "rebuild",
}
AIRFLOWS_RUNS = ("scheduled__", "manual__", "backfill__", "asset_triggered__")


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One line of the table of topics."""

    name: str
    remote: str
    partitions: str
    copied_up_to: str
    lag: str
    behind: str
    word: str
    tone: Tone


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table that are shown; `left` are the names of those that are not, and why they matter less."""

    rows: tuple[Any, ...]
    total: int
    left: tuple[str, ...] = ()

    @property
    def hidden(self) -> int:
        """Count the rows that are not shown."""
        return self.total - len(self.rows)


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """Audit coverage of a topic, or of all topics that have no row of their own."""

    name: str
    partitions: int
    proved: str
    unproved: str
    audited: str
    differs: str


@dataclass(frozen=True, slots=True)
class FlowPage(FlowCard):
    """The page of one flow."""

    dags: tuple[tuple[str, str], ...] = ()
    last_run: str = ""
    members: tuple[object, ...] = ()
    topics: Table = Table((), 0)
    gaps: Table = Table((), 0)
    groups: Table = Table((), 0)
    group_counts: str = ""
    uncovered: Table = Table((), 0)
    groups_error: str = ""
    coverage: tuple[CoverageRow, ...] = ()
    coverage_error: str = ""
    details_read: str = ""
    drift: Table = Table((), 0)
    outcomes: tuple[GateOutcome, ...] = ()
    failovers: tuple[RunStatus, ...] = ()
    drills: tuple[DrillRun, ...] = ()
    reports: tuple[KeptReport, ...] = ()


def flow_page_of(seen: SeenFlow, now: float) -> FlowPage:
    """Return what the page shows at `now` (epoch seconds)."""
    ends = seen.flow.state_alias, seen.flow.target.alias
    page = FlowPage(
        **card_of(seen, now),
        dags=tuple(
            (label, kind if kind in BY_HAND else dag_id_of(kind, *ends))
            for kind, label in DAGS.items()
            if seen.flow.homes is None or kind in HOMEWARD
        ),
        reports=seen.reports,
    )
    if seen.status is None or seen.ledger is None:
        return page
    return _filled(page, seen, seen.status, seen.ledger, now)


def _filled(page: FlowPage, seen: SeenFlow, status: FlowStatus, ledger: Ledger, now: float) -> FlowPage:
    known = ledger.known_source.topics if ledger.known_source is not None else ()
    if (details := seen.details) is not None:
        page = replace(
            page,
            groups_error=details.groups_error,
            coverage=coverage_rows(details.coverage),
            coverage_error=details.coverage_error,
            details_read=duration(max(0.0, now - details.at)),
        )
        if (groups := details.groups) is not None:
            page = replace(
                page,
                groups=_table(
                    sorted(
                        groups.rows,
                        key=lambda it: (_GROUP_ORDER[it.state], it.group, it.topic, it.partition),
                    )
                ),
                group_counts=_group_counts(groups.rows),
                uncovered=_table(groups.uncovered),
            )
    return replace(
        page,
        last_run=_run_address(seen.dag_id, ledger),
        members=status.members,
        topics=topics_of(status),
        gaps=_table(
            sorted(
                status.gaps,
                key=lambda it: (it.state is not GapState.OPEN, it.topic, it.partition, it.first_offset),
            )
        ),
        drift=_table([topic for topic in known if topic.drift]),
        outcomes=ledger.outcomes,
        failovers=tuple(status_of(recovery) for recovery in reversed(ledger.recoveries))[:MOST_RUNS],
        drills=tuple(reversed(ledger.drills))[:MOST_RUNS],
    )


def _table(rows: Iterable[Any]) -> Table:
    every = tuple(rows)
    return Table(every[:MOST_ROWS], len(every))


def _run_address(dag_id: str, ledger: Ledger) -> str:
    """Return where Airflow shows the run of the last cycle, below its Dags; "" if it was no run of Airflow's."""
    run = ledger.last_report.run_id if ledger.last_report is not None else ""
    return f"{quote(dag_id)}/runs/{quote(run, safe='')}" if run.startswith(AIRFLOWS_RUNS) else ""


def topics_of(status: FlowStatus) -> Table:
    """Return the rows of topics, worst first, and the names of those without one."""
    stopped = [
        TopicRow(
            topic.topic, topic.remote_topic, f"{topic.partitions or 0:,}", "", "", "", "stopped", Tone.BAD
        )
        for topic in status.stopped
    ]
    rows = sorted(status.topics, key=lambda it: (not it.over_budget, it.heartbeats, -_waiting(it), it.topic))
    room = max(0, MOST_ROWS - len(stopped))
    shown = (*stopped, *(_topic(row) for row in rows[:room]))[:MOST_ROWS]
    left = (*(row.name for row in stopped[MOST_ROWS:]), *(row.topic for row in rows[room:]))
    return Table(shown, len(stopped) + len(rows), left)


def _waiting(topic: TopicStatus) -> int:
    return (topic.lag_records or 0) + topic.undecided_records


def _topic(topic: TopicStatus) -> TopicRow:
    copied = sum(partition.last_upstream_offset + 1 for partition in topic.partitions)
    end = sum(partition.source_end for partition in topic.partitions)
    of = "unknown" if topic.lag_records is None else f"{end:,}"
    done = topic.lag_records == 0 and not topic.undecided_records and topic.rpo_seconds is not None
    word, tone = (
        ("up to date", Tone.GOOD) if done else ("behind", Tone.WARN) if copied else ("waiting", Tone.IDLE)
    )
    if topic.heartbeats:
        word, tone = "heartbeats", Tone.IDLE
    if topic.over_budget:
        word, tone = "over its RPO", Tone.BAD
    budget = f" of {duration(topic.rpo_budget_seconds)}" if topic.rpo_budget_seconds else ""
    return TopicRow(
        name=topic.topic,
        remote=topic.remote_topic,
        partitions=f"{len(topic.partitions):,}",
        copied_up_to=f"{copied:,} of {of}",
        lag="unknown" if topic.lag_records is None else f"{topic.lag_records:,}",
        behind="" if done else duration(topic.rpo_seconds) + budget,
        word=word,
        tone=tone,
    )


_GROUP_ORDER = {SyncState.WRONGLY_NOT: 0, SyncState.INTENTIONALLY_NOT: 1, SyncState.SYNCED: 2}


def _group_counts(rows: Sequence[GroupPartitionRow]) -> str:
    states = [row.state for row in rows]
    counts = ", ".join(f"{states.count(state):,} {state.value}" for state in _GROUP_ORDER)
    return f"{len({row.group for row in rows}):,} groups; positions: {counts}"


def coverage_rows(partitions: Sequence[PartitionCoverage]) -> tuple[CoverageRow, ...]:
    """Return a row per topic, the least proved first; the topics that have no row share the last one."""
    topics = {topic: (total(of), of) for topic, of in by_topic(partitions).items()}
    order = sorted(topics, key=lambda it: (*_coverage_rank(topics[it][0]), it))
    rows = [_coverage_row(topic, *topics[topic]) for topic in order[:MOST_ROWS]]
    rest = [one for topic in order[MOST_ROWS:] for one in topics[topic][1]]
    if rest:
        rows.append(_coverage_row(f"{len(order) - MOST_ROWS:,} topics more", total(rest), rest))
    return tuple(rows)


def _coverage_rank(whole: Coverage) -> tuple[bool, int]:
    return not whole.differences, 101 if whole.percent is None else whole.percent


def _coverage_row(name: str, whole: Coverage, partitions: Sequence[PartitionCoverage]) -> CoverageRow:
    differing = [str(partition.partition) for partition in partitions if partition.differences]
    return CoverageRow(
        name=name,
        partitions=len(partitions),
        proved="nothing copied" if whole.percent is None else f"{whole.percent} %",
        unproved=told(whole.unproved),
        audited="not all of it yet" if whole.at_ms is None else moment(whole.at_ms),
        differs=listed(differing, NUMBERED),
    )
