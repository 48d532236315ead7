"""Decide from state that was read before what an audit compares, and what it cannot.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from twinlog.audit.comparison.map_ranges import downstream_range, sample
from twinlog.audit.comparison.values import Scope
from twinlog.audit.deleted_early import issue_of
from twinlog.audit.lane import AuditSpec
from twinlog.audit.problems import NOTHING_COPIED, AuditState, found_problems, map_lost
from twinlog.checks.coverage import left_target, mapped_between, standing, without
from twinlog.checks.map_holes import LostStretch, bounds_of, lost_stretches
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings, Guarantee
from twinlog.formats.ledger.audit import FoundDifference, PartitionAudit, SampleAudit, Unproved, UnprovedSpan
from twinlog.formats.ledger.topics import CopiedThrough, GapCause
from twinlog.kafka_types import Issue, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.spans import Spans
from twinlog.state.ledger import Ledger, of_partition
from twinlog.state.progress import SourceIncarnation
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.transforms.chain import Chain

_FOUND_ANEW = frozenset({Unproved.MAP_LOST, Unproved.DELETED_EARLY, Unproved.TARGET_RETENTION})
"""Reasons that each audit finds again for all of the copy, whatever earlier audits said."""


class AuditMode(StrEnum):
    """Name how much is compared: what is new since the last audit, everything, or a share of everything."""

    INCREMENTAL = "incremental"
    FULL = "full"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """Tell what is asked for.

    `share` (0 to 1) and `seed` choose a sample.  `topics` None means all topics of the flow.
    """

    mode: AuditMode = AuditMode.INCREMENTAL
    share: float = 1.0
    seed: int = 0
    topics: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition: its scopes, what is known in advance to be unprovable, and the audit it continues.

    `end` is the upstream offset up to which it will be audited.  `held` counts the mapped records before `end` that
    the copy has not lost to its retention; `lost` is what the map has lost.  `sampled` holds findings of earlier
    samples that still stand; in `before` they are already included.  `claims` is false if findings may be reported but
    prove nothing of the present topic.
    """

    life: SourceIncarnation
    remote_topic: str
    remote_topic_id: str
    offset_map: OffsetMap
    start: int
    end: int
    downstream_end: int
    specs: tuple[AuditSpec, ...]
    unproved: tuple[UnprovedSpan, ...] = ()
    before: PartitionAudit | None = None
    claims: bool = True
    sampled: SampleAudit | None = None
    held: int = 0
    lost: tuple[LostStretch, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Tell what to compare, and the problems that keep the rest from being compared."""

    partitions: tuple[PartitionPlan, ...]
    problems: tuple[Issue, ...]


def plan(flow: FlowSettings, state: AuditState, request: AuditRequest) -> AuditPlan:
    """Decide what is compared."""
    partitions: list[PartitionPlan] = []
    problems = list(found_problems(flow, state, request.topics))
    for topic in state.discovery.topics:
        if request.topics is None or topic.topic in request.topics:
            partitions += (
                it
                for partition in topic.partitions
                if (it := _partition(flow, topic, partition, state, request))
            )
            for partition in topic.partitions:
                problems += _lost_without_records(topic, partition, state)
    for it in partitions:
        problems += map_lost(it.life.topic, f"{it.remote_topic}-{it.life.partition}", it.lost)
        if (early := state.early.get(it.life.topic_partition)) is not None:
            problems.append(issue_of(it.life.topic, it.remote_topic, it.life.topic_partition, early))
    if not any(it.held for it in partitions) and not problems:
        message = f"no record of {flow.name} was copied yet, or nothing of it is left on {flow.target.alias}"
        problems.append(Issue(NOTHING_COPIED, "", message, "run a cycle first"))
    return AuditPlan(tuple(partitions), tuple(problems))


def _partition(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    state: AuditState,
    request: AuditRequest,
) -> PartitionPlan | None:
    life = SourceIncarnation(topic.topic, topic.topic_id, partition.partition)
    if life in state.maps.broken:
        return None
    offset_map = state.maps.get(life)
    claims = offset_map is not None
    chain = flow.chain_of(topic.topic, topic.remote_topic)
    chains = of_partition(state.ledger.chains, life.topic, life.partition)
    if offset_map is None and not chain and not chains:
        offset_map = _map_of_an_earlier_incarnation(life, state)
    if offset_map is None or not offset_map.records or partition.target is None or topic.remote is None:
        return None
    before, sampled = _earlier(state.ledger, life)
    if before is not None and before.remote_topic_id != topic.remote.topic_id:
        before = None
    looked_to = before
    if request.mode is not AuditMode.INCREMENTAL:
        before = None
    if before is not None and sampled is not None:
        before = _joined(before, sampled)
    start = max(before.end, offset_map.first_upstream) if before else offset_map.first_upstream
    end = max(start, _mapped_to(life, offset_map, state)) if claims else offset_map.end_upstream
    lost = _lost(life, offset_map, partition.target, state) if claims else ()
    unproved = [UnprovedSpan(it.start, it.end, it.records, Unproved.MAP_LOST) for it in lost]
    if claims and (early := state.early.get(life.topic_partition)) is not None:
        unproved.append(UnprovedSpan(early.start, early.end, early.records, Unproved.DELETED_EARLY))
    if before is None and not any(it.end == offset_map.first_upstream for it in lost):
        unproved += _before_the_map(partition, offset_map, state, life)
    gone_to = offset_map.first_upstream_at(partition.target.log_start)
    unproved = [*left_target(offset_map, unproved, gone_to)]
    if before is not None:
        kept = [it for it in before.unproved if it.reason not in _FOUND_ANEW and it.end > gone_to]
        held = left_target(offset_map, kept, gone_to)
        before = replace(
            before, unproved=tuple(it for it in held if it.reason is not Unproved.TARGET_RETENTION)
        )
    start = min(max(start, gone_to), end)
    if partition.source.log_start > start:
        count = mapped_between(offset_map, start, min(partition.source.log_start, end))
        if count:
            expired = min(partition.source.log_start, end)
            unproved.append(UnprovedSpan(start, expired, count, Unproved.SOURCE_RETENTION))
        start = min(partition.source.log_start, end)
    since = min(_copied_through(chain, life, chains, offset_map.end_upstream), end)
    unproved += _before_the_chain(offset_map, start, since)
    start = max(start, since)
    scopes = _scopes(flow, topic, partition, offset_map, (start, end), looked_to, state, life, request)
    stretches = tuple((it.start, it.end) for it in lost)
    scopes = [replace(it, chain=chain, source=life.topic_partition, lost=stretches) for it in scopes]
    look_behind = request.mode is not AuditMode.SAMPLE
    specs = tuple(
        AuditSpec(
            life.topic,
            life.topic_id,
            topic.remote_topic,
            life.partition,
            scope,
            partition.source.readable_end(read_committed=flow.copy.read_committed),
            partition.target.stable_end,
            look_behind,
        )
        for scope in scopes
    )
    return PartitionPlan(
        life,
        topic.remote_topic,
        topic.remote.topic_id,
        offset_map,
        before.start if before else offset_map.first_upstream,
        end,
        max(
            (it.downstream_end for it in scopes),
            default=before.downstream_end if before else _reached(offset_map, end),
        ),
        specs,
        tuple(unproved),
        before,
        claims,
        sampled,
        mapped_between(offset_map, gone_to, end),
        lost,
    )


def _lost_without_records(
    topic: DiscoveredTopic, partition: DiscoveredPartition, state: AuditState
) -> Iterator[Issue]:
    """Report what is lost of a map that holds no record: there is nothing to compare, but there may have been."""
    life = SourceIncarnation(topic.topic, topic.topic_id, partition.partition)
    offset_map = state.maps.get(life)
    if offset_map is not None and not offset_map.records and partition.target is not None:
        copy = f"{topic.remote_topic}-{life.partition}"
        yield from map_lost(life.topic, copy, _lost(life, offset_map, partition.target, state))


def _before_the_chain(offset_map: OffsetMap, start: int, since: int) -> Iterator[UnprovedSpan]:
    """Yield what was copied from `start` on through other transforms, up to where the present ones begin."""
    count = mapped_between(offset_map, start, since) if start < since else 0
    if count:
        yield UnprovedSpan(start, since, count, Unproved.OTHER_CHAIN)


def _copied_through(
    chain: Chain, life: SourceIncarnation, noted: Iterable[CopiedThrough], nothing: int
) -> int:
    """Return the upstream offset from which on all was copied through `chain`; `nothing` if nothing was."""
    for it in noted:
        if it.topic_id == life.topic_id:
            return it.since_offset if it.print == chain.print else nothing
    return nothing if chain else 0


def _lost(
    life: SourceIncarnation, offset_map: OffsetMap, target: PartitionOffsets, state: AuditState
) -> tuple[LostStretch, ...]:
    """Return what was copied before the map was read and the map does not cover; progress was read before the map."""
    last = state.progress.get(life.topic_partition)
    copied_to = None if last is None else last + 1
    bounds = bounds_of(state.ledger, life, copied_to, target.log_start, target.stable_end)
    return tuple(lost_stretches(offset_map, bounds))


def _earlier(ledger: Ledger, life: SourceIncarnation) -> tuple[PartitionAudit | None, SampleAudit | None]:
    """Return the last audit of a partition, and what samples have found since."""
    place = life.topic, life.partition
    audit = next((it for it in of_partition(ledger.audits, *place) if it.topic_id == life.topic_id), None)
    sample = next((it for it in of_partition(ledger.sampled, *place) if it.topic_id == life.topic_id), None)
    return audit, standing(sample, audit)


def _joined(before: PartitionAudit, sampled: SampleAudit) -> PartitionAudit:
    """Join them: an audit that continues `before` keeps a sample's earlier findings and compares the rest itself."""
    anew = (it for it in sampled.differences if not _in_front(it, before))
    kept = without(sampled, tuple(anew))
    return replace(
        before,
        difference_count=before.difference_count + kept.difference_count,
        differences=before.differences + kept.differences,
    )


def _in_front(it: FoundDifference, before: PartitionAudit) -> bool:
    if it.upstream_offset is not None:
        return it.upstream_offset < before.end
    return it.downstream_offset is None or it.downstream_offset < before.downstream_end


def _reached(offset_map: OffsetMap, end: int) -> int:
    """Return where the copies of what lies below upstream `end` end downstream.

    Without copies there, return where the first copy begins.
    """
    if end <= int(offset_map.upstream[0]):
        return int(offset_map.downstream[0])
    return downstream_range(offset_map, offset_map.first_upstream, end)[1]


def _mapped_to(life: SourceIncarnation, offset_map: OffsetMap, state: AuditState) -> int:
    """Return the upstream offset up to which all was copied before the ends of the logs were read.

    By now the map may reach further.  Progress cannot tell: it is absent until the first copy, and that of an earlier
    incarnation may reach further.
    """
    return min(offset_map.end_upstream, state.map_ends.get(life, offset_map.first_upstream))


def _map_of_an_earlier_incarnation(life: SourceIncarnation, state: AuditState) -> OffsetMap | None:
    for earlier in reversed(state.ledger.every_incarnation):
        found = state.maps.seen(SourceIncarnation(life.topic, earlier.topic_id, life.partition))
        if earlier.topic == life.topic and isinstance(found, OffsetMap):
            return found
    return None


def _before_the_map(
    partition: DiscoveredPartition, offset_map: OffsetMap, state: AuditState, life: SourceIncarnation
) -> Iterator[UnprovedSpan]:
    """Yield what the source has before the map begins although the copy should hold it."""
    beginning = state.ledger.beginnings.get(life.topic)
    begin = partition.source.log_start
    if beginning is not None and beginning.topic_id == life.topic_id:
        begin = max(begin, beginning.offsets.get(str(life.partition), 0))
    end = offset_map.first_upstream
    if begin < end:
        first = int(offset_map.downstream[0])
        log_start = partition.target.log_start if partition.target is not None else 0
        early = state.early.get(life.topic_partition)
        if 0 < log_start >= first:
            end = end if early is None else min(end, early.start)
            yield UnprovedSpan(begin, end, max(0, end - begin), Unproved.TARGET_RETENTION)
        else:
            # If a copy has lost its oldest records, no more of them stood before the map than there is room for.
            room = first - log_start if log_start else end - begin
            yield UnprovedSpan(begin, end, min(end - begin, room), Unproved.NO_MAP)


def _scopes(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    offset_map: OffsetMap,
    wanted: tuple[int, int],
    looked_to: PartitionAudit | None,
    state: AuditState,
    life: SourceIncarnation,
    request: AuditRequest,
) -> list[Scope]:
    assert partition.target is not None
    start, end = wanted
    quarantined = frozenset(
        it.offset
        for it in of_partition(state.ledger.quarantined, life.topic, life.partition)
        if it.topic_id in {"", life.topic_id}
    )
    left_out = tuple(
        (it.first_offset, it.last_offset + 1)
        for it in of_partition(state.ledger.gaps, life.topic, life.partition)
        if it.topic_id == life.topic_id and it.cause is GapCause.OFFSETS_ALTERED
    )
    compacted, sharing = life.topic in state.compacted, state.sharing
    shared, beyond = topic.remote_topic in sharing.shared, Spans()
    if request.mode is AuditMode.SAMPLE:
        ranges = sample(start, end, request.share, f"{request.seed}/{life.topic}/{life.partition}")
        whole = [(low, high, *downstream_range(offset_map, low, high)) for low, high in ranges]
    else:
        first, last = downstream_range(offset_map, start, end)
        standing, nothing_new = end == offset_map.end_upstream, first == last
        if looked_to is not None and offset_map.first_upstream <= looked_to.end <= start:
            # Records between the last audit and the first new record must be foreign; the flow's own copies there no
            # longer have a source record.
            behind = max(looked_to.downstream_end, partition.target.log_start)
            first = behind if nothing_new else min(first, behind)
            beyond = Spans.copies_of(offset_map, looked_to.end, start)
            last = max(first, last) if standing or not nothing_new else first
        if standing and flow.copy.guarantee is Guarantee.EXACTLY_ONCE and not shared:
            last = max(last, partition.target.stable_end)  # what the map lacks is not ours
        whole = [(start, end, first, last)]
    return [
        Scope(
            offset_map,
            low,
            high,
            first,
            last,
            quarantined,
            left_out,
            compacted,
            loopback=sharing.loopback.get(life.topic_partition, Spans()),
            others=sharing.others.get(TopicPartition(topic.remote_topic, life.partition), Spans()),
            shared=shared,
            beyond=beyond,
        )
        for low, high, first, last in whole
        if low < high or first < last
    ]
