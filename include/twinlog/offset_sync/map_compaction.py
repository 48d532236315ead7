"""Compact the offset map: join small map segments into one, and forget those that no reader can ask for.

This runs with the step `offset_syncs`, and in follow mode as the background task `map_compaction`. The map topic has
two writers: the lanes of the copy, behind the fence, and this compaction. They never write the same key. A lane writes
the newest segment of a partition, and lets it grow under its key. This compaction leaves the newest segment of every
partition alone; the others are final, except for a rewind and a rebuild.

A compaction takes a turn beside the lanes (lane/fence/beside.py): so another one, a rewind or a rebuild never changes
the map between its reading and its writing. Everything is read anew then: the ledger, the log starts of the copies,
and the map. What was read before only says whether there is something to do.

New segments, and the tombstones of those they replace, are one transaction. So no reader, and no crash, ever sees a
map with a part missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from twinlog.cluster.api import Cluster, ClusterReader, Clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FencedError
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lane.copy.state_records import map_partition
from twinlog.state.ledger import Ledger, read_ledger, require_own
from twinlog.state.progress import read_packed
from twinlog.topics.incarnations import differ
from twinlog.topics.snapshot import FlowSnapshot

JOINED_RUNS = 4_000
"""Most extents of a joined segment: 12 KB if they are small, 100 KB if they are the largest possible."""

WORTH_IT = 16
"""Number of segments from which on joining is worth its transaction."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Segments of one partition, by first upstream offset, and their replacement: one joined segment, or nothing."""

    incarnation: SourceIncarnation
    replaced: tuple[int, ...]
    value: bytes | None


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """The result of a compaction: `joined` segments became `into`; `forgotten` lay below the target's log start."""

    flow: str
    pieces: int
    joined: int = 0
    into: int = 0
    forgotten: int = 0
    note: str = ""

    @property
    def sentence(self) -> str:
        """Return what was done, for a log."""
        if self.note:
            return self.note
        if not self.joined and not self.forgotten:
            return f"{self.pieces:,} segments, nothing to compact"
        return f"{self.joined:,} of {self.pieces:,} segments joined into {self.into:,}, {self.forgotten:,} deleted"


def run(flow: FlowSettings, clusters: Clusters, snapshot: FlowSnapshot | None = None) -> CompactionResult:
    """Read the map, and compact it if that is worth it.

    Raises ClusterUnreachable, ClusterRefused, and FormatError for a map topic that cannot be read. If a single
    partition's map cannot be read, it is left alone, as evidence. If somebody else wrote in between, that is a
    note.
    """
    snapshot = snapshot or FlowSnapshot(flow, clusters)
    seen = snapshot.maps
    pieces = sum(len(packed_map.values) for packed_map in seen.values())
    if not make_plan(seen, _log_starts(snapshot.ledger, clusters.target, seen)):
        return CompactionResult(flow.name, pieces)
    try:
        done = _write(flow, clusters.target)
    except FencedError:
        return CompactionResult(
            flow.name, pieces, note="somebody else wrote in between; the next one compacts"
        )
    joined = [replacement for replacement in done if replacement.value is not None]
    return CompactionResult(
        flow.name,
        pieces,
        joined=sum(len(replacement.replaced) for replacement in joined),
        into=len(joined),
        forgotten=sum(len(replacement.replaced) for replacement in done if replacement.value is None),
    )


def make_plan(
    maps: Mapping[SourceIncarnation, PackedMap], log_starts: Mapping[SourceIncarnation, int]
) -> list[Replacement]:
    """Plan what to join and what to forget. Pure.

    `log_starts` are the target's, for partitions that exist there.
    """
    plan: list[Replacement] = []
    for incarnation, packed in maps.items():
        first_kept = _first_kept(packed, log_starts.get(incarnation, 0))
        if first_kept:
            plan.append(Replacement(incarnation, tuple(packed.first[:first_kept].tolist()), None))
        with suppress(UnreadableMap):
            plan += [*_joins(incarnation, packed, first_kept)]
    return plan


