"""Make the rows that the readiness gate judges from what was read.  Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.audit.verdict import ALL_OF_IT, wanted_percent
from twinlog.checks.check import Row
from twinlog.checks.coverage import PartitionCoverage, by_topic, total
from twinlog.checks.gaps import GapReport, open_gaps
from twinlog.checks.partitions import UNREAD_COPY, PartitionRow, columns_of
from twinlog.checks.topics import FOREVER, Side, TopicSide, topic_columns
from twinlog.clock import seconds_since
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown, known
from twinlog.formats.ledger.audit import Unproved
from twinlog.formats.ledger.gate import KnownSource, KnownTopic
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.topics import Incarnation, Rebuild, RebuildPhase
from twinlog.formats.map.packed_map import PackedMap
from twinlog.gate.answer import CoverageOf
from twinlog.gate.metadata import MetadataFacts
from twinlog.grouped import grouped
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.monitoring.at_risk import waiting_seconds
from twinlog.monitoring.cycle_report import rows_by_topic
from twinlog.monitoring.survey import Survey, ages_of, reported_progress, summarized, unmapped
from twinlog.monitoring.validate import TopicFacts, heartbeat_age
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps
from twinlog.topics.incarnations import no_longer_copied

MOST_OF_IT = 50
"""Percent of the records on both sides that must be proved if `twinlog.audit.percent` does not say.

