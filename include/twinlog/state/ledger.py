"""Read the ledger of a flow as one frozen state, and write records into it (twinlog.formats.ledger.records)."""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, TypeVar

from twinlog import clock
from twinlog.cluster.api import Cluster, ClusterReader
from twinlog.cluster.values import NO_SUCH_TOPIC, InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.formats.ledger import topics
from twinlog.formats.ledger.accepted import Accepted, Shown, Waiver, accepted_of
from twinlog.formats.ledger.audit import PartitionAudit
from twinlog.formats.ledger.entry import LEDGER_PARTITION, LedgerEntry
from twinlog.formats.ledger.gate import GateOutcome, KnownSource, RiskSample
from twinlog.formats.ledger.metadata import AclsAdded, PlanApplied, QuotasSet, TopicConfigsSet
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.parts import in_parts, is_over
from twinlog.formats.ledger.reading import LedgerReading, ReadLedger
from twinlog.formats.ledger.records import (
    LEFT_KINDS,
    CycleReport,
    FlowPhase,
    FlowState,
    LaneFence,
    LedgerRecord,
    Quarantine,
)
from twinlog.formats.ledger.recovery import DrillRun, PromotionPlan, RecoveryRun, TailExported
from twinlog.formats.ledger.writers import (
    CopyOutcome,
    FlowClaim,
    LaneWriter,
    MapHole,
    ReverseFlow,
    TakenOver,
    names_ever,
    source_ids,
)
from twinlog.grouped import grouped, without_keys
from twinlog.kafka_types import OfPartition, ReadRecord, SourceIncarnation, TopicPartition
from twinlog.lane.fence.ownership import Identity, why_not_ours
from twinlog.policy.state_topics import comes_home

log = logging.getLogger(__name__)

R = TypeVar("R")

P = TypeVar("P", bound=OfPartition)