def _first_kept(packed: PackedMap, log_start: int) -> int:
    """Return the row of the oldest segment that is kept.

    The last segment that begins below the log start stays. That segment shows that everything before the log start was
    copied by us, so that a position there can be translated to the log start.
    """
    final_with_runs = np.flatnonzero(packed.runs[:-1] > 0)
    below = final_with_runs[packed.downstream[final_with_runs] < log_start]
    return int(below[-1]) if len(below) else 0


def _joins(incarnation: SourceIncarnation, packed: PackedMap, start: int) -> Iterator[Replacement]:
    """Join neighbours, from row `start` to the last but one, while they stay small together."""
    rows: list[int] = []
    runs = 0
    for row in range(start, len(packed.values) - 1):
        follows = not rows or packed.first[row] == packed.end[rows[-1]]
        count = int(packed.runs[row])
        if rows and (not follows or runs + count > JOINED_RUNS):
            yield from _join(incarnation, packed, rows)
            rows, runs = [], 0
        rows.append(row)
        runs += count
    yield from _join(incarnation, packed, rows)


def _join(incarnation: SourceIncarnation, packed: PackedMap, rows: list[int]) -> Iterator[Replacement]:
    if len(rows) < WORTH_IT:
        return
    (piece,) = packed.joined(np.array(rows)).pieces
    yield Replacement(incarnation, tuple(packed.first[rows].tolist()), encode_segment(piece))


def _log_starts(
    ledger: Ledger, target: ClusterReader, maps: Mapping[SourceIncarnation, PackedMap]
) -> Mapping[SourceIncarnation, int]:
    """Return the target's log starts for the newest incarnation of each topic: only its offsets are of this log.

    Offsets are asked for by topic name, so the topic's id is read before and after: a copy that was made anew begins
    elsewhere. Partitions with a single segment are not asked for: their segment stays wherever the log begins.
    """
    incarnations = ledger.incarnations
    remotes = {
        incarnation: TopicPartition(incarnations[incarnation.topic].remote_topic, incarnation.partition)
        for incarnation, packed in maps.items()
        if len(packed.values) > 1
        and incarnation.topic in incarnations
        and incarnations[incarnation.topic].topic_id == incarnation.topic_id
    }
    copies = {incarnation.remote_topic: incarnation.remote_topic_id for incarnation in incarnations.values()}
    before = target.describe_topics({remote.topic for remote in remotes.values()}).found
    known = [
        remote
        for remote in remotes.values()
        if remote.topic in before
        and remote.partition < len(before[remote.topic].partitions)
        and not differ(copies[remote.topic], before[remote.topic].topic_id)
    ]
    offsets = target.offsets(known).found
    after = target.describe_topics({offset.topic for offset in offsets}).found
    same = {name for name, it in after.items() if it.topic_id == before[name].topic_id}
    return {
        incarnation: offsets[it].log_start
        for incarnation, it in remotes.items()
        if it in offsets and it.topic in same
    }


def _write(flow: FlowSettings, target: Cluster) -> list[Replacement]:
    """Take a turn, read again, plan by what is read now, and write in one transaction.

    Raises TerminalError if another flow name owns the map by now: its turns are of another transactional id.
    """
    turn = target.turn(flow.name, flow.ledger_topic, flow.copy.transaction_timeout_ms)
    ledger, maps = read_ledger(flow, target), read_packed(flow, target)
    require_own(flow, ledger, "", "")
    plan = make_plan(maps, _log_starts(ledger, target, maps))
    topic = flow.offset_map_topic
    count = len(target.describe_topics([topic]).require()[topic].partitions)
    if records := [record for replacement in plan for record in records_of(count, replacement)]:
        turn.write({topic: records})
    return plan


def records_of(partitions: int, replacement: Replacement) -> Iterator[InternalRecord]:
    """Yield the joined segment under the key of the oldest it replaces, and tombstones for the others. Pure."""
    number = map_partition(replacement.incarnation.topic, replacement.incarnation.partition, partitions)
    for at, first in enumerate(replacement.replaced):
        key = encode_map_key(MapKey(*replacement.incarnation, first))
        yield InternalRecord(key, replacement.value if at == 0 else None, number)
