"""Observe a flow that another engine copies: read what is new on both sides, match it, and remember what was found.

Nothing is written but the flow's own offset map and ledger, in one transaction, and only what nobody else has observed
meanwhile: of which the ledger still has what it had before the look.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twinlog import clock
from twinlog.audit.audit import compacted
from twinlog.cluster.api import Cluster, Clusters
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.settings import CopiedBy, FlowSettings
from twinlog.copying.result import CopyResult, PartitionCopy
from twinlog.errors import ClusterRefused
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.grouped import grouped
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lane.copy.state_records import map_partition
from twinlog.logs.reading_lanes import spread
from twinlog.observe.lane import ObserveRunner, ObserveSpec, PartitionLook
from twinlog.observe.remember import begun, carried_of, remembered, went_on
from twinlog.observe.values import HORIZON_MS, Matched
from twinlog.state.ledger import Ledger, read_ledger, rows_of
from twinlog.state.mm2_topics import read_syncs
from twinlog.state.progress import PackedMaps, stored_segments
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.snapshot import FlowSnapshot, with_offsets_now

MOST_HINTS = 1_000
"""Most offset syncs of one partition that are passed on: the newest."""


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition to look at: what is known of it, what the ledger had of it, and what is there now.

    If it is looked at `anew`, the map that is stored is of an earlier copy.  The copy begins at `log_start`.
    """

    known: Observed
    before: Observed | None
    anew: bool
    log_start: int
    spec: ObserveSpec

    @property
    def life(self) -> SourceIncarnation:
        return self.known.life


def run(
    flow: FlowSettings,
    clusters: Clusters,
    runner: ObserveRunner,
    *,
    run_id: str,
    topics: Collection[str] | None = None,
    snapshot: FlowSnapshot | None = None,
    horizon_ms: int = HORIZON_MS,
) -> CopyResult:
    """Look at all that is new, of source topics `topics`; the result counts the records of copies that were read.

    What has waited for `horizon_ms` is judged, and positions are exact behind it: 0 once the engine has stopped.

    Raises ClusterUnreachable, ClusterRefused, and FormatError if state cannot be read.  A partition that cannot be read
    is in the result.
    """
    began = time.monotonic()
    snapshot = snapshot or FlowSnapshot(flow, clusters)
    snapshot.target  # noqa: B018 - its ends are asked for before the source's: then every copied record is there
    topics_now = [
        topic
        for topic in with_offsets_now(clusters.source, snapshot.discovery.topics)
        if topic.remote is not None and not topic.blocked and (topics is None or topic.topic in topics)
        if not snapshot.discovery.stands_by
    ]
    shrinking = compacted(clusters.source, (topic.topic for topic in topics_now))
    shrinking |= compacted(clusters.target, (topic.remote_topic for topic in topics_now))
    hints = _hints(flow, clusters)
    wanted = [*_wanted(flow, snapshot.ledger, topics_now, snapshot.maps, hints, shrinking, horizon_ms)]
    sized = ((_size(partition.spec), partition.life, (partition.spec,)) for partition in wanted)
    lanes = tuple(spread(flow, sized, runner.slots))
    answers = runner.run(lanes) if lanes else ()
    looks = {partition.life: partition for answer in answers for partition in answer.partitions}
    _remember(flow, clusters.target, wanted, looks)
    rows = tuple(_row(partition, looks[partition.life]) for partition in wanted)
    problems = tuple(problem for problem in snapshot.discovery.problems if problem.blocking)
    failed = bool(problems) or any(row.error for row in rows)
    return CopyResult(
        flow=flow.name,
        run_id=run_id,
        state="failed" if failed else "done" if rows else "nothing",
        records=sum(row.copied_records for row in rows),
        bytes=0,
        seconds=round(time.monotonic() - began, 3),
        partitions=rows,
        problems=problems,
        lanes=len(lanes),
        lane_cpu_seconds=round(sum(answer.cpu_seconds for answer in answers), 3),
    )


Hints = Mapping[TopicPartition, Sequence[tuple[int, int]]]


def _hints(flow: FlowSettings, clusters: Clusters) -> Hints:
    """Return what MirrorMaker 2 itself says of equal records (upstream, downstream); nothing if that is not told."""
    if flow.copied_by is not CopiedBy.MIRROR_MAKER:
        return {}
    try:
        return grouped(
            (TopicPartition(sync.topic, sync.partition), (sync.upstream_offset, sync.downstream_offset))
            for sync in read_syncs(flow, clusters)
        )
    except ClusterRefused:
        return {}


