"""Step `map_upkeep`: join many small pieces of the offset map into one, and forget what no reader can ask for.

Who may write the map topic: the lanes of the copy, behind the fence, and this step.  They never write the same key.
A lane writes the newest piece of a partition, and lets it grow under its key; this step leaves the newest piece of
every partition alone, and the others are final, but for a rewind and a rebuild.  Both fence an upkeep under way before
they read the map, write only if no other began since, and fence once more afterwards (copying/ownership.py).  To slip
through, an upkeep would have to begin and finish during their commit.  Two of this step exclude each other by a
transactional id of their own, in the order of the fence: initialise, then read, then write.  Read is everything anew:
the ledger, where the copies' logs begin, and the map; what was seen before only says whether there is something to do.
What replaces and what is replaced is one transaction, so that no reader, and no crash, ever sees a map with a part
missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import ReadRecord, TopicPartition
from twinlog.config.flow.settings import FlowSettings, Guarantee
from twinlog.errors import FencedError
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.lane.copy.state_records import StateRecord, map_partition
from twinlog.lane.fence.control_lane import write_fenced
from twinlog.lane.fence.fence import GrantedLane, init_writer, upkeep_id
from twinlog.lane.fence.ownership import Identity, Owned, require_ours
from twinlog.logs.log_reader import StateLog
from twinlog.protocol.brokers import Brokers
from twinlog.state.ledger import read_ledger
from twinlog.state.progress import SourceIncarnation, packed_maps, read_packed
from twinlog.topics.incarnations import differ

JOINED_RUNS = 4_000
"""Runs a joined piece has at most: 12 KB of small ones, 100 KB of the largest there can be."""

WORTH_IT = 16
"""Pieces of a partition from which on joining pays for its transaction."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Pieces of one partition, by first upstream offset, and what stands for them: one joined piece, or nothing."""

    life: SourceIncarnation
    replaced: tuple[int, ...]
    value: bytes | None


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """What was done: `joined` pieces became `into`, and `forgotten` lay below the target's log start."""

    flow: str
    pieces: int
    joined: int = 0
    into: int = 0
    forgotten: int = 0
    note: str = ""


def run(flow: FlowSettings, clusters: Clusters) -> CompactionResult:
    """Look, and when there is enough to do, do it.

    Raises ClusterUnreachable, ClusterRefused, and FormatError for a map topic that cannot be read; a single partition's
    map that cannot be read is left alone, as evidence.  Another upkeep that came in between is a note: it did the work.
    """
    if flow.copy.guarantee is not Guarantee.EXACTLY_ONCE:
        return CompactionResult(
            flow.name, 0, note="a map is joined in transactions, which this flow does without"
        )
    seen = read_packed(flow, clusters.target)
    pieces = sum(len(it.values) for it in seen.values())
    if not make_plan(seen, _log_starts(flow, clusters.target, seen)):
        return CompactionResult(flow.name, pieces)
    try:
        done = _write(flow, clusters.target)
    except FencedError:
        return CompactionResult(flow.name, pieces, note="another upkeep of this flow came in between")
    joined = [it for it in done if it.value is not None]
    return CompactionResult(
        flow.name,
        pieces,
        joined=sum(len(it.replaced) for it in joined),
        into=len(joined),
        forgotten=sum(len(it.replaced) for it in done if it.value is None),
    )


def make_plan(
    maps: Mapping[SourceIncarnation, PackedMap], log_starts: Mapping[SourceIncarnation, int]
) -> list[Replacement]:
    """Say what to join and what to forget.  `log_starts` are the target's, for partitions that are there.  Pure."""
    plan: list[Replacement] = []
    for life, packed in maps.items():
        first_kept = _first_kept(packed, log_starts.get(life, 0))
        if first_kept:
            plan.append(Replacement(life, tuple(packed.first[:first_kept].tolist()), None))
        with suppress(UnreadableMap):
            plan += [*_joins(life, packed, first_kept)]
    return plan


def _first_kept(packed: PackedMap, log_start: int) -> int:
    """Row of the oldest piece that is kept.

    The last piece that begins below the log start stays: it is what says that everything before the log start was
    copied by us, so that a position down there is known to be the log start's.
    """
    final_with_runs = np.flatnonzero(packed.runs[:-1] > 0)
    below = final_with_runs[packed.downstream[final_with_runs] < log_start]
    return int(below[-1]) if len(below) else 0