@dataclass(frozen=True, slots=True)
class MetadataMemory:
    """Metadata the flow gave to the target and may take back; applied plans are by their digest."""

    configs: tuple[TopicConfigsSet, ...] = ()
    acls: tuple[AclsAdded, ...] = ()
    quotas: tuple[QuotasSet, ...] = ()
    applied: Mapping[str, PlanApplied] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ledger:
    """All that a flow remembers.

    - `incarnations` holds the incarnation of each source topic that is copied now, by topic; `every_incarnation` holds
      all, oldest first.
    - `beginnings`, `pauses`, `deleted` and `rebuilds` are by source topic, beginnings of the incarnation copied now, or
      of a topic whose copy could not be made yet.
    - Gaps and quarantined records are in order of topic, partition and offset.
    - What was accepted is in order of check, what was shown oldest first, risk samples oldest first.
    - `audits` are in order of topic and partition, one for each incarnation that was audited.
      `observed` is what was seen of partitions that another engine copies: while it does, an audit, too.
    - `claims` are in the order of the log: the first one owns the state.
    - `written_as` are the names of the flows whose lanes wrote, `source_ids` the clusters that are copied from, as far
      as known.
    - `recoveries` are the failovers and failbacks of the flow, oldest first; `promotion_plan` is the plan kept for the
      next failover.
    - `chains` are in order of topic and partition: what is known of the transforms that records were copied through.
    - `tails` tell what was exported of the records that were never copied.
    - `strange_rebuilds` would delete a topic that is no copy of theirs: somebody else wrote them, and none is obeyed.
    - `left_over` are keys of parts that no record names any more (twinlog.formats.ledger.parts).
    - `outcomes` are the gate's newest answers, the newest first.
    - `altered` are moves of a partition's copy by a person, oldest first.
    - `fence` is the newest, for those who look on: drivers read the fences themselves.
    """

    incarnations: Mapping[str, topics.Incarnation] = field(default_factory=dict)
    every_incarnation: tuple[topics.Incarnation, ...] = ()
    gaps: tuple[topics.Gap, ...] = ()
    quarantined: tuple[Quarantine, ...] = ()
    beginnings: Mapping[str, topics.Beginning] = field(default_factory=dict)
    leader_epochs: tuple[topics.LeaderEpoch, ...] = ()
    chains: tuple[topics.CopiedThrough, ...] = ()
    pauses: Mapping[str, topics.TopicPause] = field(default_factory=dict)
    deleted: Mapping[str, topics.DeletedTopic] = field(default_factory=dict)
    rebuilds: Mapping[str, topics.Rebuild] = field(default_factory=dict)
    flow_state: FlowState | None = None
    last_report: CycleReport | None = None
    copy_outcome: CopyOutcome | None = None
    accepted: tuple[Accepted, ...] = ()
    shown: tuple[Shown, ...] = ()
    risk_samples: tuple[RiskSample, ...] = ()
    known_source: KnownSource | None = None
    metadata: MetadataMemory = field(default_factory=MetadataMemory)
    audits: tuple[PartitionAudit, ...] = ()
    observed: Mapping[SourceIncarnation, Observed] = field(default_factory=dict)
    taken_over: tuple[TakenOver, ...] = ()
    left_over: tuple[bytes, ...] = ()
    altered: tuple[topics.OffsetsAltered, ...] = ()
    map_holes: tuple[MapHole, ...] = ()
    claims: tuple[FlowClaim, ...] = ()
    written_as: frozenset[str] = frozenset()
    reverse_flows: tuple[ReverseFlow, ...] = ()
    source_ids: frozenset[str] = frozenset()
    recoveries: tuple[RecoveryRun, ...] = ()
    promotion_plan: PromotionPlan | None = None
    tails: tuple[TailExported, ...] = ()
    drills: tuple[DrillRun, ...] = ()
    outcomes: tuple[GateOutcome, ...] = ()
    strange_rebuilds: tuple[topics.Rebuild, ...] = ()
    fence: LaneFence | None = None

    @property
    def phase(self) -> FlowPhase:
        """The flow's phase; a flow that was never paused or failed over is active."""
        return self.flow_state.state if self.flow_state is not None else FlowPhase.ACTIVE

    @property
    def copies(self) -> bool:
        """Say whether a cycle may copy: only an active flow's may."""
        return self.copies_for("")

    def copies_for(self, run: str) -> bool:
        """Say whether records may be copied on behalf of the failover or failback `run`, or of none ("")."""
        return self.flow_state is None or self.flow_state.lets_copy(run)

    def recovery(self, run: str) -> RecoveryRun | None:
        """Return a failover by its run's name."""
        return next((recovery_run for recovery_run in self.recoveries if recovery_run.run == run), None)

    @property
    def present_recovery(self) -> RecoveryRun | None:
        """The failover or failback that the flow's state belongs to, None if it belongs to none."""
        return self.recovery(self.flow_state.run) if self.flow_state and self.flow_state.run else None

    @property
    def present_failover(self) -> RecoveryRun | None:
        """The failover that the flow's state belongs to, also while the flow is on its way home."""
        run = self.present_recovery
        return self.recovery(run.failover) if run is not None and run.failover else run

    @property
    def came_home(self) -> bool:
        """Say whether a failback has brought records home from copies that have other names than their topics."""
        return any(comes_home(flow.ledger_topic) for flow in self.reverse_flows)

    def current(self, topic: str, topic_id: str) -> bool:
        """Say whether this is the incarnation of the topic that stored progress is about."""
        known = self.incarnations.get(topic)
        return known is not None and known.topic_id == topic_id


@dataclass(slots=True)
class _Memory:
    """The records read of one ledger, and the state made from them."""

    reading: LedgerReading = field(default_factory=LedgerReading)
    made: tuple[ReadLedger | None, Ledger] = (None, Ledger())
    said: frozenset[str] = frozenset()


_KNOWN: dict[tuple[str, str], _Memory] = {}
"""By alias and topic, for as long as the process runs: a ledger is read dozens of times in a cycle."""


