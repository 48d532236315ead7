"""Check whether groups would go on at the record they would have read next: some positions, read on both sides.

The translation comes from the map.  This check asks the clusters themselves, so it finds a wrong map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from twinlog.cluster.api import Clusters
from twinlog.cluster.prints import Fingerprint
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.report import GroupPartitionRow
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps
from twinlog.topics.same_log import record_at

SAMPLED = 50
"""Positions that one gate reads, evenly chosen; each costs two small fetches."""


class Position(NamedTuple):
    """A group's partition: the next copied record at or after its committed offset, by both offsets."""

    row: GroupPartitionRow
    upstream: int
    downstream: int


def read(
    flow: FlowSettings,
    clusters: Clusters,
    ledger: Ledger,
    maps: PackedMaps,
    copies: Mapping[TopicPartition, PartitionOffsets],
    rows: Iterable[GroupPartitionRow],
) -> Mapping[int, bool]:
    """Say, by index in `rows`, whether a row's position names the same record on both sides.

    A row has no answer if it was not sampled, if nothing is left to read, if its record is gone by retention or
    compaction, or if transforms changed it: that is for the audit.  Raises ClusterUnreachable, ClusterRefused,
    TransientError.
    """
    opened: dict[SourceIncarnation, OffsetMap] = {}
    positions = {
        place: position
        for place, row in enumerate(rows)
        if (position := position_of(row, ledger, maps, copies.get(row.remote), opened)) is not None
    }
    answers = {}
    for place in evenly(sorted(positions)):
        it = positions[place]
        ours = record_at(clusters.source, it.row.topic_partition, it.upstream)
        theirs = record_at(clusters.target, it.row.remote, it.downstream)
        changed = bool(flow.transforms.of(it.row.remote_topic))
        verdict = same(it, ours, theirs, may_differ=changed)
        if verdict is not None:
            answers[place] = verdict
    return answers


def position_of(
    row: GroupPartitionRow,
    ledger: Ledger,
    maps: PackedMaps,
    copy: PartitionOffsets | None,
    opened: dict[SourceIncarnation, OffsetMap],
) -> Position | None:
    """Find the record that a group would read next; None if the translation does not claim to name it.  Pure.

    `copy` tells where the log of the copy begins, `opened` caches the maps.
    """
    newest = ledger.incarnations.get(row.topic)
    if newest is None or row.downstream_offset is None or not row.exact or row.ahead:
        return None
    life = SourceIncarnation(row.topic, newest.topic_id, row.partition)
    if life not in opened:
        packed = maps.seen(life)
        opened[life] = packed.open() if isinstance(packed, PackedMap) else OffsetMap.of(())
    found = opened[life].first_at(row.upstream_offset)
    if found is None or (copy is not None and found[1] < copy.log_start):
        return None
    return Position(row, *found)


def same(
    position: Position, ours: Fingerprint | None, theirs: Fingerprint | None, *, may_differ: bool = False
) -> bool | None:
    """Judge one position.  Pure.

    A position before the copy of the record costs duplicates (in a two-way topic, records of other writers lie there,
    too).  A position after it would skip the record.  `may_differ`: transforms may have changed the copy.
    """
    translated = position.row.downstream_offset
    if translated is None or translated != position.downstream:
        return None if translated is None else translated < position.downstream
    return alike(ours, theirs, may_differ=may_differ)


def alike(ours: Fingerprint | None, theirs: Fingerprint | None, *, may_differ: bool) -> bool | None:
    """Say whether two records are the same; None if one is in its log no more, or transforms may have changed it.

    They do not change its timestamp.  Pure.
    """
    if ours is None or theirs is None:
        return None
    if may_differ and ours.timestamp == theirs.timestamp and ours.content != theirs.content:
        return None
    return (ours.timestamp, ours.content) == (theirs.timestamp, theirs.content)


def evenly(places: Sequence[int]) -> Sequence[int]:
    """Choose at most SAMPLED places, spread evenly."""
    if len(places) <= SAMPLED:
        return places
    return [places[index * len(places) // SAMPLED] for index in range(SAMPLED)]