def _joins(life: SourceIncarnation, packed: PackedMap, start: int) -> Iterator[Replacement]:
    """Join neighbours, from row `start` to the last but one, while they stay small together."""
    rows: list[int] = []
    runs = 0
    for row in range(start, len(packed.values) - 1):
        follows = not rows or packed.first[row] == packed.end[rows[-1]]
        count = int(packed.runs[row])
        if rows and (not follows or runs + count > JOINED_RUNS):
            yield from _join(life, packed, rows)
            rows, runs = [], 0
        rows.append(row)
        runs += count
    yield from _join(life, packed, rows)


def _join(life: SourceIncarnation, packed: PackedMap, rows: list[int]) -> Iterator[Replacement]:
    if len(rows) < WORTH_IT:
        return
    (piece,) = packed.joined(np.array(rows)).pieces
    yield Replacement(life, tuple(packed.first[rows].tolist()), encode_segment(piece))


def _log_starts(
    flow: FlowSettings, target: ClusterReader, maps: Mapping[SourceIncarnation, PackedMap]
) -> Mapping[SourceIncarnation, int]:
    """Where the target's logs begin, for the newest life of each topic: only its offsets are this log's.

    Offsets are asked for by name, so the topic's id is looked at before and after: a copy that was made anew begins
    elsewhere.  Not asked for partitions with a single piece: that one stays wherever the log begins.
    """
    asked = target.fresh
    lives = read_ledger(flow, asked).incarnations
    remotes = {
        life: TopicPartition(lives[life.topic].remote_topic, life.partition)
        for life, packed in maps.items()
        if len(packed.values) > 1 and life.topic in lives and lives[life.topic].topic_id == life.topic_id
    }
    copies = {it.remote_topic: it.remote_topic_id for it in lives.values()}
    before = asked.describe_topics({it.topic for it in remotes.values()}).found
    known = [
        it
        for it in remotes.values()
        if it.topic in before
        and it.partition < len(before[it.topic].partitions)
        and not differ(copies[it.topic], before[it.topic].topic_id)
    ]
    offsets = asked.offsets(known).found
    after = asked.describe_topics({it.topic for it in offsets}).found
    same = {name for name, it in after.items() if it.topic_id == before[name].topic_id}
    return {life: offsets[it].log_start for life, it in remotes.items() if it in offsets and it.topic in same}


def _write(flow: FlowSettings, cluster: ClusterReader) -> list[Replacement]:
    """Initialise, read again, decide on what is read now, write in one transaction.

    Raises TerminalError when the map is another name's by now: its upkeep has a transactional id of its own.
    """
    with Brokers(flow.target.connection) as target:
        writer = init_writer(target, upkeep_id(flow.name), flow.copy.transaction_timeout_ms)
        ledger = StateLog(flow.ledger_topic)
        undecided = ledger.read(target).undecided
        require_ours(Identity(flow.name, "", ""), Owned.of(ledger.records, undecided))
        log = StateLog(flow.offset_map_topic)
        log.read(target)
        latest = {
            key: ReadRecord(it.offset, it.timestamp, key, it.value, it.partition)
            for key, it in log.records.items()
        }
        maps = packed_maps(flow.offset_map_topic, latest)
        plan = make_plan(maps, _log_starts(flow, cluster, maps))
        count = len(target.metadata([flow.offset_map_topic])[flow.offset_map_topic].leaders)
        records = [record for it in plan for record in records_of(flow.offset_map_topic, count, it)]
        if records:
            write_fenced(target, GrantedLane(0, writer), records)
        return plan


def records_of(topic: str, partitions: int, replacement: Replacement) -> Iterator[StateRecord]:
    """The joined piece under the key of the oldest it replaces, and tombstones for the others.  Pure."""
    number = map_partition(replacement.life.topic, replacement.life.partition, partitions)
    for at, first in enumerate(replacement.replaced):
        key = encode_map_key(MapKey(*replacement.life, first))
        yield StateRecord(topic, number, key, replacement.value if at == 0 else None)