def read_ledger(flow: FlowSettings, cluster: ClusterReader) -> Ledger:
    """Read the flow's ledger from its target, as `ledger_in`."""
    return _obeyed(flow, ledger_in(cluster, flow.ledger_topic))


def _obeyed(flow: FlowSettings, ledger: Ledger) -> Ledger:
    """Set rebuilds aside that would delete a topic which is no copy of theirs, by the file or by the ledger."""
    if flow.observed:  # what was observed is an audit, as long as nobody else judges the copy
        before = {audit.life: audit for audit in ledger.audits}
        seen = (observed.audit_behind(before.get(life)) for life, observed in ledger.observed.items())
        audits = *ledger.audits, *seen
        by_place = attrgetter("topic", "partition", "at_ms")
        ledger = replace(ledger, audits=tuple(sorted(audits, key=by_place)))
    strange = {
        topic: it
        for topic, it in ledger.rebuilds.items()
        if it.phase is topics.RebuildPhase.DELETING
        and it.remote_topic != flow.remote_name(topic)
        and ((life := ledger.incarnations.get(topic)) is None or it.remote_topic != life.remote_topic)
    }
    if not strange:
        return ledger
    rest = without_keys(ledger.rebuilds, strange)
    return replace(ledger, rebuilds=rest, strange_rebuilds=tuple(strange.values()))


def read_behind_fence(flow: FlowSettings, cluster: ClusterReader) -> Ledger:
    """Read the flow's ledger behind a fence, as `ledger_in`.

    The fence has just been written to the topic.  Raises TransientError `unsettled` if the cluster does not know the
    topic all the same: an empty ledger would forget pauses, incarnations and rebuilds.
    """
    try:
        latest = cluster.latest_records(flow.ledger_topic)
    except TerminalError as error:
        if error.code != NO_INTERNAL_TOPIC:
            raise
        raise TransientError(
            f"{flow.ledger_topic} is not known to {cluster.alias} any more: {error.message}",
            hint="nothing was changed; if the topic was deleted, restore it: it holds what the flow remembers",
            code="unsettled",
            flow=flow.name,
        ) from None
    return _obeyed(flow, _ledger_of(cluster, flow.ledger_topic, latest))


def ledger_in(cluster: ClusterReader, topic: str) -> Ledger:
    """Read the ledger that a topic holds, of any flow; empty while the topic does not exist.

    Raises FormatError for a record of an unknown kind or version: it may forbid what is about to be done.
    """
    return _ledger_of(cluster, topic, latest_records_or_empty(cluster, topic))


def _ledger_of(cluster: ClusterReader, topic: str, latest: Mapping[bytes, ReadRecord]) -> Ledger:
    memory = _KNOWN.setdefault((cluster.alias, topic), _Memory())
    found = memory.reading.read({key: kept.value for key, kept in latest.items()})
    of, ledger = memory.made
    if found is not of:
        ledger = replace(ledger_from(_claims_in_order(found.records, latest)), left_over=found.left_over)
        memory.made = found, ledger
        for kind in found.passed_over - memory.said:
            log.warning("%s has records %s, which nothing reads any more: %s", topic, kind, LEFT_KINDS[kind])
        memory.said |= found.passed_over
    return ledger


def records_in(cluster: ClusterReader, topic: str) -> tuple[LedgerRecord, ...]:
    """Read the records of a ledger, claims in the order of its log; none while the topic does not exist.

    Raises as `ledger_in`.
    """
    latest = latest_records_or_empty(cluster, topic)
    found = LedgerReading().read({key: kept.value for key, kept in latest.items()})
    return _claims_in_order(found.records, latest)


def _claims_in_order(
    records: Iterable[LedgerRecord], latest: Mapping[bytes, ReadRecord]
) -> tuple[LedgerRecord, ...]:
    """Sort claims by their place in the log, before all other records.

    A claim that moves is written as another record.
    """
    known = list(records)
    claims = sorted(
        (record for record in known if isinstance(record, FlowClaim)),
        key=lambda claim: latest[claim.key()].offset,
    )
    return (*claims, *(record for record in known if not isinstance(record, FlowClaim)))