It applies while copying goes on and once the source is lost: no audit can have reached the records copied last, which
may be many.
"""


@dataclass(frozen=True, slots=True)
class StandbyState:
    """The state on the target alone: progress, map, copies, audits, disks, gaps, and the ledger, as of `at_ms`.

    `sides` and `offsets` are those of the copies, under the copies' own names; a copy that is not there has no side.
    """

    ledger: Ledger
    progress: Mapping[TopicPartition, int]
    maps: Maps[PackedMap]
    coverage: tuple[PartitionCoverage, ...]
    sides: Mapping[str, TopicSide | Unknown]
    offsets: Mapping[TopicPartition, PartitionOffsets]
    disks: LogDirs
    at_ms: int
    gaps: tuple[GapReport, ...]


NOT_ASKED = Unknown("it was not asked")


@dataclass(frozen=True, slots=True)
class FlowFacts:
    """Tell what else the gate knows of a flow; what was not asked is unknown.

    `topics` counts the topics besides heartbeats.  `moving` are the topics whose end offsets moved, or that have an
    open transaction, while the source was watched.  `schemas_differing` is None if the flow copies no schemas,
    `state_writers` if the target knows no rights.
    """

    source_answers: bool
    topics: int
    moving: Collection[str] | None = None
    heartbeat_ms: int | None = None
    canary_seconds: float | None = None
    schemas_differing: int | None = None
    state_writers: int | Unknown | None = NOT_ASKED
    metadata: MetadataFacts = field(default_factory=MetadataFacts)


def flow_row(flow: FlowSettings, state: StandbyState, facts: FlowFacts) -> Row:
    """Make the one row about the flow itself; a flow that never ran has no last cycle to judge."""
    report = state.ledger.last_report
    return {
        "flow": flow.name,
        "cycles": 0 if report is None else 1,
        "last_cycle_failed": None if report is None else int(report.summary.get("state") == "failed"),
        "state_age_seconds": None
        if report is None
        else known(state_age(state), "its report is from the future"),
        "state_age_allowed": flow.gate.state_age_seconds,
        "out_of_service": int(
            state.ledger.phase.out_of_service
            and not (flow.recovery_run and state.ledger.copies_for(flow.recovery_run))
        ),
        "paused": int(state.ledger.phase is FlowPhase.PAUSED),
        "topics": facts.topics,
        "source_answers": int(facts.source_answers),
        "moving_partitions": NOT_ASKED if facts.moving is None else len(facts.moving),
        "heartbeat_age_seconds": heartbeat_age(facts.heartbeat_ms, state.at_ms),
        "heartbeat_age_allowed": flow.gate.heartbeat_age_seconds if flow.heartbeats_replication else None,
        "free_disk_percent": known(state.disks.free_percent, "the brokers do not tell their disks"),
        "free_disk_wanted": flow.gate.free_disk_percent,
        "canary_seconds": known(facts.canary_seconds, "it did not arrive"),
        "canary_allowed": flow.tiers[0].rpo_seconds,
        "schemas_differing": facts.schemas_differing,
        "state_writers": facts.state_writers,
        **facts.metadata.columns,
    }


def state_age(state: StandbyState) -> float | None:
    """Return the age of the last cycle report in seconds; None without a report, or if its clock was ahead of ours."""
    return seconds_since(
        None if state.ledger.last_report is None else state.ledger.last_report.at_ms, state.at_ms
    )


def partition_rows(
    flow: FlowSettings, ledger: Ledger, seen: Survey, heartbeat_topics: frozenset[str]
) -> tuple[Row, ...]:
    """Make one row per partition of the source; `heartbeat_topics` are the heartbeat topics."""
    return tuple(
        {
            **columns_of(row),
            # Heartbeats go on after the producers have stopped, so they are never all copied.
            "lag_allowed": FOREVER if row.topic in heartbeat_topics else flow.tier_of(row.topic).lag_records,
            "mapped_wanted": _mapped_wanted(
                row.target_log_start,
                row.target_stable_end,
                others=_others_write_too(flow, ledger, row.topic, row.remote_topic) and _maps_nothing(row),
            ),
        }
        for row in seen.rows
    )


def known_partition_rows(flow: FlowSettings, topics: Iterable[str], state: StandbyState) -> tuple[Row, ...]:
    """Make one row per partition that was copied, from the target alone."""
    reported = reported_progress(state.ledger)
    copied = known_partitions(state)
    rows: list[Row] = []
    for topic in topics:
        life = state.ledger.incarnations.get(topic)
        early = _deleted_early(state, life)
        for number in copied.get(topic, ()):
            at = TopicPartition(topic, number)
            there = state.offsets.get(TopicPartition(life.remote_topic if life else topic, number))
            source_life = SourceIncarnation(topic, life.topic_id if life else "", number)
            mapped = summarized(state.maps, source_life)
            last = state.progress.get(at)
            lost = unmapped(state.ledger, state.maps, source_life, reported.get(at), last, there)
            shared = _others_write_too(flow, state.ledger, topic, life.remote_topic if life else topic)
            rows.append({
                "topic": topic,
                "partition": number,
                "next_upstream": None if last is None else last + 1,
                "reported_next_upstream": reported.get(at),
                "target_log_start": there.log_start if there is not None else UNREAD_COPY,
                "target_stable_end": there.stable_end if there is not None else UNREAD_COPY,
                "mapped_records": mapped.records,
                "mapped_upstream_offsets": mapped.upstream_offsets,
                "mapped_downstream_offsets": mapped.downstream_offsets,
                "mapped_upstream_end": mapped.upstream_end,
                "mapped_downstream_end": mapped.downstream_end,
                "unmapped_offsets": lost,
                "deleted_early": early.get(number, 0),
                "mapped_wanted": _mapped_wanted(
                    there.log_start if there is not None else None,
                    there.stable_end if there is not None else None,
                    others=shared and lost == 0,
                ),
            })
    return tuple(rows)


def _deleted_early(state: StandbyState, life: Incarnation | None) -> Mapping[int, int]:
    """Count by partition what the last audit found to be deleted from a copy early; the source cannot be asked now."""
    return {
        it.partition: sum(span.records for span in it.unproved if span.reason is Unproved.DELETED_EARLY)
        for it in state.ledger.audits
        if life is not None and (it.topic, it.topic_id) == (life.topic, life.topic_id)
    }


def known_topics(
    flow: FlowSettings, ledger: Ledger, progress: Mapping[TopicPartition, int]
) -> tuple[str, ...]:
    """Return the source topics that the target knows of and that the flow still selects.

    They include topics in which the last cycle saw records at risk: their copies may never have been made.
    """
    seen = ledger.known_source
    names = set(ledger.incarnations) | {it.topic for it in progress}
    names |= {it.topic for it in seen.topics} if seen is not None else set()
    return tuple(sorted(it for it in names if not no_longer_copied(flow, ledger, it)))


def known_partitions(state: StandbyState) -> Mapping[str, Sequence[int]]:
    """Return the partition numbers of each topic of which something was copied."""
    return grouped(sorted(state.progress))


def topic_rows(
    flow: FlowSettings,
    seen: Survey,
    facts: TopicFacts,
    state: StandbyState,
    heartbeat_topics: frozenset[str],
    *,
    still_writing: bool = False,
) -> tuple[Row, ...]:
    """Make one row per topic about which both clusters were asked; `heartbeat_topics` are the heartbeat topics."""
    wanted = MOST_OF_IT if still_writing else ALL_OF_IT
    rows_of = rows_by_topic(seen.rows)
    gaps, covered = gaps_by_topic(state.gaps), by_topic(state.coverage)
    rows: list[Row] = []
    for it in seen.discovery.topics:
        if it.blocked:
            continue
        rows.append({
            **topic_columns(it.topic, *facts.sides(it), facts.target_brokers),
            **_promised(flow, it.topic, gaps, covered, state.at_ms, heartbeat_topics, wanted),
            **ages_of(flow, it, rows_of.get(it.topic, []), seen.at_ms),
            "source_partitions": it.partition_count,
            "partitions_seen": len(it.partitions),
            "known_partitions": it.partition_count,
            "target_partitions": it.remote.partitions if it.remote is not None else 0,
        })
    return tuple(rows)


def known_topic_rows(
    flow: FlowSettings,
    topics: Iterable[str],
    state: StandbyState,
    brokers: int,
    heartbeat_topics: frozenset[str],
) -> tuple[Row, ...]:
    """Make one row per known topic, from the target alone; facts of the source are those the last cycle saw.

    `heartbeat_topics` are the heartbeat topics.
    """
    seen = state.ledger.known_source
    at_risk = {it.topic: it for it in seen.topics} if seen is not None else {}
    gaps, covered, copied = gaps_by_topic(state.gaps), by_topic(state.coverage), known_partitions(state)
    rows: list[Row] = []
    for topic in topics:
        life = state.ledger.incarnations.get(topic)
        there = state.sides.get(life.remote_topic if life is not None else topic)
        last = at_risk.get(topic, KnownTopic(topic, 0, 0, None, None))
        rows.append({
            **topic_columns(topic, None, there, brokers),
            **_promised(flow, topic, gaps, covered, state.at_ms, heartbeat_topics, MOST_OF_IT),
            "known_partitions": max(last.partitions, *(number + 1 for number in copied.get(topic, ())), 0),
            "target_partitions": _partitions(there),
            **_last_seen(last, seen, life, state.ledger.rebuilds.get(topic)),
            "undecided_allowed": flow.gate.undecided_seconds,
        })
    return tuple(rows)


def _partitions(there: Side) -> int | Unknown:
    if isinstance(there, TopicSide):
        return len(there.description.partitions)
    return 0 if there is None else there


def _last_seen(
    it: KnownTopic, seen: KnownSource | None, life: Incarnation | None, rebuild: Rebuild | None
) -> Row:
    """Make the columns about what the last cycle saw of a topic on the source."""
    names = ("records_at_risk", "drifting_entries", "partitions_unread", "age_seconds", "undecided_seconds")
    if seen is None:
        return dict.fromkeys(names, Unknown("no cycle noted what it saw of the source"))
    never = Unknown("its copy was begun or emptied since the last cycle looked")
    pictured = _pictures(seen, life, rebuild)
    unread = Unknown("a partition could not be read")
    waited = known(waiting_seconds(it, seen.at_ms), "the oldest record has no time")
    held = known(held_seconds(it, seen), "nothing tells when a transaction began")
    return {
        "records_at_risk": (unread if it.unread else it.records_at_risk) if pictured else never,
        "drifting_entries": len(it.drift),
        "partitions_unread": it.unread,
        "age_seconds": waited if pictured else never,
        "undecided_seconds": held if pictured else never,
    }


def _pictures(seen: KnownSource, life: Incarnation | None, rebuild: Rebuild | None) -> bool:
    """Say whether the last picture of the source was compared with the copy that exists now.

    A copy that was begun or emptied since then lacks more than the picture says.  Of a copy that is being emptied the
    picture says nothing.
    """
    emptying = rebuild is not None and rebuild.phase is RebuildPhase.DELETING
    return not emptying and (life is None or life.since_ms <= seen.at_ms)


def gaps_by_topic(gaps: Iterable[GapReport]) -> Mapping[str, int]:
    """Count the open gaps and quarantined records of each topic."""
    return Counter(gap.topic for gap in open_gaps(gaps))


def _promised(
    flow: FlowSettings,
    topic: str,
    gaps: Mapping[str, int],
    covered: Mapping[str, Sequence[PartitionCoverage]],
    at_ms: int,
    heartbeat_topics: frozenset[str],
    wanted: int,
) -> Row:
    audited = total(covered.get(topic, ()))
    # No failover is made for the sake of heartbeats, and a canary may just have created their copy.
    judged = audited.held > 0 and topic not in heartbeat_topics
    # An audit that compared nothing does not count as an audit.
    age = audited.age_seconds(at_ms) if audited.compared else None
    audited_at = known(age, "a partition with records was never audited")
    return {
        "rpo_seconds": flow.tier_of(topic).rpo_seconds,
        "gaps": gaps.get(topic, 0),
        "audit_differences": audited.differences if audited.compared else None,
        "audit_age_seconds": audited_at if judged else None,
        "audit_age_allowed": flow.gate.audit_age_seconds,
        "unproved_records": sum(it.records for it in audited.unproved),
        "audited_percent": audited.audited_percent if judged else None,
        "audit_wanted_percent": wanted_percent(flow, topic, wanted) if judged else None,
    }


def _others_write_too(flow: FlowSettings, ledger: Ledger, topic: str, remote_topic: str) -> bool:
    """Say whether clients of the target write to the copy, or did: with the same names, or until a way home."""
    return flow.homes is not None or ledger.came_home or remote_topic == topic


def _maps_nothing(row: PartitionRow) -> bool:
    """Say whether the map is whole, or the source has no record: what the copy holds besides is its own clients'."""
    untouched = row.next_upstream is None and row.source_log_start == row.source_end
    return row.unmapped_offsets == 0 or untouched


def _mapped_wanted(log_start: int | None, stable_end: int | None, *, others: bool) -> int:
    """Return 1 if a map of the records that a copy holds must exist, else 0: it is empty, or all are from `others`."""
    return int(not others and log_start is not None and stable_end is not None and stable_end > log_start)


def held_seconds(it: KnownTopic, seen: KnownSource) -> float | None:
    """Return how long a transaction had held records back when the source was last seen.

    0 if no transaction did, None if that is unknown.
    """
    if not seen.undecided_seen:
        return None
    return seconds_since(it.undecided_ms, seen.at_ms) if it.undecided else 0.0


def coverage_by_topic(state: StandbyState) -> tuple[CoverageOf, ...]:
    """Return for each topic how much of it is proved."""
    sums = {topic: total(partitions) for topic, partitions in sorted(by_topic(state.coverage).items())}
    return tuple(
        CoverageOf(
            topic,
            it.records,
            it.proved,
            it.differences,
            it.age_seconds(state.at_ms),
            it.comparable,
            it.percent,
            it.unproved,
        )
        for topic, it in sums.items()
    )