def _wanted(
    flow: FlowSettings,
    ledger: Ledger,
    topics: Iterable[DiscoveredTopic],
    maps: PackedMaps,
    hints: Hints,
    shrinking: Collection[str],
    horizon_ms: int,
) -> Iterator[_Partition]:
    """Yield the partitions that have a copy; `shrinking` are names of topics, and of copies, that are compacted.

    A copy that twinlog made until it was handed over is known as far as its map reaches.
    """
    now_ms, same = clock.now_ms(), flow.copied_by is CopiedBy.MIRRORING
    for topic in topics:
        remote = topic.remote_topic, topic.copy_id
        shrinks = topic.topic in shrinking or topic.remote_topic in shrinking
        for partition in topic.partitions:
            if partition.target is None:
                continue
            life = partition.life
            before = known = ledger.observed.get(life)
            packed, anew = maps.seen(life), False
            if known is None or known.remote_topic_id != remote[1]:
                known = begun(life, remote, partition.source, partition.target)
                if (
                    before is None
                    and isinstance(packed, PackedMap)
                    and packed.end_of_copy() <= partition.target.end
                ):
                    known = went_on(known, packed.end_upstream, packed.end_of_copy())
                else:
                    anew = True
            end = partition.source_end(flow)
            said = tuple(hints.get(life.topic_partition, ())[-MOST_HINTS:])
            carried, there = carried_of(known), partition.target.stable_end
            seen = ObserveSpec(
                *life, topic.remote_topic, carried, end, there, now_ms, said, shrinks, same, horizon_ms
            )
            yield _Partition(known, before, anew, partition.target.log_start, seen)


def _size(spec: ObserveSpec) -> int:
    """Return how much there is to look at; a partition with nothing new is looked at, too."""
    return spec.target_end - spec.carried.target_to + 1


def _remember(
    flow: FlowSettings,
    target: Cluster,
    wanted: Sequence[_Partition],
    looks: Mapping[SourceIncarnation, PartitionLook],
) -> None:
    """Write what was found in one transaction, but for partitions that somebody else has looked at meanwhile."""
    turn = target.turn(flow.name, flow.ledger_topic, flow.copy.transaction_timeout_ms)
    now, stored = read_ledger(flow, target).observed, stored_segments(flow, target)
    places = len(target.describe_topics([flow.offset_map_topic]).require()[flow.offset_map_topic].partitions)
    at_ms, kept, mapped = clock.now_ms(), list[Observed](), list[InternalRecord]()
    for partition in wanted:
        matched = looks[partition.life].found
        if matched is None or now.get(partition.life) != partition.before:
            continue
        ends = partition.log_start, partition.spec.target_end, partition.spec.source_end
        kept.append(remembered(partition.known, matched, at_ms, *ends))
        number = map_partition(*partition.life.topic_partition, places)
        mapped += _map_records(
            partition, matched, stored.get(partition.life, ()) if partition.anew else (), number
        )
    if kept:
        rows = rows_of(flow, target, kept, (), at_ms)
        turn.write(
            {flow.offset_map_topic: mapped, flow.ledger_topic: rows} if mapped else {flow.ledger_topic: rows}
        )


def _map_records(
    it: _Partition, matched: Matched, stored: Iterable[int], number: int
) -> Iterator[InternalRecord]:
    """Yield the segments that became final; `stored` ones are of an earlier copy, and are forgotten."""
    new = {segment.first_upstream: segment for segment in matched.segments}
    for first in stored:
        if first not in new:
            yield InternalRecord(encode_map_key(MapKey(*it.life, first)), None, number)
    for first, segment in new.items():
        yield InternalRecord(encode_map_key(MapKey(*it.life, first)), encode_segment(segment), number)


def _row(it: _Partition, look: PartitionLook) -> PartitionCopy:
    matched, reached = look.found, it.known.copied_to
    if matched is not None:
        reached = max(reached, matched.carried.copied_to)
    return PartitionCopy(
        topic=it.life.topic,
        remote_topic=it.spec.remote_topic,
        partition=it.life.partition,
        copied_records=0 if matched is None else matched.target_records,
        bytes=0,
        last_upstream_offset=reached - 1,
        lag_records=max(0, it.spec.source_end - reached),
        error_code=look.error_code,
        error=look.error,
    )
