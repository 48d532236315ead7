"""Plan what to do about all groups of a flow. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.cluster.admin.groups import GroupPartition, GroupState, OffsetChange, ShareStart
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings, GroupSyncPolicy
from twinlog.errors import TwinlogError
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.formats.mm2.records import Checkpoint
from twinlog.grouped import grouped
from twinlog.groups.maps import PartitionMaps
from twinlog.groups.place import Place, places
from twinlog.groups.report import GroupPartitionRow, SyncReason
from twinlog.groups.verdict import (
    GroupStanding,
    PositionVerdict,
    SyncSwitch,
    checkpoint_of,
    judge,
    row_of,
    too_long,
    wrong,
)
from twinlog.groups.view import GroupView, Route
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint
from twinlog.topics.incarnations import about_incarnation


@dataclass(frozen=True, slots=True)
class Decided:
    """One position: as it stands, its verdict, its row, and the checkpoint that is due, if any."""

    standing: GroupStanding
    verdict: PositionVerdict
    row: GroupPartitionRow
    checkpoint: Checkpoint | None = None

    @property
    def writes(self) -> bool:
        """Say whether the position is to be committed on the target."""
        return self.verdict.write is not None

    @property
    def key(self) -> GroupPartition:
        """The group and the partition on the target."""
        return self.standing.key

    @property
    def trouble(self) -> str:
        """Say why a failover could not place the group; "" if it can."""
        return self.row.text if self.row.misplaced else ""

    @property
    def gone(self) -> bool:
        """Say whether there is no place, and nothing to do: the copy is gone, and nobody misses it."""
        return self.row.reason is SyncReason.NO_TOPIC and not self.row.misplaced

    @property
    def takes_ours_back(self) -> bool:
        """Say whether the commit is a rewind: it lies before the position we wrote last, which is still there."""
        there = self.standing.there
        return (
            self.standing.ours
            and there is not None
            and self.verdict.write is not None
            and self.verdict.write < there.offset
        )


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """All decisions, and checkpoints of groups that are gone."""

    decided: tuple[Decided, ...]
    ended: tuple[GroupPartition, ...]


def changes_of(decided: Iterable[Decided]) -> Mapping[str, Mapping[TopicPartition, OffsetChange]]:
    """Return the positions to commit on the target, by group, each with the one that must still stand there.  Pure."""
    changes: dict[str, dict[TopicPartition, OffsetChange]] = {}
    for it in decided:
        if it.verdict.write is not None:
            there = it.standing.there.offset if it.standing.there is not None else None
            change = OffsetChange(it.verdict.write, there, it.standing.committed.metadata)
            changes.setdefault(it.key.group, {})[it.key.topic_partition] = change
    return changes


def make_plan(flow: FlowSettings, seen: GroupView) -> CheckpointPlan:
    """Decide about every position. Pure."""
    partitions = grouped(
        (partition, group)
        for group, offsets in seen.committed.items()
        for partition in offsets
        if partition in seen.routes
    )
    sync = sync_switch(flow, seen)
    decided = [
        it
        for partition, groups in partitions.items()
        for it in _of_partition(flow, seen, partition, groups, sync)
    ]
    decided.sort(key=lambda it: (it.row.group, it.row.topic, it.row.partition))
    return CheckpointPlan(tuple(decided), tuple(sorted(_ended(seen))))


def after_commits(plan: CheckpointPlan, refused: Collection[GroupPartition]) -> CheckpointPlan:
    """Leave out the checkpoints of rewinds that the target refused. Pure.

    The checkpoint is how we recognise our own last write. If it told of the rewind already, the position on the target
    would look like another user's from then on, and policy `follow` would never rewind it.
    """
    return replace(
        plan,
        decided=tuple(
            replace(decided, checkpoint=None)
            if decided.takes_ours_back and decided.key in refused
            else decided
            for decided in plan.decided
        ),
    )


def without(
    plan: CheckpointPlan, seen: GroupView, others: Mapping[str, TwinlogError | None]
) -> CheckpointPlan:
    """Decide nothing about copies that are others now, or that the target does not show any more (with why). Pure."""
    decided = tuple(
        _stopped(it.standing, _gone(it.key.topic, others[it.key.topic]), seen.at_ms)
        if it.key.topic in others
        else it
        for it in plan.decided
    )
    return replace(plan, decided=decided)


def _gone(copy: str, refusal: TwinlogError | None) -> PositionVerdict:
    if refusal is not None:
        return wrong(SyncReason.REFUSED, str(refusal))
    text = f"{copy} was deleted or recreated just now; the next cycle looks again"
    return wrong(SyncReason.RECREATED, text)


def sync_switch(flow: FlowSettings, seen: GroupView) -> SyncSwitch:
    """Say whether positions are written on the target at all. Pure."""
    if seen.ledger.phase.out_of_service and not seen.ledger.copies_for(flow.recovery_run):
        return SyncSwitch(
            on=False, why_not=f"the flow is {seen.ledger.phase}: its groups belong to the target now"
        )
    if seen.held:
        return SyncSwitch(on=False, why_not=f"the flow is {seen.held}")
    why_not = "the engine places groups" if flow.observed else "sync.group.offsets.enabled is false"
    return SyncSwitch(flow.sync_group_offsets, why_not)


def _of_partition(
    flow: FlowSettings, seen: GroupView, partition: TopicPartition, groups: Sequence[str], sync: SyncSwitch
) -> Iterable[Decided]:
    """Decide about all groups of one partition: its map is opened once."""
    standings = [_standing(flow, seen, group, partition) for group in groups]
    trouble = seen.routes[partition].trouble
    stopped = wrong(SyncReason.NOT_COPIED, trouble) if trouble else None
    if stopped is None:
        try:
            return [
                _decided(flow, seen, standing, sync)
                for standing in _placed(seen.routes[partition], standings)
            ]
        except UnreadableMap as error:
            stopped = wrong(SyncReason.MAP_UNREADABLE, error.message)
    return [_stopped(standing, stopped, seen.at_ms) for standing in standings]


def _placed(route: Route, standings: Sequence[GroupStanding]) -> Iterable[GroupStanding]:
    if route.target is None or route.source is None:
        return standings
    committed = [standing.committed.offset for standing in standings]
    found = places(committed, route.maps, route.target, route.source)
    return (at_place(it, place, route.source) for it, place in zip(standings, found, strict=True))


def at_place(standing: GroupStanding, place: Place, source: PartitionOffsets | None = None) -> GroupStanding:
    """Put a group at its place; a share group's is never exact: what it acknowledged behind its start comes again.

    Nor is the place of a group that has read what another engine has copied and the map does not tell of yet.
    """
    if isinstance(standing.committed, ShareStart) and source is not None:
        place = replace(place, exact=False, again=place.again + standing.committed.acknowledged(source.end))
    return replace(
        standing, place=in_open_tail(place, standing.committed.offset, standing.observed, standing.route.maps)
    )


def in_open_tail(place: Place, offset: int, seen: Observed | None, maps: PartitionMaps) -> Place:
    """Say of a place that it is not exact, if the map does not tell of all that a reader has read there."""
    if seen is None:
        return place
    packed = maps.onward
    mapped_to = packed.end_upstream if isinstance(packed, PackedMap) and len(packed.first) else seen.mapped_to
    if mapped_to >= min(offset, seen.copied_to):
        return place
    why = place.why and "it is not exact yet: its copies were not seen for five minutes"
    return replace(place, exact=False, ahead=place.ahead and offset > seen.copied_to, why=why)


def _decided(flow: FlowSettings, seen: GroupView, standing: GroupStanding, sync: SyncSwitch) -> Decided:
    refusal = seen.positions.there.refused.get(standing.key.group)
    verdict = judge(standing, sync) if refusal is None else wrong(SyncReason.REFUSED, str(refusal))
    repeat_ms = flow.refresh_groups_interval_seconds * 1000
    checkpoint = checkpoint_of(standing, seen.at_ms, repeat_ms) if flow.emit_checkpoints else None
    if checkpoint is not None and (refused := too_long(checkpoint)) is not None:
        verdict, checkpoint = refused, None
    if refusal is not None and sync.on and _rewinds(standing, checkpoint):
        checkpoint = None  # as in `after_commits`: it is not known now whether the position there is ours
    return Decided(standing, verdict, row_of(standing, verdict, seen.at_ms), checkpoint)


def _stopped(standing: GroupStanding, verdict: PositionVerdict, at_ms: int) -> Decided:
    """Decide about a position that cannot be translated for now."""
    standing = replace(standing, place=Place(None, why=verdict.text))
    return Decided(standing, verdict, row_of(standing, verdict, at_ms))


def _standing(flow: FlowSettings, seen: GroupView, group: str, partition: TopicPartition) -> GroupStanding:
    route = seen.routes[partition]
    key = GroupPartition(group, *route.remote)
    listed = seen.positions.states.get(group)
    return GroupStanding(
        key=key,
        topic=partition.topic,
        route=route,
        committed=seen.committed[group][partition],
        place=Place(None),
        there=seen.positions.there.found.get(group, {}).get(route.remote),
        there_state=listed.state if listed is not None else GroupState.DEAD,
        last=_last(seen, key, partition.topic),
        policy=flow.group_sync.of(group),
        kept=key in seen.owed,
        observed=observed_of(seen.ledger, partition),
    )


def observed_of(ledger: Ledger, at: TopicPartition) -> Observed | None:
    """Return what is known of a copy that another engine makes."""
    life = ledger.incarnations.get(at.topic)
    return (
        None
        if life is None
        else ledger.observed.get(SourceIncarnation(at.topic, life.topic_id, at.partition))
    )


def _last(seen: GroupView, key: GroupPartition, topic: str) -> DatedCheckpoint | None:
    """Return the last checkpoint, if it is about the incarnation that is copied now."""
    last, life = seen.checkpoints.get(key), seen.ledger.incarnations.get(topic)
    return last if last is not None and about_incarnation(last.at_ms, life) else None


def _rewinds(standing: GroupStanding, checkpoint: Checkpoint | None) -> bool:
    """Say whether a checkpoint lies before the last one, while policy may rewind the position there as well."""
    return (
        checkpoint is not None
        and standing.last is not None
        and standing.policy is not GroupSyncPolicy.NEVER_REWIND
        and checkpoint.downstream_offset < standing.last.checkpoint.downstream_offset
    )


def _ended(seen: GroupView) -> Iterator[GroupPartition]:
    """Yield checkpoints of groups that are gone, and of partitions that a group has left while it reads others.

    A topic that has vanished from the source keeps its checkpoints: that may be the disaster they are for.
    """
    sources = {route.remote: it for it, route in seen.routes.items() if route.source is not None}
    for key in seen.checkpoints:
        left = key.topic_partition in sources and sources[key.topic_partition] not in seen.committed.get(
            key.group, {}
        )
        if key.group in seen.gone or (left and seen.committed.get(key.group)):
            yield key
