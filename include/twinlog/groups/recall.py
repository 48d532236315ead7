"""Recall where every group would go on if the source cannot be asked: from the checkpoints, the map and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twinlog.cluster.admin.groups import CommittedOffset, GroupListing, GroupPartition, GroupState
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings, GroupSyncPolicy
from twinlog.formats.ledger.topics import GroupPosition, Incarnation, RebuildPhase
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.groups.maps import NO_MAPS, PartitionMaps, never_copied
from twinlog.groups.place import Place, place
from twinlog.groups.plan import Decided
from twinlog.groups.report import SyncReason, SyncState
from twinlog.groups.verdict import GroupStanding, PositionVerdict, SyncSwitch, judge, row_of, wrong
from twinlog.groups.view import Offsets, Route, listed_there
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints
from twinlog.state.progress import Maps
from twinlog.topics.incarnations import about_incarnation, differ, sources_of_copies

NO_LONGER_COPIED = PositionVerdict(
    SyncState.INTENTIONALLY_NOT,
    SyncReason.NO_TOPIC,
    "its copy is gone, and nothing is copied into it any more",
)


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the target alone tells of groups: checkpoints, positions that a rebuild owes, its own groups and logs.

    `missed` are the source topics whose copies the flow would miss.
    """

    flow: FlowSettings
    ledger: Ledger
    maps: Maps[PackedMap]
    missed: frozenset[str]
    noted: Mapping[GroupPartition, DatedCheckpoint]
    owed: Mapping[GroupPartition, GroupPosition]
    there: Answers[str, Offsets]
    states: Mapping[str, GroupListing]
    logs: Mapping[TopicPartition, PartitionOffsets]
    absent: Collection[str]


def recall(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    maps: Maps[PackedMap],
    topics: Iterable[str],
) -> tuple[Decided, ...]:
    """Decide about the positions of all groups that the target knows of; `topics` are those that the flow would miss.

    Changes nothing.  Raises errors of the target.
    """
    missed = frozenset(topics)
    noted = of_this_incarnation(flow, newest_checkpoints(flow, target)[0], ledger)
    waiting = dict(owed(ledger, sorted(missed)))
    keys = {*noted, *waiting}
    if not keys:
        return ()
    copies = target.describe_topics({it.topic for it in keys})
    readable = {
        it.topic_partition
        for it in keys
        if it.topic in copies.found and it.partition < len(copies.found[it.topic].partitions)
    }
    seen = Recalled(
        flow=flow,
        ledger=ledger,
        maps=maps,
        missed=missed,
        noted=noted,
        owed=waiting,
        there=target.committed_offsets({it.group for it in keys}),
        states=listed_there(target),
        logs=target.offsets(readable).found,
        absent=copies.absent,
    )
    return tuple(decide(seen, key) for key in sorted(keys))


def decide(seen: Recalled, key: GroupPartition) -> Decided:
    """Decide about one position; if its map cannot be read, by the checkpoint alone.  Pure.

    How many records the group would read again depends on what it has read on the source since.
    """
    source = sources_of_copies(seen.flow, seen.ledger)(key.topic) or key.topic
    life = known_life(seen.ledger, source, key.partition)
    maps = PartitionMaps(seen.maps.seen(life), gaps=never_copied(seen.ledger).get(life, ()))
    try:
        return _decided(seen, _standing(seen, key, source, maps))
    except UnreadableMap:
        return _decided(seen, _standing(seen, key, source, NO_MAPS))


def _decided(seen: Recalled, standing: GroupStanding) -> Decided:
    verdict = _against(seen, standing) or judge(standing, SyncSwitch(on=True))
    at_ms = standing.last.at_ms if standing.last is not None else 0
    row = replace(row_of(standing, verdict, at_ms), expected_duplicates=None)
    return Decided(standing, verdict, row)


