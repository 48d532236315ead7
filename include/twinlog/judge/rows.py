"""Make the rows that checks look at from the facts of a flow: the same for cycles and for the gate.  Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.audit.coverage import Coverage, PartitionCoverage, by_topic, total
from twinlog.audit.verdict import ALL_OF_IT, wanted_percent
from twinlog.clock import seconds_since
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import NOT_ASKED, Count, Total, Unknown, known
from twinlog.fact import total as sum_of
from twinlog.facts.flow import FlowFacts
from twinlog.facts.gaps import open_gaps
from twinlog.facts.partition import MapSummary, PartitionFacts
from twinlog.facts.topic import FOREVER, TopicFacts, topic_columns
from twinlog.formats.ledger.observed import CHANGED, FOREIGN, KINDS, MISSING, Observed
from twinlog.formats.ledger.records import FlowPhase
from twinlog.grouped import grouped
from twinlog.judge.check import Cell, Row, Use
from twinlog.judge.observed import CAUSES
from twinlog.kafka_types import SourceIncarnation, TopicPartition

MOST_OF_IT = 50
"""Percent of the records on both sides that must be proved if `twinlog.audit.percent` does not say.

It applies while copying goes on and once the source is lost: no audit can have reached the records copied last, which
may be many.
"""

UNREAD_COPY = Unknown("the copy's end cannot be read")
LOST_OPEN = Unknown("records have left the copy: a cycle judges them once the map tells of them")

Names = Collection[str] | Unknown | None


@dataclass(frozen=True, slots=True)
class Asked:
    """Tell what the gate asks beside the facts of the flow; what was not asked is unknown.

    `moving` are the topics whose end offsets moved, or that have an open transaction, while the source was watched;
    `moving_lines` say who writes to them.  `schemas` differ, None if the flow copies none; `state_writers` may write to
    the flow's state, None if the target knows no rights.  `canary_seconds` are None if no canary was sent.  `metadata`
    are the columns about rights, quotas and configs.
    """

    source_answers: bool
    free_disk_percent: float | None = None
    state_writers: Names = NOT_ASKED
    moving: Names = NOT_ASKED
    moving_lines: tuple[str, ...] = ()
    canary_seconds: float | Unknown | None = None
    schemas: Names = None
    metadata: Row = field(default_factory=dict)

    @property
    def columns(self) -> Row:
        """Return the columns that checks look at."""
        return {
            "source_answers": int(self.source_answers),
            "moving_partitions": _count(self.moving),
            "moving": self.moving_lines,
            "free_disk_percent": known(self.free_disk_percent, "the brokers do not tell their disks"),
            "canary_seconds": self.canary_seconds,
            "schemas_differing": _count(self.schemas),
            "schemas": named(self.schemas),
            "state_writers": _count(self.state_writers),
            "writers": named(self.state_writers),
            **self.metadata,
        }


def _count(names: Names) -> Cell:
    return names if names is None or isinstance(names, Unknown) else len(names)


def named(names: Names) -> tuple[str, ...]:
    """Return the names that are known."""
    return () if names is None or isinstance(names, Unknown) else tuple(names)


def rows_of(
    flow: FlowSettings,
    facts: FlowFacts,
    use: Use,
    covered: Iterable[PartitionCoverage] = (),
    *,
    beside: Asked | None = None,
    groups: Sequence[Row] = (),
) -> Mapping[str, Sequence[Row]]:
    """Make the rows of every suite of the table, by its name; a cycle asks neither `beside` nor what was audited."""
    return {
        "blocked": blocked_rows(facts),
        "flow": ({**flow_row(flow, facts), **(beside.columns if beside is not None else {})},),
        "topics": topic_rows(flow, facts, use, covered),
        "partitions": partition_rows(flow, facts),
        "groups": groups,
    }


def blocked_rows(facts: FlowFacts) -> tuple[Row, ...]:
    """Make one row per topic: whether it is not copied at all, or not any more, and why."""
    problems = grouped(
        (problem.topic, f"{problem.message}; {problem.hint}")
        for problem in facts.problems
        if problem.forbids_failover
    )
    return tuple(
        {"topic": topic, "blocked": int(topic in problems), "problems": tuple(problems.get(topic, ()))}
        for topic in sorted({topic.topic for topic in facts.topics} | problems.keys())
    )


def flow_row(flow: FlowSettings, facts: FlowFacts) -> Row:
    """Make the one row about the flow itself; before its first cycle there is none to judge, and no heartbeat."""
    ledger = facts.ledger
    report, phase = ledger.last_report, ledger.phase
    acting = flow.recovery_run and ledger.copies_for(flow.recovery_run)
    return {
        "flow": flow.name,
        "gaps": len(open_gaps(facts.gaps)),
        "cycles": 0 if report is None else 1,
        "last_cycle_failed": None if report is None else int(report.summary.get("state") == "failed"),
        "state_age_seconds": None
        if report is None
        else known(seconds_since(report.at_ms, facts.at_ms), "its report is from the future"),
        "state_age_allowed": flow.gate.state_age_seconds,
        "out_of_service": int(phase.out_of_service and not acting),
        "paused": int(phase is FlowPhase.PAUSED and not flow.observed),
        "topics": sum(not topic.heartbeats and not topic.left_out for topic in facts.topics),
        "heartbeat_age_seconds": heartbeat_age(facts),
        "heartbeat_age_allowed": flow.tiers[0].rpo_seconds if flow.heartbeats_replication else None,
        "free_disk_wanted": flow.gate.free_disk_percent,
        "canary_allowed": flow.tiers[0].rpo_seconds,
    }


def heartbeat_age(facts: FlowFacts) -> float | Unknown | None:
    """Return how old the newest copied heartbeat is; None before the first cycle, when nothing has written any."""
    return None if facts.ledger.last_report is None else age_of_beat(facts.heartbeat_ms, facts.at_ms)


def age_of_beat(heartbeat_ms: int | Unknown | None, now_ms: int) -> float | Unknown:
    """Return how old a heartbeat is."""
    if heartbeat_ms is None:
        return Unknown("no heartbeat was copied")
    if isinstance(heartbeat_ms, Unknown):
        return heartbeat_ms
    return known(seconds_since(heartbeat_ms, now_ms), "the newest heartbeat is from the future")


def topic_rows(
    flow: FlowSettings, facts: FlowFacts, use: Use, covered: Iterable[PartitionCoverage]
) -> tuple[Row, ...]:
    """Make one row per topic that is not blocked."""
    gaps = Counter(gap.topic for gap in open_gaps(facts.gaps))
    wanted = ALL_OF_IT if use is Use.PLANNED else MOST_OF_IT
    parts = by_topic(covered)
    return tuple(
        {
            "topic": topic.topic,
            **topic_columns(topic.source, topic.copy, facts.target_brokers),
            "rpo_seconds": flow.tier_of(topic.topic).rpo_seconds,
            "age_seconds": topic.age_seconds,
            "undecided_seconds": topic.undecided_seconds,
            "undecided_allowed": flow.gate.undecided_seconds,
            "held_by": _holders(facts, topic),
            "gaps": gaps[topic.topic],
            "source_partitions": topic.partition_count,
            "partitions_seen": topic.partition_count - topic.unseen,
            "partitions_unread": topic.unseen,
            "known_partitions": topic.partition_count,
            "target_partitions": topic.copy_partitions,
            "records_at_risk": topic.missing.fact,
            "drifting_entries": topic.drift if isinstance(topic.drift, Unknown) else len(topic.drift),
            **_audited(flow, topic, total(parts.get(topic.topic, ())), facts.at_ms, wanted),
            **_found(flow, facts, topic),
            **_unproved(flow, facts, topic, total(parts.get(topic.topic, ()))),
        }
        for topic in facts.judged
    )


def _holders(facts: FlowFacts, topic: TopicFacts) -> tuple[str, ...]:
    """Name the producers that hold transactions of a topic open, now or when the last cycle looked."""
    now = tuple(
        f"{partition.message}; {partition.hint}"
        for partition in facts.undecided
        if partition.topic == topic.topic
    )
    return now if facts.live else tuple(filter(None, [topic.held_by]))


def _audited(flow: FlowSettings, topic: TopicFacts, audited: Coverage, at_ms: int, wanted: int) -> Row:
    # No failover is made for the sake of heartbeats, and a canary may just have created their copy.
    judged = audited.held > 0 and not topic.heartbeats
    # An audit that compared nothing does not count as an audit.
    age = audited.age_seconds(at_ms) if audited.compared else None
    return {
        "audit_differences": audited.differences if audited.compared and not flow.observed else None,
        "audit_age_seconds": known(age, "a partition with records was never audited") if judged else None,
        "audit_age_allowed": flow.gate.audit_age_seconds,
        "audited_percent": audited.audited_percent if judged else None,
        "audit_wanted_percent": wanted_percent(flow, topic.topic, wanted) if judged else None,
    }


def _unproved(flow: FlowSettings, facts: FlowFacts, topic: TopicFacts, audited: Coverage) -> Row:
    """Count what is not proved equal: in a copy that another engine makes also what was found wrong, or not seen."""
    counts: list[Count | Total] = [count.records for count in audited.unproved]
    if flow.observed and not topic.heartbeats:
        counts += [*found_in(facts, topic).values(), *(() if facts.live else (topic.missing,))]
    unproved = sum_of(counts)
    return {"unproved_records": unproved.least or unproved.fact}


FOUND = {kind: f"{kind}_found" for kind in KINDS}
"""The columns of records that are wrong in a copy which another engine makes, by kind."""


def _found(flow: FlowSettings, facts: FlowFacts, topic: TopicFacts) -> Row:
    if not flow.observed or topic.copy is None:
        return dict.fromkeys(FOUND.values())
    every = found_in(facts, topic).items()
    found = {FOUND[kind]: it if it.least and it.doubt else it.fact for kind, it in every}
    beyond, how = _beyond(facts, topic), how_changed(topic.topic, _observed(facts, topic))
    strange = f"{topic.topic}: {beyond:,} of them in partitions that the source does not have"
    return {**found, "changed_how": tuple(how), "foreign_how": (strange,) if beyond else ()}


def _beyond(facts: FlowFacts, topic: TopicFacts) -> int:
    """Count the records in partitions of an observed copy that its source does not have: nobody looks at them."""
    end = topic.copy_partitions if isinstance(topic.copy_partitions, int) else 0
    places = (TopicPartition(topic.remote_topic, number) for number in range(topic.partition_count, end))
    return sum(it.end - it.log_start for place in places if (it := facts.copies.get(place)) is not None)


def _observed(facts: FlowFacts, topic: TopicFacts) -> list[Observed]:
    places = (
        SourceIncarnation(topic.topic, topic.topic_id, partition.partition) for partition in topic.partitions
    )
    return [it for place in places if (it := facts.ledger.observed.get(place)) is not None]


def how_changed(topic: str, seen: Collection[Observed]) -> Iterator[str]:
    """Say which fields the engine has changed in how many copies, those that are named, and what may have done it."""
    named = [finding for observed in seen for finding in observed.findings if finding.kind == CHANGED]
    others = sum(observed.counts.get(CHANGED, 0) for observed in seen) - sum(it.records for it in named)
    least = "at least " if others else ""
    none_equal = "" if any(observed.equal for observed in seen) else ", and no copy is equal"
    for fields, findings in grouped((finding.fields, finding) for finding in named).items():
        records = sum(finding.records for finding in findings)
        causes = " or ".join(CAUSES[name] for name in fields)
        yield f"{topic}: {', '.join(fields)} of {least}{records:,}{none_equal}: likely {causes}"


def found_in(facts: FlowFacts, topic: TopicFacts) -> Mapping[str, Total]:
    """Count by kind what was found in an observed copy; what nobody has looked at leaves it known in part."""
    seen = _observed(facts, topic)
    others = topic.partition_count - len(seen)
    unseen = f"{others} partition(s) were not observed yet" if others > 0 else ""
    passed_over = sum(observed.passed_over for observed in seen)
    waiting = f"{passed_over:,} record(s) have no copy so far, though later ones have" if passed_over else ""
    unmatched = any(observed.unmatched for observed in seen)
    open_end = "records at the end of the copy are like none of the source so far" if unmatched else ""

    return {
        kind: Total(
            sum(observed.counts.get(kind, 0) for observed in seen)
            + (_beyond(facts, topic) if kind == FOREIGN else 0),
            unseen or (waiting if kind == MISSING else open_end),
        )
        for kind in KINDS
    }


def partition_rows(flow: FlowSettings, facts: FlowFacts) -> tuple[Row, ...]:
    """Make one row per partition that could be looked at."""
    home = flow.homes is not None or facts.ledger.came_home
    return tuple(
        {
            **columns_of(row),
            # Heartbeats go on after the producers have stopped, so they are never all copied.
            "lag_allowed": FOREVER if topic.heartbeats else flow.tier_of(row.topic).lag_records,
            # Clients of the target write to a copy with the same name, and did until a way home.
            "mapped_wanted": map_wanted(row, shared=home or row.remote_topic == row.topic),
        }
        for topic in facts.judged
        for row in topic.partitions
    )


PLAIN_COLUMNS = (
    *("topic", "partition", "source_log_start", "source_end", "next_upstream", "lag_records"),
    *("target_log_start", "target_stable_end", "source_partitions", "target_partitions"),
    *("reported_next_upstream", "missing_records", "unmapped_offsets", "deleted_early"),
)


def columns_of(row: PartitionFacts) -> Row:
    """Return the columns of a partition."""
    mapped = {f"mapped_{name}": value for name, value in dataclasses.asdict(row.mapped).items()}
    columns = {name: getattr(row, name) for name in PLAIN_COLUMNS}
    if row.next_upstream is None and row.reported_next_upstream is not None:
        columns["next_upstream"] = Unknown("no progress is stored, though the last cycle reported some")
    if row.copy_unseen:
        columns["target_stable_end"] = UNREAD_COPY
    if (
        row.mapped == MapSummary() and row.unmapped_offsets != 0
    ):  # no map, or none that can be read: nothing to judge
        mapped |= dict.fromkeys(
            ("mapped_upstream_offsets", "mapped_downstream_offsets"), row.unmapped_offsets
        )
    if row.lost_open and not row.deleted_early:
        columns["deleted_early"] = LOST_OPEN
    return columns | mapped


def map_wanted(row: PartitionFacts, *, shared: bool) -> int:
    """Return 1 if a map of the records that a copy holds must exist, else 0: it is empty, or all are of others.

    All are of others if others write to it, and the map is whole, or the source has no record.
    """
    start, end = row.target_log_start, row.target_stable_end
    source = {row.source_log_start, row.source_end}
    untouched = row.next_upstream is None and len(source) == 1 and isinstance(row.source_end, int)
    whole = (row.unmapped_offsets == 0 and not row.open_offsets) or untouched
    return int(not (shared and whole) and start is not None and end is not None and end > start)