def ledger_from(records: Iterable[LedgerRecord]) -> Ledger:
    """Sort records into the state they make."""
    known: Mapping[type, list[Any]] = grouped((type(record), record) for record in records)

    def every(kind: type[R], *by: str) -> tuple[R, ...]:
        found = known.get(kind, [])
        return tuple(sorted(found, key=attrgetter(*by)) if by else found)

    def newest(kind: type[R]) -> R | None:
        return next(iter(known.get(kind, ())), None)

    def by_topic(kind: type[R], *by: str) -> dict[str, R]:
        return {it.topic: it for it in every(kind, *by)}  # type: ignore[attr-defined]

    current = by_topic(topics.Incarnation, "number", "since_ms")
    old = [*map(accepted_of, every(Waiver)), *map(accepted_of, every(topics.GapAcknowledged))]
    return Ledger(
        incarnations=current,
        every_incarnation=every(topics.Incarnation, "number", "since_ms"),
        gaps=every(topics.Gap, "topic", "partition", "first_offset"),
        quarantined=every(Quarantine, "topic", "partition", "offset"),
        beginnings={
            beginning.topic: beginning
            for beginning in every(topics.Beginning, "at_ms")
            if beginning.topic not in current or beginning.topic_id == current[beginning.topic].topic_id
        },
        leader_epochs=every(topics.LeaderEpoch),
        chains=every(topics.CopiedThrough, "topic_partition"),
        pauses=by_topic(topics.TopicPause),
        deleted=by_topic(topics.DeletedTopic),
        rebuilds=by_topic(topics.Rebuild),
        flow_state=newest(FlowState),
        last_report=newest(CycleReport),
        copy_outcome=newest(CopyOutcome),
        accepted=tuple(sorted((*every(Accepted), *old), key=attrgetter("check", "subject", "at_ms"))),
        shown=every(Shown, "at_ms"),
        risk_samples=every(RiskSample, "at_ms"),
        known_source=newest(KnownSource),
        metadata=MetadataMemory(
            configs=every(TopicConfigsSet),
            acls=every(AclsAdded),
            quotas=every(QuotasSet),
            applied={applied.digest: applied for applied in every(PlanApplied)},
        ),
        audits=every(PartitionAudit, "topic", "partition", "at_ms"),
        observed={observed.life: observed for observed in every(Observed)},
        taken_over=every(TakenOver),
        altered=every(topics.OffsetsAltered, "at_ms"),
        map_holes=every(MapHole),
        claims=every(FlowClaim),
        written_as=names_ever(every(LaneWriter)),
        reverse_flows=every(ReverseFlow),
        source_ids=source_ids([*every(FlowClaim), *every(topics.Incarnation)]),
        recoveries=every(RecoveryRun, "started_ms", "run"),
        promotion_plan=newest(PromotionPlan),
        tails=every(TailExported),
        drills=every(DrillRun, "started_ms", "run"),
        outcomes=every(GateOutcome, "at_ms")[::-1],
        fence=newest(LaneFence),
    )


def of_partition(records: Sequence[P], topic: str, partition: int) -> Sequence[P]:
    """Return the records about one source partition, of a ledger's gaps, quarantined records, audits or samples."""
    place, place_of = TopicPartition(topic, partition), attrgetter("topic_partition")
    start = bisect_left(records, place, key=place_of)
    return records[start : bisect_right(records, place, lo=start, key=place_of)]


def why_not_own(
    flow: FlowSettings, ledger: Ledger, source_cluster_id: str, target_cluster_id: str
) -> TerminalError | None:
    """Return why the state on the target is not this flow's between these clusters. Pure.

    A cluster id is "" if the cluster does not answer. The result is None if the state is this flow's, or not claimed.
    """
    identity = Identity(flow.name, source_cluster_id, target_cluster_id)
    return why_not_ours(identity, ledger.claims, ledger.written_as, ledger.source_ids)


