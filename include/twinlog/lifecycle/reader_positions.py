"""Where groups of the target stand on a copy, kept over a rebuild of it.

Brokers forget committed offsets with a deleted topic; a reader with auto.offset.reset=latest would then skip
all of the new copy.  So positions are turned into upstream offsets by the old copy's map, and back by the new one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from twinlog.cluster.admin.group import OFFSET_MOVED, GroupPartition, OffsetChange
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import TopicPartition
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import GroupPosition, Incarnation, Rebuild, RebuildPhase
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.progress import Maps, SourceIncarnation, read_maps, read_progress
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.incarnations import differ


@dataclass(frozen=True, slots=True)
class Reader:
    """A group with committed offsets on a copy; `active` when it has members, or may have."""

    active: bool
    committed: Mapping[int, int]


def readers(target: ClusterReader, remote_topic: str) -> dict[str, Reader]:
    """Groups of the target that have committed offsets on a topic."""
    listed = {it.group: it for it in target.groups() if it.type.commits_offsets}
    found: dict[str, Reader] = {}
    for group, offsets in target.committed_offsets(listed).require().items():
        positions = {it.partition: at.offset for it, at in offsets.items() if it.topic == remote_topic}
        if positions:
            found[group] = Reader(listed[group].state.active, positions)
    return found


def upstream_positions(
    topic: DiscoveredTopic,
    using: Mapping[str, Reader],
    maps: Maps[OffsetMap],
    life: Incarnation | None,
    same_life: bool,
    same_copy: bool,
) -> tuple[GroupPosition, ...]:
    """Say where each group stands, upstream.  Pure.

    Exact or not at all: in a copy that is not the one we wrote, positions are among somebody else's records.  When
    the source topic lives another life nothing of it was read yet: every group begins at its first record.
    """
    begins = {it.partition: it.source.log_start for it in topic.partitions}
    found = []
    for group, reader in sorted(using.items()):
        for partition, downstream in sorted(reader.committed.items()):
            if partition not in begins:
                upstream = None
            elif not same_life or life is None:
                upstream = begins[partition]
            elif not same_copy:
                upstream = None
            else:
                upstream = _upstream(
                    maps.seen(SourceIncarnation(topic.topic, life.topic_id, partition)), downstream
                )
            found.append(GroupPosition(group, partition, downstream, upstream))
    return tuple(found)


def carried_over(
    before: Rebuild | None, topic: DiscoveredTopic, using: Mapping[str, Reader]
) -> tuple[GroupPosition, ...]:
    """Positions that an earlier rebuild kept and has not committed yet.  Pure.

    They are about the life that it copied: of one that began since, nothing was read yet.
    """
    begins = {it.partition: it.source.log_start for it in topic.partitions}
    same_life = before is not None and not differ(before.topic_id, topic.topic_id)
    return tuple(
        it if same_life else replace(it, upstream=begins.get(it.partition))
        for it in (before.groups if before is not None else ())
        if it.awaited
        if it.group not in using or it.partition not in using[it.group].committed
    )


def _upstream(known: OffsetMap | UnreadableMap | None, downstream: int) -> int | None:
    if not isinstance(known, OffsetMap):
        return None
    # Ahead of the map lie the last commit's markers, or others' records: everything of ours was read.
    back = known.reverse(downstream)
    return back.offset if back is not None and back.exact else None


def restore(flow: FlowSettings, clusters: Clusters, rebuilt: Rebuild, begins: Mapping[str, int]) -> Rebuild:
    """Commit what the new copy has come to; the rebuild is done when no position is waiting.

    `begins` are the upstream offsets the new copy begins at, by partition.  A group that has committed something by
    itself meanwhile keeps that; one that has members waits until they are gone, and one in a partition whose new map
    cannot be read until it can be.
    """
    lives = {SourceIncarnation(rebuilt.topic, rebuilt.topic_id, it.partition) for it in rebuilt.groups}
    maps = read_maps(flow, clusters.target, lives)
    progress = read_progress(flow, clusters.target)
    ready: dict[GroupPosition, int] = {}
    for it in rebuilt.groups:
        if it.upstream is None or it.restored:
            continue
        known = maps.seen(SourceIncarnation(rebuilt.topic, rebuilt.topic_id, it.partition))
        last = progress.get(TopicPartition(rebuilt.topic, it.partition))
        downstream = new_position(it.upstream, begins.get(str(it.partition), 0), known, last)
        if downstream is not None:
            ready[it] = downstream
    settled = _commit(clusters, rebuilt.remote_topic, ready)
    groups = tuple(replace(it, restored=True) if it in settled else it for it in rebuilt.groups)
    waiting = any(it.awaited for it in groups)
    return replace(rebuilt, groups=groups, phase=RebuildPhase.COPYING if waiting else RebuildPhase.DONE)


def new_position(
    upstream: int, begins: int, known: OffsetMap | UnreadableMap | None, last: int | None
) -> int | None:
    """Where a reader goes on in the new copy; None while it has not come that far, or nobody can tell.  Pure.

    Without a map nothing was copied before that place: the reader begins with the copy.
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
    """Commit positions of groups that have none; return those that are settled, by us or by the group itself."""
    changes: dict[str, dict[TopicPartition, OffsetChange]] = {}
    for it, offset in ready.items():
        partition = TopicPartition(remote_topic, it.partition)
        changes.setdefault(it.group, {})[partition] = OffsetChange(offset, None)
    refused = clusters.target.alter_offsets(changes).refused if changes else {}
    waits = {key for key, error in refused.items() if error.code != OFFSET_MOVED}
    return frozenset(it for it in ready if GroupPartition(it.group, remote_topic, it.partition) not in waits)
