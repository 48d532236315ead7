"""Plan what to do about all groups of a flow. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from twinlog.cluster.admin.groups import GroupPartition, GroupState
from twinlog.config.flow.settings import FlowSettings, GroupSyncPolicy
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.groups.translate import (
    Position,
    before_the_end_of,
    positions,
    positions_back,
    positions_both_ways,
)
from twinlog.groups.verdict import (
    GroupStanding,
    PositionVerdict,
    SyncSwitch,
    checkpoint_of,
    judge,
    row_of,
    stopped_row,
    too_long,
)
from twinlog.groups.view import GroupView, Route
from twinlog.kafka_types import TopicPartition
from twinlog.state.mm2_topics import DatedCheckpoint
from twinlog.topics.incarnations import about_incarnation, differ


@dataclass(frozen=True, slots=True)
class Decided:
    """One position: as it stands, its verdict, its row, and the checkpoint that is due, if any."""

    standing: GroupStanding
    verdict: PositionVerdict
    row: GroupPartitionRow
    checkpoint: Checkpoint | None

    @property
    def writes(self) -> bool:
        """Say whether the position is to be committed on the target."""
        return self.verdict.write is not None

    @property
    def key(self) -> GroupPartition:
        """The group and the partition on the target."""
        return GroupPartition(self.standing.group, *self.standing.remote)

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
    """All decisions, the positions that cannot be translated now, and checkpoints of groups that are gone."""

    decided: tuple[Decided, ...]
    stopped: tuple[GroupPartitionRow, ...]
    ended: tuple[GroupPartition, ...]


def make_plan(flow: FlowSettings, seen: GroupView) -> CheckpointPlan:
    """Decide about every position. Pure."""
    by_partition: defaultdict[TopicPartition, list[str]] = defaultdict(list)
    for group, offsets in seen.committed.items():
        for partition in offsets:
            if partition in seen.routes:
                by_partition[partition].append(group)
    decided: list[Decided] = []
    stopped = [
        _stopped(seen, group, partition, SyncReason.NOT_COPIED, seen.unread[partition].why)
        for group, offsets in seen.committed.items()
        for partition in offsets
        if partition in seen.unread
    ]
    for partition, groups in by_partition.items():
        why, text = SyncReason.NOT_COPIED, seen.routes[partition].trouble
        if not text:
            try:
                decided += [*_of_partition(flow, seen, partition, groups)]
            except UnreadableMap as error:
                why, text = SyncReason.MAP_UNREADABLE, error.message
        stopped += [_stopped(seen, group, partition, why, text) for group in groups] if text else []
    return CheckpointPlan(
        tuple(sorted(decided, key=lambda each: row_order(each.row))),
        tuple(sorted(stopped, key=row_order)),
        tuple(sorted(_ended(seen))),
    )


def after_commits(plan: CheckpointPlan, refused: Collection[GroupPartition]) -> CheckpointPlan:
    """Leave out the checkpoints of rewinds that the target refused. Pure.

    The checkpoint is how we recognise our own last write. If it told of the rewind already, the position on the target
    would look like another user's from then on, and policy `follow` would never rewind it.
    """
    return replace(
        plan,
        decided=tuple(
            replace(it, checkpoint=None) if it.takes_ours_back and it.key in refused else it
            for it in plan.decided
        ),
    )


def without(plan: CheckpointPlan, seen: GroupView, made_anew: Collection[str]) -> CheckpointPlan:
    """Leave out decisions about copies that do not exist any more: their offsets are of another log. Pure."""
    kept = tuple(it for it in plan.decided if it.standing.remote.topic not in made_anew)
    stopped = [
        _stopped(
            seen,
            it.standing.group,
            TopicPartition(it.standing.topic, it.standing.remote.partition),
            SyncReason.RECREATED,
            f"{it.standing.remote.topic} was deleted or recreated just now; the next cycle looks again",
        )
        for it in plan.decided
        if it.standing.remote.topic in made_anew
    ]
    return replace(plan, decided=kept, stopped=tuple(sorted((*plan.stopped, *stopped), key=row_order)))


def row_order(row: GroupPartitionRow) -> tuple[str, str, int]:
    """Return the sort key of a report row."""
    return row.group, row.topic, row.partition


def sync_switch(flow: FlowSettings, seen: GroupView) -> SyncSwitch:
    """Say whether positions are written on the target at all. Pure."""
    if seen.ledger.phase.out_of_service and not seen.ledger.copies_for(flow.recovery_run):
        return SyncSwitch(
            on=False, why_not=f"the flow is {seen.ledger.phase}: its groups belong to the target now"
        )
    if seen.held:
        return SyncSwitch(on=False, why_not=f"the flow is {seen.held}")
    return SyncSwitch(flow.sync_group_offsets, "sync.group.offsets.enabled is false")


def _of_partition(
    flow: FlowSettings, seen: GroupView, partition: TopicPartition, groups: Sequence[str]
) -> Iterator[Decided]:
    """Decide about all groups of one partition: its map is opened once."""
    route = seen.routes[partition]
    committed = [seen.committed[group][partition].offset for group in groups]
    sync = sync_switch(flow, seen)
    repeat_ms = flow.refresh_groups_interval_seconds * 1000
    for group, position in zip(groups, _positions(route, committed), strict=True):
        standing = _standing(flow, seen, group, partition, position)
        verdict = _refused_there(seen, group) or judge(standing, sync)
        checkpoint = checkpoint_of(standing, seen.at_ms, repeat_ms) if flow.emit_checkpoints else None
        if checkpoint is not None and (refused := too_long(checkpoint)) is not None:
            verdict, checkpoint = refused, None
        if group in seen.positions.there.refused and sync.on and _rewinds(standing, checkpoint):
            checkpoint = None  # as in `after_commits`: it is not known now whether the position there is ours
        again, skipped = _again(route, standing, verdict), _skipped(route, standing, verdict)
        row = row_of(standing, verdict, again, seen.at_ms, skipped)
        yield Decided(standing, verdict, row, checkpoint)


def _positions(route: Route, committed: Sequence[int]) -> list[Position | None]:
    if route.target is None:
        return [None for _ in committed]
    packed, reverse = _usable(route.packed), _usable(route.reverse)
    if route.back:
        home, known = _usable(route.home), route.begun_empty
        back = positions_back(packed, committed, route.target, route.source, route.gaps, begun_empty=known)
        if home is None:
            return back
        return before_the_end_of(home, packed, committed, route.target, route.source, back)
    if reverse is not None:
        return positions_both_ways(
            packed,
            reverse,
            committed,
            route.target,
            route.gaps,
            route.source,
            reverse_stands=route.reverse_stands,
        )
    return positions(packed, committed, route.target, route.gaps, route.source)


def _usable(known: PackedMap | UnreadableMap | None) -> PackedMap | None:
    if isinstance(known, UnreadableMap):
        raise known
    return known


def _standing(
    flow: FlowSettings, seen: GroupView, group: str, partition: TopicPartition, position: Position | None
) -> GroupStanding:
    route = seen.routes[partition]
    listed = seen.positions.states.get(group)
    return GroupStanding(
        group=group,
        topic=partition.topic,
        remote=route.remote,
        committed=seen.committed[group][partition],
        source=route.source,
        target=route.target,
        position=position,
        there=seen.positions.there.found.get(group, {}).get(route.remote),
        there_state=listed.state if listed is not None else GroupState.DEAD,
        last=_last(seen, group, partition, route.remote),
        policy=flow.group_sync.of(group),
        kept=_kept(seen, group, partition, route.remote),
    )


def _last(
    seen: GroupView, group: str, partition: TopicPartition, remote: TopicPartition
) -> DatedCheckpoint | None:
    """Return the last checkpoint, if it is about the incarnation that is copied now."""
    last, life = (
        seen.checkpoints.get(GroupPartition(group, *remote)),
        seen.ledger.incarnations.get(partition.topic),
    )
    return last if last is not None and about_incarnation(last.at_ms, life) else None


def _kept(seen: GroupView, group: str, partition: TopicPartition, remote: TopicPartition) -> bool:
    """Say whether a rebuild has yet to restore the group's position on the copy."""
    rebuild, life = seen.ledger.rebuilds.get(partition.topic), seen.ledger.incarnations.get(partition.topic)
    return (
        rebuild is not None
        and rebuild.remote_topic == remote.topic
        and (life is None or not differ(rebuild.topic_id, life.topic_id))
        and any(
            (place.group, place.partition) == (group, partition.partition) and place.awaited
            for place in rebuild.groups
        )
    )


