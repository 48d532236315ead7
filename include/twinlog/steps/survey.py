"""What every partition of a flow looks like now: read once, judged by validate, publish and status.  Changes nothing.

Topics against which a blocking problem stands have no rows: their offsets would be compared with those of
another life, or with nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog import clock
from twinlog.cluster.clusters import Clusters
from twinlog.cluster.ledger import Ledger, read_ledger
from twinlog.cluster.progress import Maps, SourceLife, read_packed, read_progress
from twinlog.cluster.values import PartitionOffsets, ReadRecord, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.formats.ledger import GapCause
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.quality.ages import seconds_since
from twinlog.quality.gaps import GapReport
from twinlog.quality.map_holes import bounds_of, lost_in
from twinlog.quality.partitions import MapSummary, PartitionRow, lag, summarize_pieces, waiting_from
from twinlog.steps import discover
from twinlog.steps.discovery import DiscoveredPartition, DiscoveredTopic, Discovery
from twinlog.steps.gap_view import read_gaps


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of a flow at `at_ms`: its topics, what it remembers, its offset map, a row per partition, its gaps."""

    discovery: Discovery
    ledger: Ledger
    maps: Maps[PackedMap]
    rows: tuple[PartitionRow, ...]
    at_ms: int
    gaps: tuple[GapReport, ...]

    @property
    def lag_records(self) -> int:
        """Upstream offsets still to be copied, over all partitions."""
        return sum(max(0, row.lag_records) for row in self.rows)

    @property
    def rpo_seconds(self) -> float:
        """Age of the oldest record that is not copied yet, as far as timestamps tell."""
        return age_seconds(self.rows, self.at_ms)


@dataclass(frozen=True, slots=True)
class Copied:
    """How far each partition was copied: progress, the map, what the last cycle report said, and the ledger."""

    progress: Mapping[TopicPartition, int]
    maps: Maps[PackedMap]
    reported: Mapping[TopicPartition, int]
    ledger: Ledger = field(default_factory=Ledger)


def survey(flow: FlowSettings, clusters: Clusters) -> Survey:
    """Read both clusters and make one row per partition.

    What is compared is read in the order in which a copy that goes on meanwhile leaves it behind: the ledger, the
    map, progress, the ends of the logs.  Each is then at most what is read after it, and no check fails for the copy.
    Raises ClusterUnreachable, ClusterRefused, and FormatError for state that cannot be read.
    """
    ledger = read_ledger(flow, clusters.target)
    maps = read_packed(flow, clusters.target)
    progress = read_progress(flow, clusters.target)
    copied = Copied(progress, maps, reported_progress(ledger), ledger)
    discovery = discover.run(flow, clusters)
    waiting = positions(flow, discovery, copied.progress)
    first = clusters.source.read_records(waiting, limit=1)
    rows = partition_rows(flow, discovery, copied, {it: found[0] for it, found in first.items() if found})
    now_ms = clock.now_ms()
    gaps = read_gaps(flow, clusters.target, ledger, now_ms, clusters.source)
    return Survey(discovery, ledger, maps, rows, now_ms, gaps)


def partition_rows(
    flow: FlowSettings,
    discovery: Discovery,
    copied: Copied,
    first: Mapping[TopicPartition, ReadRecord],
) -> tuple[PartitionRow, ...]:
    """Make one row per partition that can be judged.  Pure.

    `first` is the first readable record that is not copied, for partitions that have one.
    """
    return tuple(
        _row(flow, topic, partition, copied, first.get(TopicPartition(topic.topic, partition.partition)))
        for topic, partition in _partitions(discovery)
    )


