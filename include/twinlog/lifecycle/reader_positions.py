"""Keep the positions of the target's groups on a copy over a rebuild of that copy.

Brokers forget committed offsets with a deleted topic. A reader with auto.offset.reset=latest would then skip all of
the new copy. So positions are turned into upstream offsets by the old copy's map, and back by the new one's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twinlog.cluster.admin.groups import OFFSET_MOVED, GroupPartition, OffsetChange
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import GroupPosition, Incarnation, Rebuild, RebuildPhase
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps, read_maps, read_progress
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.incarnations import differ


@dataclass(frozen=True, slots=True)
class Reader:
    """A group with committed offsets on a copy; `active` if it has members, or may have."""

    active: bool
    committed: Mapping[int, int]


def readers(target: ClusterReader, remote_topic: str) -> dict[str, Reader]:
    """Return the groups of the target that have committed offsets on a topic."""
    listed = {listing.group: listing for listing in target.groups() if listing.type.commits_offsets}
    found: dict[str, Reader] = {}
    for group, offsets in target.committed_offsets(listed).require().items():
        positions = {it.partition: at.offset for it, at in offsets.items() if it.topic == remote_topic}
        if positions:
            found[group] = Reader(listed[group].state.active, positions)
    return found


def upstream_positions(
    topic: DiscoveredTopic, using: Mapping[str, Reader], maps: Maps[OffsetMap], life: Incarnation | None
) -> tuple[GroupPosition, ...]:
    """Return each group's upstream position; it is exact or None.  Pure.

    `life` is the incarnation that was copied, None if the source topic has a new one: no group has read any of it, so
    every group begins at its first record.  In a copy that the flow did not write there are no `maps`: positions are
    among foreign records.
    """
    begins = topic.log_starts

    def upstream(partition: int, downstream: int) -> int | None:
        if life is None or partition not in begins:
            return begins.get(partition)
        return _upstream(maps.seen(SourceIncarnation(topic.topic, life.topic_id, partition)), downstream)

    return tuple(
        GroupPosition(group, partition, downstream, upstream(partition, downstream))
        for group, reader in sorted(using.items())
        for partition, downstream in sorted(reader.committed.items())
    )


def carried_over(
    before: Rebuild | None, topic: DiscoveredTopic, using: Mapping[str, Reader]
) -> tuple[GroupPosition, ...]:
    """Return the positions that an earlier rebuild kept and has not committed yet. Pure.

    They are about the incarnation that rebuild copied. If the topic was recreated since, no group has read any of it.
    """
    begins = topic.log_starts
    same_life = before is not None and not differ(before.topic_id, topic.topic_id)
    return tuple(
        group if same_life else replace(group, upstream=begins.get(group.partition))
        for group in (before.groups if before is not None else ())
        if group.awaited
        if group.group not in using or group.partition not in using[group.group].committed
    )


def owed(ledger: Ledger, topics: Iterable[str]) -> Iterator[tuple[GroupPartition, GroupPosition]]:
    """Yield the positions on copies of `topics` that a rebuild has taken from groups and not yet restored.  Pure."""
    for topic in topics:
        rebuild, life = ledger.rebuilds.get(topic), ledger.incarnations.get(topic)
        if rebuild is None:
            continue
        # While the copy is deleted, the ledger still has the incarnation before; later another one may have followed.
        emptying = rebuild.phase is RebuildPhase.DELETING
        if emptying or life is None or not differ(rebuild.topic_id, life.topic_id):
            for group in rebuild.groups:
                if group.awaited:
                    yield GroupPartition(group.group, rebuild.remote_topic, group.partition), group


def _upstream(known: OffsetMap | UnreadableMap | None, downstream: int) -> int | None:
    if not isinstance(known, OffsetMap):
        return None
    # Past the map's end lie the last commit's markers, or foreign records: all our records were read.
    back = known.reverse(downstream)
    return back.offset if back is not None and back.exact else None


def restore(flow: FlowSettings, clusters: Clusters, rebuilt: Rebuild, begins: Mapping[str, int]) -> Rebuild:
    """Commit the positions that the new copy has reached; the rebuild is done if no position is waiting.

    `begins` are the upstream offsets at which the new copy begins, by partition. A group that has committed an offset
    of its own meanwhile keeps that. A group with members waits until they are gone. A group in a partition whose new
    map cannot be read waits until the map can be read.
    """
    incarnations = {
        SourceIncarnation(rebuilt.topic, rebuilt.topic_id, position.partition) for position in rebuilt.groups
    }
    maps = read_maps(flow, clusters.target, incarnations)
    progress = read_progress(flow, clusters.target)
    ready: dict[GroupPosition, int] = {}
    for group in rebuilt.groups:
        if group.upstream is None or group.restored:
            continue
        known = maps.seen(SourceIncarnation(rebuilt.topic, rebuilt.topic_id, group.partition))
        last = progress.get(TopicPartition(rebuilt.topic, group.partition))
        downstream = new_position(group.upstream, begins.get(str(group.partition), 0), known, last)
        if downstream is not None:
            ready[group] = downstream
    committed_now = _commit(clusters, rebuilt.remote_topic, ready)
    groups = tuple(
        replace(position, restored=True) if position in committed_now else position
        for position in rebuilt.groups
    )
    waiting = any(position.awaited for position in groups)
    return replace(rebuilt, groups=groups, phase=RebuildPhase.COPYING if waiting else RebuildPhase.DONE)


def new_position(
    upstream: int, begins: int, known: OffsetMap | UnreadableMap | None, last: int | None
) -> int | None:
    """Return where a reader goes on in the new copy, None if that is not known yet. Pure.

    It is not known while the copy has not reached the position, or while the map cannot be read. Without a map, no
    record before that position was copied: the reader begins at the copy's first record.
    """
    if upstream <= begins:
        return 0
    if last is None or last + 1 < upstream or isinstance(known, UnreadableMap):
        return None
    there = known.translate(upstream) if known is not None else None
    return there.offset if there is not None else 0


def _commit(
    clusters: Clusters, remote_topic: str, ready: Mapping[GroupPosition, int]
) -> frozenset[GroupPosition]:
    """Commit positions of groups that have none; return those that are final, by this commit or by the group's own."""
    changes: dict[str, dict[TopicPartition, OffsetChange]] = {}
    for it, offset in ready.items():
        partition = TopicPartition(remote_topic, it.partition)
        changes.setdefault(it.group, {})[partition] = OffsetChange(offset, None)
    refused = clusters.target.alter_offsets(changes).refused if changes else {}
    waits = {key for key, error in refused.items() if error.code != OFFSET_MOVED}
    return frozenset(
        position
        for position in ready
        if GroupPartition(position.group, remote_topic, position.partition) not in waits
    )