def require_own(flow: FlowSettings, ledger: Ledger, source_cluster_id: str, target_cluster_id: str) -> None:
    """Raise TerminalError unless the state on the target is this flow's, as `why_not_own`."""
    if refusal := why_not_own(flow, ledger, source_cluster_id, target_cluster_id):
        raise refusal


def require_ledger(flow: FlowSettings, target: ClusterReader) -> None:
    """Raise TerminalError `no-ledger` before the first cycle of a flow, and the refusal of a target that hides it."""
    error = target.describe_topics([flow.ledger_topic]).refused.get(flow.ledger_topic)
    if error is None:
        return
    raise error if error.code != NO_SUCH_TOPIC else no_ledger(flow)


def no_ledger(flow: FlowSettings) -> TerminalError:
    """Make the error for a flow that has never run."""
    return TerminalError(
        f"{flow.name} has never run: it has no ledger on {flow.target.alias}",
        hint=f"run one cycle first: twinlog run --once --flow '{flow.name}'"
        if flow.homes is None
        else "it gets one when a way home begins: twinlog failback",
        code="no-ledger",
        flow=flow.name,
    )


def write_ledger(
    flow: FlowSettings,
    cluster: Cluster,
    records: Iterable[LedgerEntry],
    forgotten: Iterable[LedgerEntry] = (),
) -> None:
    """Write reports into the flow's ledger, each replacing the one with its key; all or an error.

    A report is what one cycle, audit, gate, drill or look saw, under a key of its own or as the newest: nobody decides
    by an earlier one what to write, so no turn is needed. All else is changed by `twinlog.state.changes`.
    """
    if rows := rows_of(flow, cluster, records, forgotten, clock.now_ms()):
        cluster.produce(flow.ledger_topic, rows)


def rows_of(
    flow: FlowSettings,
    cluster: ClusterReader,
    written: Iterable[LedgerEntry],
    forgotten: Iterable[LedgerEntry],
    now_ms: int,
) -> list[InternalRecord]:
    """Return what is to be written into the ledger's topic, in its order, to write and to forget records.

    If a record is in parts, the record that names them is written last: until then the one before it counts. Parts of
    the replaced record are deleted afterwards, as far as they are known here.
    """
    entries = [(entry.key(), entry.value()) for entry in written] + [(it.key(), None) for it in forgotten]
    memory = _KNOWN.get((cluster.alias, flow.ledger_topic))
    old = [
        part for key, _ in entries for part in (memory.reading.parts_of(key) if memory is not None else ())
    ]
    rows = dict(in_part for key, value in entries for in_part in in_parts(key, value, now_ms))
    for part in old:
        rows.setdefault(part, None)
    return [InternalRecord(*it, LEDGER_PARTITION) for it in rows.items()]


def drop_left_over(flow: FlowSettings, cluster: Cluster, ledger: Ledger) -> None:
    """Delete parts that no record names, once their record cannot be about to be written any more."""
    now = clock.now_ms()
    gone = [InternalRecord(key, None, LEDGER_PARTITION) for key in ledger.left_over if is_over(key, now)]
    if gone:
        cluster.produce(flow.ledger_topic, gone)


NO_INTERNAL_TOPIC = "no-internal-topic"
"""Code of the error for a state topic that the cluster does not know."""


def latest_records_or_empty(cluster: ClusterReader, topic: str) -> Mapping[bytes, ReadRecord]:
    """Read the latest record of each key; nothing while the topic does not exist."""
    return _or_empty(cluster.latest_records, topic)


def latest_or_empty(cluster: ClusterReader, topic: str) -> Mapping[bytes, bytes | None]:
    """Read the latest value of each key; nothing while the topic does not exist."""
    return _or_empty(cluster.latest, topic)


def _or_empty(read: Callable[[str], Mapping[bytes, R]], topic: str) -> Mapping[bytes, R]:
    try:
        return read(topic)
    except TwinlogError as error:
        if error.code == NO_INTERNAL_TOPIC:
            return {}
        raise
