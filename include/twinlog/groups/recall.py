"""Recall where every group would go on if the source cannot be asked: from the checkpoints, the map and the ledger."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.cluster.admin.groups import CommittedOffset, GroupListing, GroupPartition, GroupState
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings, GroupSyncPolicy
from twinlog.formats.ledger.topics import GroupPosition, Incarnation
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups.maps import NO_MAPS, PartitionMaps, never_copied
from twinlog.groups.place import Place, places
from twinlog.groups.plan import Decided, at_place, observed_of
from twinlog.groups.report import SyncReason
from twinlog.groups.verdict import GroupStanding, PositionVerdict, SyncSwitch, judge, leave, row_of, wrong
from twinlog.groups.view import Offsets, Route, listed_there
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lifecycle.reader_positions import owed
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints
from twinlog.state.progress import PackedMaps
from twinlog.topics.incarnations import about_incarnation, sources_of_copies
from twinlog.topics.snapshot import all_partitions

NO_LONGER_COPIED = leave(SyncReason.NO_TOPIC, "its copy is gone, and nothing is copied into it any more")


@dataclass(frozen=True, slots=True)
class Recalled:
    """Hold what the target alone tells of groups: checkpoints, positions that a rebuild owes, its own groups and logs.

    `gone` are copies that are not there any more, and that nobody misses.
    """

    flow: FlowSettings
    ledger: Ledger
    maps: PackedMaps
    gaps: Mapping[SourceIncarnation, Sequence[tuple[int, int]]]
    noted: Mapping[GroupPartition, DatedCheckpoint]
    owed: Mapping[GroupPartition, GroupPosition]
    there: Answers[str, Offsets]
    states: Mapping[str, GroupListing]
    logs: Mapping[TopicPartition, PartitionOffsets]
    gone: frozenset[str]


def recall(
    flow: FlowSettings, target: ClusterReader, ledger: Ledger, maps: PackedMaps, topics: Collection[str]
) -> tuple[Decided, ...]:
    """Decide about the positions of all groups that the target knows of; `topics` are those that the flow would miss.

    Changes nothing.  Raises errors of the target.
    """
    noted = of_this_incarnation(flow, newest_checkpoints(flow, target)[0], ledger)
    waiting = dict(owed(ledger, topics))
    keys = sorted({*noted, *waiting})
    if not keys:
        return ()
    copies, source_of = target.describe_topics({key.topic for key in keys}), sources_of_copies(flow, ledger)
    seen = Recalled(
        flow,
        ledger,
        maps,
        never_copied(ledger),
        noted,
        waiting,
        target.committed_offsets({key.group for key in keys}),
        listed_there(target),
        target.offsets(
            set(all_partitions(copies.found.values())) & {key.topic_partition for key in keys}
        ).found,
        frozenset(it for it in copies.absent if (source_of(it) or it) not in topics),
    )
    return tuple(decide(seen, key, source_of(key.topic) or key.topic) for key in keys)


def decide(seen: Recalled, key: GroupPartition, topic: str) -> Decided:
    """Decide about one position on the copy of `topic`; if its map cannot be read, by the checkpoint alone.  Pure.

    How many records the group would read again depends on what it has read on the source since.
    """
    life = known_life(seen.ledger, topic, key.partition)
    maps = PartitionMaps(seen.maps.seen(life), gaps=seen.gaps.get(life, ()))
    try:
        return _decided(seen, key, topic, maps)
    except UnreadableMap:
        return _decided(seen, key, topic, NO_MAPS)


def _decided(seen: Recalled, key: GroupPartition, topic: str, maps: PartitionMaps) -> Decided:
    noted, awaited = seen.noted.get(key), seen.owed.get(key)
    log, there = (
        seen.logs.get(key.topic_partition),
        seen.there.found.get(key.group, {}).get(key.topic_partition),
    )
    committed, found = CommittedOffset(awaited.upstream or 0 if awaited is not None else 0), Place(None)
    if noted is not None and awaited is None:
        committed = CommittedOffset(noted.checkpoint.upstream_offset, noted.checkpoint.metadata)
        # With one name on both sides, or records that came home, the reverse flow's map counts: it was on the source.
        alone = topic != key.topic and not seen.ledger.came_home and seen.flow.homes is None
        found = _place(noted.checkpoint, maps if alone else NO_MAPS, log) if log is not None else found
    stands = there is not None and found.offset is not None and there.offset >= found.offset
    listed = seen.states.get(key.group)
    standing = GroupStanding(
        key=key,
        topic=topic,
        route=Route(key.topic_partition, None, log, maps),
        committed=committed,
        place=found,
        there=there,
        there_state=listed.state if listed is not None and not stands else GroupState.DEAD,
        last=noted,
        policy=GroupSyncPolicy.FORCE if seen.flow.observed else GroupSyncPolicy.NEVER_REWIND,
        kept=awaited is not None,
        observed=observed_of(seen.ledger, TopicPartition(topic, key.partition)),
    )
    standing = at_place(standing, found)
    verdict = _against(seen, standing) or judge(standing, SyncSwitch(on=True))
    row = row_of(standing, verdict, noted.at_ms if noted is not None else 0)
    return Decided(standing, verdict, replace(row, expected_duplicates=None))


def _against(seen: Recalled, standing: GroupStanding) -> PositionVerdict | None:
    """Return why the group has no place, None if it has."""
    key, text = (
        standing.key,
        "a rebuild of its copy has taken its position, and the copy has not come that far again",
    )
    if standing.route.target is None and key.topic in seen.gone:
        return NO_LONGER_COPIED
    if standing.route.target is None:
        return wrong(SyncReason.NO_TOPIC, "its copy is gone, or does not answer")
    if standing.kept:
        return wrong(SyncReason.RESTORING, text)
    refused = seen.there.refused.get(key.group)
    return wrong(SyncReason.REFUSED, str(refused)) if refused is not None else None


def _place(it: Checkpoint, maps: PartitionMaps, log: PartitionOffsets) -> Place:
    """Translate by the map; if that has no answer, keep the checkpoint's own.

    The map may know more than the checkpoint did: a group that was ahead of the copy then may not be any more.
    """
    found = places([it.upstream_offset], maps, log)[0] if maps.onward is not None else Place(None)
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


def known_life(ledger: Ledger, topic: str, partition: int) -> SourceIncarnation:
    """Return the incarnation of a source partition that is copied now, by the ledger.  Pure."""
    life = ledger.incarnations.get(topic)
    return SourceIncarnation(topic, life.topic_id if life is not None else "", partition)
