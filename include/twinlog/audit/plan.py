"""Decide from state that was read before what an audit compares, and what it cannot.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from twinlog.audit.comparison.map_ranges import downstream_range
from twinlog.audit.comparison.values import Scope
from twinlog.audit.coverage import left_target
from twinlog.audit.deleted_early import issue_of
from twinlog.audit.lane import AuditSpec
from twinlog.audit.map_holes import LostStretch, bounds_of, lost_stretches
from twinlog.audit.problems import NOTHING_COPIED, AuditState, found_problems, map_lost
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.audit import PartitionAudit, Unproved, UnprovedSpan
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.topics import LEFT_BY_A_PERSON
from twinlog.kafka_types import Issue, SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.spans import Spans
from twinlog.state.ledger import of_partition
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.transforms.chain import Chain

_FOUND_ANEW = frozenset({Unproved.MAP_LOST, Unproved.DELETED_EARLY, Unproved.TARGET_RETENTION})
"""Reasons that each audit finds again for all of the copy, whatever earlier audits said."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition: its scopes, what is known in advance to be unprovable, and the audit it continues.

    `end` is the upstream offset up to which it will be audited.  `held` counts the mapped records before `end` that
    the copy has not lost to its retention; `lost` is what the map has lost.  `claims` is false if findings may be
    reported but prove nothing of the present topic.
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
    held: int = 0
    lost: tuple[LostStretch, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """Tell what to compare, and the problems that keep the rest from being compared.

    If `left_to_clients`, nothing is looked at behind the copies.
    """

    partitions: tuple[PartitionPlan, ...]
    problems: tuple[Issue, ...]
    left_to_clients: bool = False


@dataclass(frozen=True, slots=True)
class _Copy:
    """A partition whose copy can be compared: its logs, its map, what is known of both, and what is asked for.

    `claims` is false if the map is that of an earlier incarnation.
    """

    flow: FlowSettings
    topic: DiscoveredTopic
    source: PartitionOffsets
    target: PartitionOffsets
    remote_topic_id: str
    life: SourceIncarnation
    offset_map: OffsetMap
    claims: bool
    state: AuditState
    request: AuditRequest

    @property
    def chain(self) -> Chain:
        return self.flow.transforms.of(self.topic.remote_topic)


def plan(flow: FlowSettings, state: AuditState, request: AuditRequest) -> AuditPlan:
    """Decide what is compared."""
    partitions: list[PartitionPlan] = []
    problems = list(found_problems(flow, state, request.topics))
    for topic in state.discovery.topics:
        if request.topics is None or topic.topic in request.topics:
            copies = [_copy_of(flow, topic, partition, state, request) for partition in topic.partitions]
            partitions += (_partition(copy) for copy in copies if copy is not None)
            for partition in topic.partitions:
                problems += _lost_without_records(topic, partition, state)
    for partition_plan in partitions:
        problems += map_lost(
            partition_plan.life.topic,
            f"{partition_plan.remote_topic}-{partition_plan.life.partition}",
            partition_plan.lost,
        )
        if (early := state.early.get(partition_plan.life.topic_partition)) is not None:
            problems.append(
                issue_of(
                    partition_plan.life.topic,
                    partition_plan.remote_topic,
                    partition_plan.life.topic_partition,
                    early,
                )
            )
    if not any(it.held or not it.offset_map.records for it in partitions) and not problems:
        message = f"no record of {flow.name} was copied yet, or nothing of it is left on {flow.target.alias}"
        problems.append(Issue(NOTHING_COPIED, "", message, "run a cycle first"))
    return AuditPlan(tuple(partitions), tuple(problems), _left_to_clients(state, request))


def _left_to_clients(state: AuditState, request: AuditRequest) -> bool:
    """Say whether clients of the target write behind the copies, as they should.

    Nothing is noted as looked at there: once the flow follows again, audits judge what lies between its copies.
    """
    return state.ledger.phase in {FlowPhase.PROMOTED, FlowPhase.FAILING_BACK} and not request.behind


def _copy_of(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    state: AuditState,
    request: AuditRequest,
) -> _Copy | None:
    life = partition.life
    if life in state.maps.broken or partition.target is None or topic.remote is None:
        return None
    offset_map = state.maps.get(life)
    claims = offset_map is not None
    noted = of_partition(state.ledger.chains, life.topic, life.partition)
    if offset_map is None and not noted and not flow.transforms.of(topic.remote_topic):
        offset_map = _map_of_an_earlier_incarnation(life, state)
    if offset_map is None or not offset_map.records:
        return None
    ends = partition.source, partition.target
    return _Copy(flow, topic, *ends, topic.remote.topic_id, life, offset_map, claims, state, request)


def _partition(copy: _Copy) -> PartitionPlan:
    offset_map, life, state = copy.offset_map, copy.life, copy.state
    looked_to = _earlier(copy)
    before = looked_to if copy.request.mode is AuditMode.INCREMENTAL else None
    begin = max(before.end, offset_map.first_upstream) if before else offset_map.first_upstream
    end = max(begin, _mapped_to(life, offset_map, state)) if copy.claims else offset_map.end_upstream
    lost = _lost(life, offset_map, copy.target, state) if copy.claims else ()
    gone_to = offset_map.first_upstream_at(copy.target.log_start)
    unproved = [*left_target(offset_map, _unprovable(copy, lost, before), gone_to)]
    if before is not None:
        before = replace(before, unproved=_kept(before, offset_map, gone_to))
    # From here on, `start` moves up to where records of both sides can be compared.
    start = min(max(begin, gone_to), end)
    for reason, to in (
        (Unproved.SOURCE_RETENTION, copy.source.log_start),
        (Unproved.OTHER_CHAIN, _copied_through(copy)),
    ):
        held_from = max(start, min(to, end))
        if count := offset_map.records_between(start, held_from):
            unproved.append(UnprovedSpan(start, held_from, count, reason))
        start = held_from
    scopes = _scopes(copy, start, end, looked_to, lost)
    reached = before.downstream_end if before else _reached(offset_map, end)
    return PartitionPlan(
        life,
        copy.topic.remote_topic,
        copy.remote_topic_id,
        offset_map,
        start=before.start if before else offset_map.first_upstream,
        end=end,
        downstream_end=max((scope.downstream_end for scope in scopes), default=reached),
        specs=tuple(_spec(copy, scope) for scope in scopes),
        unproved=tuple(unproved),
        before=before,
        claims=copy.claims,
        held=offset_map.records_between(gone_to, end),
        lost=lost,
    )


def _spec(copy: _Copy, scope: Scope) -> AuditSpec:
    return AuditSpec(
        copy.life.topic,
        copy.life.topic_id,
        copy.topic.remote_topic,
        copy.life.partition,
        scope,
        copy.source.readable_end(read_committed=copy.flow.copy.read_committed),
        copy.target.stable_end,
    )


def _unprovable(
    copy: _Copy, lost: Sequence[LostStretch], before: PartitionAudit | None
) -> Iterator[UnprovedSpan]:
    """Yield what is known in advance to be unprovable, whatever the copy's retention has taken of it."""
    yield from (
        UnprovedSpan(stretch.start, stretch.end, stretch.records, Unproved.MAP_LOST) for stretch in lost
    )
    if copy.claims and (early := copy.state.early.get(copy.life.topic_partition)) is not None:
        yield UnprovedSpan(early.start, early.end, early.records, Unproved.DELETED_EARLY)
    if before is None and not any(stretch.end == copy.offset_map.first_upstream for stretch in lost):
        yield from _before_the_map(copy)


def _kept(before: PartitionAudit, offset_map: OffsetMap, gone_to: int) -> tuple[UnprovedSpan, ...]:
    """Return what earlier audits could not prove, without what each audit finds again."""
    kept = [span for span in before.unproved if span.reason not in _FOUND_ANEW and span.end > gone_to]
    held = left_target(offset_map, kept, gone_to)
    return tuple(span for span in held if span.reason is not Unproved.TARGET_RETENTION)


def _lost_without_records(
    topic: DiscoveredTopic, partition: DiscoveredPartition, state: AuditState
) -> Iterator[Issue]:
    """Report what is lost of a map that holds no record: there is nothing to compare, but there may have been."""
    life = partition.life
    offset_map = state.maps.seen(life)
    if isinstance(offset_map, OffsetMap) and not offset_map.records and partition.target is not None:
        copy = f"{topic.remote_topic}-{life.partition}"
        yield from map_lost(life.topic, copy, _lost(life, offset_map, partition.target, state))


def _copied_through(copy: _Copy) -> int:
    """Return the upstream offset from which on all was copied through the present chain; the map's end if none was."""
    nothing = copy.offset_map.end_upstream
    for through in of_partition(copy.state.ledger.chains, copy.life.topic, copy.life.partition):
        if through.topic_id == copy.life.topic_id:
            return through.since_offset if through.print == copy.chain.print else nothing
    return nothing if copy.chain else 0


def _lost(
    life: SourceIncarnation, offset_map: OffsetMap, target: PartitionOffsets, state: AuditState
) -> tuple[LostStretch, ...]:
    """Return what was copied before the map was read and the map does not cover; progress was read before the map."""
    last = state.progress.get(life.topic_partition)
    copied_to = None if last is None else last + 1
    bounds = bounds_of(state.ledger, life, copied_to, target.log_start, target.stable_end)
    return tuple(lost_stretches(offset_map, bounds))


def _earlier(copy: _Copy) -> PartitionAudit | None:
    """Return the last audit of a partition, if it was of the present copy."""
    life = copy.life
    noted = of_partition(copy.state.ledger.audits, life.topic, life.partition)
    audit = next(
        (partition_audit for partition_audit in noted if partition_audit.topic_id == life.topic_id), None
    )
    ours = audit is not None and audit.remote_topic_id == copy.remote_topic_id
    return audit if ours else None


def _reached(offset_map: OffsetMap, end: int) -> int:
    """Return where the copies of what lies below upstream `end` end downstream.

    Without copies there, return where the first copy begins.
    """
    if not offset_map.records:
        return 0
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


def _before_the_map(copy: _Copy) -> Iterator[UnprovedSpan]:
    """Yield what the source has before the map begins although the copy should hold it."""
    beginning = copy.state.ledger.beginnings.get(copy.life.topic)
    begin = copy.source.log_start
    if beginning is not None and beginning.topic_id == copy.life.topic_id:
        begin = max(begin, beginning.offsets.get(str(copy.life.partition), 0))
    end = copy.offset_map.first_upstream
    if begin < end and copy.offset_map.records:
        first, log_start = int(copy.offset_map.downstream[0]), copy.target.log_start
        early = copy.state.early.get(copy.life.topic_partition)
        if 0 < log_start >= first:
            end = end if early is None else min(end, early.start)
            yield UnprovedSpan(begin, end, max(0, end - begin), Unproved.TARGET_RETENTION)
        else:
            # If a copy has lost its oldest records, no more of them stood before the map than there is room for.
            room = first - log_start if log_start else end - begin
            yield UnprovedSpan(begin, end, min(end - begin, room), Unproved.NO_MAP)


def _copied_twice(copy: _Copy, remote: TopicPartition) -> Spans:
    """Return what another engine has copied besides what the map has: a take-over has compared it.

    Where both sides have the same name, that may be the target's own, if nobody observed it.
    """
    place = remote.topic, copy.remote_topic_id, remote.partition
    compared = [
        Spans.between(over.compared, over.end)
        for over in copy.state.ledger.taken_over
        if (over.topic, over.remote_topic_id, over.partition) == place and over.compared < over.end
        if remote.topic != copy.life.topic or over.passed_over
    ]
    return Spans.joined(compared).without(Spans.downstream_of([copy.offset_map]))


def _scopes(
    copy: _Copy, start: int, end: int, looked_to: PartitionAudit | None, lost: Iterable[LostStretch]
) -> list[Scope]:
    offset_map, life = copy.offset_map, copy.life
    ledger, sharing = copy.state.ledger, copy.state.sharing
    quarantined = frozenset(
        quarantine.offset
        for quarantine in of_partition(ledger.quarantined, life.topic, life.partition)
        if quarantine.topic_id in {"", life.topic_id}
    )
    gaps = [
        gap for gap in of_partition(ledger.gaps, life.topic, life.partition) if gap.topic_id == life.topic_id
    ]
    left_out = tuple((gap.first_offset, gap.last_offset + 1) for gap in gaps if gap.cause in LEFT_BY_A_PERSON)
    if copy.flow.homes is not None:  # what it has exported never came home, and never will
        left_out += tuple((tail.first, tail.next_offset) for tail in ledger.tails if tail.life == life)
    kept = (  # of a log that was cut since
        Spans.between(gap.kept_from, gap.kept_end)
        for gap in gaps
        if gap.kept_from is not None and gap.kept_end is not None
    )
    remote = TopicPartition(copy.topic.remote_topic, life.partition)
    shared, beyond = remote.topic in sharing.shared, Spans()
    first, last = downstream_range(offset_map, start, end)
    standing, nothing_new = end == offset_map.end_upstream, first == last
    if looked_to is not None and offset_map.first_upstream <= looked_to.end <= start:
        # Records between the last audit and the first new record must be foreign; the flow's own copies there no
        # longer have a source record.
        behind = max(looked_to.downstream_end, copy.target.log_start)
        first = behind if nothing_new else min(first, behind)
        beyond = Spans.copies_of(offset_map, looked_to.end, start)
        last = max(first, last) if standing or not nothing_new else first
    if standing and not shared and not _left_to_clients(copy.state, copy.request):
        last = max(last, copy.target.stable_end)  # what the map lacks is not ours
    beyond = Spans.joined([beyond, *kept, _copied_twice(copy, remote)])
    if start >= end and first >= last:
        return []
    return [
        Scope(
            offset_map,
            start,
            end,
            first,
            last,
            quarantined,
            left_out,
            life.topic in copy.state.compacted,
            loopback=sharing.loopback.get(life.topic_partition, Spans()),
            others=sharing.others.get(remote, Spans()),
            shared=shared,
            beyond=beyond,
            chain=copy.chain,
            lost=tuple((stretch.start, stretch.end) for stretch in lost),
        )
    ]
