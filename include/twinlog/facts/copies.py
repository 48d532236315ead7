"""Read what observing and recalling a flow share: the copies on the target, by map, ledger and cluster."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.audit.coverage import PartitionCoverage, coverage
from twinlog.audit.map_holes import bounds_of, lost_in
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import PartitionOffsets, TopicDescription
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.fact import Count, Unknown
from twinlog.facts.flow import FlowFacts
from twinlog.facts.partition import MapSummary, PartitionFacts, summarize
from twinlog.facts.topic import TopicSide
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps


def with_configs(
    cluster: ClusterReader, described: Mapping[str, TopicDescription]
) -> Mapping[str, TopicSide]:
    """Add the configuration to topics that one cluster described, as far as it tells it."""
    configs = cluster.topic_configs(described).found
    return {name: TopicSide(it, configs.get(name, {})) for name, it in described.items()}


def read_disks(cluster: ClusterReader) -> LogDirs:
    """Read the sizes of logs and disks; if a cluster refuses, they are unknown.

    Raises ClusterUnreachable.
    """
    try:
        return cluster.log_dirs()
    except ClusterUnreachable:
        raise
    except TwinlogError:
        return LogDirs()


def coverage_of(facts: FlowFacts) -> tuple[PartitionCoverage, ...]:
    """Compute how much of each copy is proved equal; opens every map.

    If the map of a partition cannot be read, nothing of that partition counts as proved.  Pure.
    """
    topics = {topic.remote_topic: topic.topic for topic in facts.topics}
    topics |= {
        incarnation.remote_topic: incarnation.topic for incarnation in facts.ledger.incarnations.values()
    }
    starts = {
        TopicPartition(topics[at.topic], at.partition): it.log_start
        for at, it in facts.copies.items()
        if at.topic in topics
    }
    return coverage(facts.ledger, facts.maps, facts.copy_ids, starts)


def copied(
    ledger: Ledger,
    maps: PackedMaps,
    progress: Positions,
    life: SourceIncarnation,
    remote_topic: str,
    reported: Positions,
    log: PartitionOffsets | None,
    *,
    observed: bool = False,
) -> PartitionFacts:
    """Make what the target tells of a partition, `observed` or copied by twinlog: nothing of its source.  Pure."""
    at = life.topic_partition
    last, seen, mapped = progress.get(at), ledger.observed.get(life), summarized(maps, life)
    read_to = 0 if seen is None else max(seen.seen_to, seen.read_to)
    return PartitionFacts(
        topic=life.topic,
        remote_topic=remote_topic,
        partition=life.partition,
        next_upstream=None if last is None else last + 1,
        target_log_start=log.log_start if log is not None else None,
        target_stable_end=log.stable_end if log is not None else None,
        mapped=mapped,
        reported_next_upstream=reported.get(at),
        unmapped_offsets=unmapped(ledger, maps, life, reported.get(at), last, log),
        absent_records=seen.absent if seen is not None else 0,
        open_offsets=seen.open_offsets if seen is not None else 0,
        lost_open=seen is not None
        and log is not None
        and seen.open_below(log.log_start, mapped.upstream_end),
        unread=max(0, log.stable_end - max(read_to, log.log_start if seen is None else 0))
        if observed and log is not None
        else 0,
        lag_when_read=None if seen is None else seen.lag_records,
        read_ms=0 if seen is None else seen.at_ms,
    )


def summarized(maps: PackedMaps, life: SourceIncarnation) -> MapSummary:
    """Add up the map of one partition; a map that cannot be read counts as empty.  Pure."""
    try:
        packed = maps.get(life)
        return summarize(packed.pieces()) if packed is not None else MapSummary()
    except UnreadableMap:
        return MapSummary()


def unmapped(
    ledger: Ledger,
    maps: PackedMaps,
    life: SourceIncarnation,
    reported: int | None,
    last: int | None,
    copy: PartitionOffsets | None,
) -> Count | None:
    """Count the copied offsets whose part of the map was lost; None if there is no map.  Pure.

    Copied offsets are those that the last cycle `reported`, which was read before the map: progress may be ahead of
    the map that was read.  Of what another engine copies, the map tells only behind the horizon.
    """
    copied_to = None if reported is None or last is None else min(reported, last + 1)
    seen = ledger.observed.get(life)
    if seen is not None and copied_to is not None and copied_to <= seen.copied_to:
        copied_to = min(copied_to, seen.mapped_to)
    try:
        packed = maps.get(life)
        if packed is None or copy is None:
            return None
        bounds = bounds_of(ledger, life, copied_to, copy.log_start, copy.stable_end)
        return sum(stretch.end - stretch.start for stretch in lost_in(packed, bounds))
    except UnreadableMap:
        return Unknown("the map cannot be read")