def _against(seen: Recalled, standing: GroupStanding) -> PositionVerdict | None:
    """Return why the group has no place, None if it has."""
    key, copy = standing.key, standing.route.target
    if copy is None:
        gone = key.topic in seen.absent and standing.topic not in seen.missed
        return (
            NO_LONGER_COPIED if gone else wrong(SyncReason.NO_TOPIC, "its copy is gone, or does not answer")
        )
    if standing.kept:
        text = "a rebuild of its copy has taken its position, and the copy has not come that far again"
        return wrong(SyncReason.RESTORING, text)
    refused = seen.there.refused.get(key.group)
    return wrong(SyncReason.REFUSED, str(refused)) if refused is not None else None


def _standing(seen: Recalled, key: GroupPartition, topic: str, maps: PartitionMaps) -> GroupStanding:
    ledger, noted, owed_there = seen.ledger, seen.noted.get(key), seen.owed.get(key)
    log = seen.logs.get(key.topic_partition)
    there = seen.there.found.get(key.group, {}).get(key.topic_partition)
    found = Place(None)
    if log is not None and noted is not None and owed_there is None:
        # With one name on both sides, or records that came home, the reverse flow's map counts: it was on the source.
        alone = topic != key.topic and not ledger.came_home and seen.flow.homes is None
        found = _place(noted, maps if alone else NO_MAPS, log)
    stands = there is not None and found.offset is not None and there.offset >= found.offset
    listed = seen.states.get(key.group)
    return GroupStanding(
        key=key,
        topic=topic,
        route=Route(key.topic_partition, None, log, maps),
        committed=_committed(noted, owed_there),
        place=found,
        there=there,
        there_state=listed.state if listed is not None and not stands else GroupState.DEAD,
        last=noted,
        policy=GroupSyncPolicy.NEVER_REWIND,
        kept=owed_there is not None,
    )


def _committed(noted: DatedCheckpoint | None, owed_there: GroupPosition | None) -> CommittedOffset:
    if owed_there is not None:
        return CommittedOffset(owed_there.upstream or 0)
    assert noted is not None
    return CommittedOffset(noted.checkpoint.upstream_offset, noted.checkpoint.metadata)


def _place(noted: DatedCheckpoint, maps: PartitionMaps, log: PartitionOffsets) -> Place:
    """Translate by the map; if that has no answer, keep the checkpoint's own.

    The map may know more than the checkpoint did: a group that was ahead of the copy then may not be any more.
    """
    it = noted.checkpoint
    found = place(it.upstream_offset, maps, log) if maps.onward is not None else Place(None)
    return (
        found if found.offset is not None else Place(min(max(it.downstream_offset, log.log_start), log.end))
    )


def of_this_incarnation(
    flow: FlowSettings, noted: Mapping[GroupPartition, DatedCheckpoint], ledger: Ledger
) -> Mapping[GroupPartition, DatedCheckpoint]:
    """Leave out checkpoints from before a topic was recreated: they do not fit the present copy.  Pure."""
    source_of = sources_of_copies(flow, ledger)

    def life(topic: str) -> Incarnation | None:
        source = source_of(topic)
        return ledger.incarnations.get(source) if source is not None else None

    return {key: it for key, it in noted.items() if about_incarnation(it.at_ms, life(it.checkpoint.topic))}


def owed(ledger: Ledger, topics: Iterable[str]) -> Iterator[tuple[GroupPartition, GroupPosition]]:
    """Yield the positions on copies of `topics` that a rebuild has taken from groups and not yet restored.  Pure."""
    for topic in topics:
        rebuild, life = ledger.rebuilds.get(topic), ledger.incarnations.get(topic)
        if rebuild is None:
            continue
        # While the copy is deleted, the ledger still has the incarnation before; later another one may have followed.
        emptying = rebuild.phase is RebuildPhase.DELETING
        if emptying or life is None or not differ(rebuild.topic_id, life.topic_id):
            for it in rebuild.groups:
                if it.awaited:
                    yield GroupPartition(it.group, rebuild.remote_topic, it.partition), it


def known_life(ledger: Ledger, topic: str, partition: int) -> SourceIncarnation:
    """Return the incarnation of a source partition that is copied now, by the ledger.  Pure."""
    life = ledger.incarnations.get(topic)
    return SourceIncarnation(topic, life.topic_id if life is not None else "", partition)
