"""Turn one flow into its own page: every part shortened with counts, worst first.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from twinlog.airflow.flows import BY_HAND, HOMEWARD, dag_id_of
from twinlog.airflow.plugin.overview import FlowCard, card_of, strictest_rpo
from twinlog.airflow.plugin.plots import Plot, Point, bars, line, strip
from twinlog.airflow.plugin.reading import SeenFlow
from twinlog.airflow.plugin.reports import KeptReport
from twinlog.airflow.plugin.troubles import Tone
from twinlog.audit.coverage import GONE, Coverage, PartitionCoverage, by_topic, told, total
from twinlog.facts.gaps import GapState
from twinlog.formats.ledger.audit import Unproved
from twinlog.gate.record import duration, moment
from twinlog.groups.report import GroupPartitionRow, SyncState
from twinlog.judge.at_risk import SLOT_MS
from twinlog.recovery.history import RunStatus, status_of
from twinlog.visible import listed

if TYPE_CHECKING:
    from twinlog.formats.ledger.gate import GateOutcome, RiskSample
    from twinlog.formats.ledger.recovery import DrillRun
    from twinlog.monitoring.status import FlowStatus, TopicStatus
    from twinlog.state.ledger import Ledger

MOST_ROWS = 200
"""Rows of a table; what is left is counted, and topics are named below it."""

MOST_RUNS = 20
"""Failovers and drills."""

NUMBERED = 10
"""Differing partitions of a topic that are told."""

DAY_MS = 24 * 3_600_000

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

NOTHING, UNPROVED, LITTLE, MUCH, ALL, DIFFERS = range(6)
LEVELS = (
    "nothing copied",
    "nothing proved",
    "less than half proved",
    "half or more proved",
    "all proved",
    "differs from its source",
)


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
class HeatRow:
    """Audit coverage of a topic, or of all topics that have no row of their own."""

    name: str
    partitions: int
    proved: str
    unproved: str
    audited: str
    differs: str
    cells: str


@dataclass(frozen=True, slots=True)
class FlowPage(FlowCard):
    """The page of one flow."""

    dags: tuple[tuple[str, str], ...] = ()
    last_run: str = ""
    members: tuple[object, ...] = ()
    plots: tuple[Plot, ...] = ()
    topics: Table = Table((), 0)
    gaps: Table = Table((), 0)
    groups: Table = Table((), 0)
    group_counts: str = ""
    uncovered: Table = Table((), 0)
    groups_error: str = ""
    heat: tuple[HeatRow, ...] = ()
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
    details = seen.details
    groups = details.groups if details is not None else None
    known = ledger.known_source.topics if ledger.known_source is not None else ()
    return replace(
        page,
        last_run=_run_address(seen.dag_id, ledger),
        members=status.members,
        plots=plots_of(status, ledger.risk_samples, round(now * 1000)),
        topics=topics_of(status),
        gaps=_table(
            sorted(
                status.gaps,
                key=lambda it: (it.state is not GapState.OPEN, it.topic, it.partition, it.first_offset),
            )
        ),
        groups=_table(sorted(groups.rows, key=_group_rank)) if groups is not None else Table((), 0),
        group_counts=_group_counts(groups.rows) if groups is not None else "",
        uncovered=_table(groups.uncovered) if groups is not None else Table((), 0),
        groups_error=details.groups_error if details is not None else "",
        heat=heat_of(details.coverage) if details is not None else (),
        coverage_error=details.coverage_error if details is not None else "",
        details_read=duration(max(0.0, now - details.at)) if details is not None else "",
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


def _group_rank(row: GroupPartitionRow) -> tuple[int, str, str, int]:
    return _GROUP_ORDER[row.state], row.group, row.topic, row.partition


def _group_counts(rows: Sequence[GroupPartitionRow]) -> str:
    states = [row.state for row in rows]
    counts = ", ".join(f"{states.count(state):,} {state.value}" for state in _GROUP_ORDER)
    return f"{len({row.group for row in rows}):,} groups; positions: {counts}"


def heat_of(partitions: Sequence[PartitionCoverage]) -> tuple[HeatRow, ...]:
    """Return a row per topic, the least proved first; the topics that have no row share the last one."""
    topics = {topic: (total(of), of) for topic, of in by_topic(partitions).items()}
    order = sorted(topics, key=lambda it: (*_coverage_rank(topics[it][0]), it))
    rows = [_heat_row(topic, *topics[topic]) for topic in order[:MOST_ROWS]]
    rest = [one for topic in order[MOST_ROWS:] for one in topics[topic][1]]
    if rest:
        rows.append(_heat_row(f"{len(order) - MOST_ROWS:,} topics more", total(rest), rest))
    return tuple(rows)


def _coverage_rank(whole: Coverage) -> tuple[bool, int]:
    return not whole.differences, 101 if whole.percent is None else whole.percent


def level(it: PartitionCoverage) -> int:
    """Return how much of a partition is proved, as one of the `LEVELS`."""
    if it.differences:
        return DIFFERS
    gone = {one.reason: one.records for one in it.unproved if one.reason in GONE}
    comparable = it.records - sum(gone.values())
    if comparable <= 0:
        return NOTHING if it.records <= gone.get(Unproved.TARGET_RETENTION, 0) else UNPROVED
    if it.proved >= comparable:
        return ALL
    return UNPROVED if not it.proved else MUCH if 2 * it.proved >= comparable else LITTLE


def _heat_row(name: str, whole: Coverage, partitions: Sequence[PartitionCoverage]) -> HeatRow:
    levels = [level(partition) for partition in partitions]
    differing = [str(it.partition) for it, at in zip(partitions, levels, strict=True) if at == DIFFERS]
    return HeatRow(
        name=name,
        partitions=len(partitions),
        proved="nothing copied" if whole.percent is None else f"{whole.percent} %",
        unproved=told(whole.unproved),
        audited="not all of it yet" if whole.at_ms is None else moment(whole.at_ms),
        differs=listed(differing, NUMBERED),
        cells=strip(levels),
    )


def plots_of(status: FlowStatus, samples: Iterable[RiskSample], now_ms: int) -> tuple[Plot, ...]:
    """Draw the last day as cycles saw it: what was copied, what waited, and for how long against the RPO."""
    start = now_ms - DAY_MS
    day = sorted((sample for sample in samples if start <= sample.at_ms <= now_ms), key=attrgetter("at_ms"))
    if not day:
        return ()
    copied = [
        Point(sample.at_ms // SLOT_MS * SLOT_MS, sample.copied) for sample in day if sample.copied is not None
    ]
    lag = _with_holes([Point(sample.at_ms, sample.records) for sample in day])
    ages = _with_holes([
        Point(sample.at_ms, sample.age_ms / 1000 if sample.age_known else None) for sample in day
    ])
    most_copied = max((point.value or 0 for point in copied), default=0)
    most_lag, oldest = max(sample.records for sample in day), max((age.value or 0 for age in ages), default=0)
    limit = strictest_rpo(status)
    against = f"; the dashed line is the strictest RPO, {duration(limit)}" if limit else ""
    unknown = sum(not sample.age_known for sample in day)
    gaps = f"; unknown in {unknown:,} of {len(day):,} samples" if unknown else ""
    return (
        Plot(
            "Copied, per five minutes", _throughput(copied), bars(copied, start, now_ms, SLOT_MS, most_copied)
        ),
        Plot("Not copied yet, records", f"at most {most_lag:,}", line(lag, start, now_ms, most_lag)),
        Plot(
            "Age of the oldest record not copied",
            f"at most {duration(oldest)}{against}{gaps}",
            line(ages, start, now_ms, oldest, limit),
        ),
    )


def _throughput(copied: Sequence[Point]) -> str:
    counts = [int(point.value or 0) for point in copied]
    if not counts:
        return "not known: an older release wrote the samples"
    return f"{sum(counts):,} offsets in a day; most in five minutes: {max(counts):,}"


def _with_holes(points: Sequence[Point]) -> list[Point]:
    """Break the curve where no cycle reported for three slots: nobody knows what was there."""
    found: list[Point] = []
    for point in points:
        if found and point.at_ms - found[-1].at_ms > 3 * SLOT_MS:
            found.append(Point(found[-1].at_ms, None))
        found.append(point)
    return found