def positions(
    flow: FlowSettings, discovery: Discovery, progress: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Say where each lagging partition's copy would continue, as upstream offsets.  Pure."""
    found: dict[TopicPartition, int] = {}
    for topic, partition in _partitions(discovery):
        it = TopicPartition(topic.topic, partition.partition)
        position = _position(flow, partition, progress.get(it))
        if position < source_end(flow, partition):
            found[it] = position
    return found


def source_end(flow: FlowSettings, partition: DiscoveredPartition) -> int:
    """Up to where the flow copies: the stable end, or the end when it reads uncommitted records too."""
    return partition.source.readable_end(read_committed=flow.copy.read_committed)


def reported_progress(ledger: Ledger) -> Mapping[TopicPartition, int]:
    """Read the next upstream offsets of the last cycle report, where they are about what is copied now."""
    report = ledger.last_report
    if report is None:
        return {}
    rewound = {
        TopicPartition(it.topic, it.partition) for it in ledger.gaps if it.cause is GapCause.TRUNCATION
    }
    return {
        it: offset
        for topic, offsets in report.summary.get("next_upstream", {}).items()
        if (life := ledger.incarnations.get(topic)) is None or life.since_ms <= report.at_ms
        for partition, offset in offsets.items()
        if (it := TopicPartition(topic, int(partition))) not in rewound
    }


def age_seconds(rows: Iterable[PartitionRow], now_ms: int) -> float:
    """Age of the oldest record not copied, as far as the source's timestamps tell; 0 when everything is copied."""
    oldest = [row.oldest_uncopied for row in rows if row.oldest_uncopied is not None]
    return clock.seconds_since(min(oldest), now_ms) if oldest else 0.0


def known_age_seconds(rows: Iterable[PartitionRow], now_ms: int) -> float | None:
    """Age of the oldest record not copied, 0 when everything is; None when nobody knows.

    A record that waits may have no timestamp, or one that has yet to come.
    """
    lagging = [row for row in rows if row.lag_records > 0]
    known = [it for row in lagging if (it := seconds_since(row.oldest_uncopied, now_ms)) is not None]
    return round(max(known, default=0.0), 3) if len(known) == len(lagging) else None


def summarized(maps: Maps[PackedMap], life: SourceLife) -> MapSummary:
    """Add up the map of one partition; one that cannot be read knows of no record.  Pure."""
    try:
        packed = maps.get(life)
        return summarize_pieces(packed.pieces()) if packed is not None else MapSummary()
    except UnreadableMap:
        return MapSummary()


def unmapped(
    ledger: Ledger,
    maps: Maps[PackedMap],
    life: SourceLife,
    reported: int | None,
    last: int | None,
    copy: PartitionOffsets | None,
) -> int | None:
    """Count the copied offsets of which the map was lost; None where there is no map to be read.  Pure.

    Copied is what the last cycle `reported`, which was read in front of the map: progress may be ahead of the map that
    was read.
    """
    copied_to = None if reported is None or last is None else min(reported, last + 1)
    try:
        packed = maps.get(life)
        if packed is None or copy is None:
            return None
        bounds = bounds_of(ledger, life, copied_to, copy.log_start, copy.stable_end)
        return sum(it.end - it.start for it in lost_in(packed, bounds))
    except UnreadableMap:
        return None


def _partitions(discovery: Discovery) -> Iterator[tuple[DiscoveredTopic, DiscoveredPartition]]:
    return ((topic, it) for topic in discovery.topics if not topic.blocked for it in topic.partitions)


def _position(flow: FlowSettings, partition: DiscoveredPartition, last: int | None) -> int:
    if last is None and partition.begins is not None:
        return waiting_from(partition.source, partition.begins)
    if last is None and flow.copy.start_from_latest:
        return source_end(flow, partition)
    return waiting_from(partition.source, None if last is None else last + 1)


def _row(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    copied: Copied,
    first: ReadRecord | None,
) -> PartitionRow:
    it = TopicPartition(topic.topic, partition.partition)
    last = copied.progress.get(it)
    life = SourceLife(topic.topic, topic.topic_id, it.partition)
    end = source_end(flow, partition)
    timestamp = first.timestamp if first is not None else -1
    return PartitionRow(
        topic=topic.topic,
        remote_topic=topic.remote_topic,
        partition=partition.partition,
        source_log_start=partition.source.log_start,
        source_end=partition.source.end,
        next_upstream=None if last is None else last + 1,
        lag_records=lag(end, _position(flow, partition, last), first),
        oldest_uncopied=timestamp if timestamp >= 0 else None,
        target_log_start=partition.target.log_start if partition.target is not None else None,
        target_stable_end=partition.target.stable_end if partition.target is not None else None,
        source_partitions=topic.partition_count,
        # A topic born since sync_topics ran has no copy yet; one whose copy was deleted is blocked, without a row.
        target_partitions=topic.remote.partitions if topic.remote is not None else None,
        mapped=summarized(copied.maps, life),
        reported_next_upstream=copied.reported.get(it),
        unmapped_offsets=unmapped(
            copied.ledger, copied.maps, life, copied.reported.get(it), last, partition.target
        ),
    )