def _refused_there(seen: GroupView, group: str) -> PositionVerdict | None:
    error = seen.positions.there.refused.get(group)
    return None if error is None else PositionVerdict(SyncState.WRONGLY_NOT, SyncReason.REFUSED, str(error))


def _rewinds(standing: GroupStanding, checkpoint: Checkpoint | None) -> bool:
    """Say whether a checkpoint lies before the last one, while policy may rewind the position there as well."""
    return (
        checkpoint is not None
        and standing.last is not None
        and standing.policy is not GroupSyncPolicy.NEVER_REWIND
        and checkpoint.downstream_offset < standing.last.checkpoint.downstream_offset
    )


def _again(route: Route, standing: GroupStanding, verdict: PositionVerdict) -> int | None:
    """Count mapped records the group would read again; None if it has no position there, or no translation."""
    there = (
        verdict.write
        if verdict.write is not None
        else (standing.there.offset if standing.there is not None else None)
    )
    if there is None or standing.position is None:
        return None
    return _mapped(route, there, standing.position.offset)


def _skipped(route: Route, standing: GroupStanding, verdict: PositionVerdict) -> int:
    """Count mapped records the group would not read: from its translation to its later position on the target.

    Records are counted also if that position is to be rewound: it stays until the commit.
    """
    beyond = verdict.reason in {SyncReason.READ_ON_THERE, SyncReason.NEVER_REWIND, SyncReason.WRITTEN}
    if not beyond or standing.there is None or standing.position is None:
        return 0
    return _mapped(route, standing.position.offset, standing.there.offset)


def _mapped(route: Route, start: int, end: int) -> int:
    """Count mapped records at offsets [start, end) of the partition on the target."""
    packed = _usable(route.packed)
    if start >= end or packed is None:
        return 0
    count = packed.upstream_records_between if route.back else packed.records_between
    return count(start, end)


def _stopped(
    seen: GroupView, group: str, partition: TopicPartition, reason: SyncReason, text: str
) -> GroupPartitionRow:
    known = seen.unread[partition] if partition in seen.unread else seen.routes[partition]
    remote = known.remote
    there = seen.positions.there.found.get(group, {}).get(remote)
    committed = seen.committed[group][partition]
    return stopped_row(group, partition.topic, remote, committed, there, reason, text, seen.at_ms)


def _ended(seen: GroupView) -> Iterator[GroupPartition]:
    """Yield checkpoints of groups that are gone, and of partitions that a group has left while it reads others.

    A topic that has vanished from the source keeps its checkpoints: that may be the disaster they are for.
    """
    sources = {route.remote: it for it, route in seen.routes.items()}
    for key in seen.checkpoints:
        left = key.topic_partition in sources and sources[key.topic_partition] not in seen.committed.get(
            key.group, {}
        )
        if key.group in seen.gone or (left and seen.committed.get(key.group)):
            yield key
