"""Assign ranges to lanes: choose how many lanes, and which lane copies what.

One lane moves hundreds of megabytes in the time Python needs to start a second one. Per byte, one lane also needs less
CPU than two that share a machine. So the number of lanes follows from the bytes to copy, or is what twinlog.lanes
says.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.spec import RangeSpec
from twinlog.topics.discovery import DiscoveredTopic

log = logging.getLogger(__name__)

LANE_BYTES: Final = 256 << 20
"""Bytes for which each further lane is opened."""

MORE_BYTES: Final = 1.05
"""How much the fullest lane may take on so that all lanes share urgent ranges, as a multiple of its load without."""

Packed = tuple[tuple[RangeSpec, ...], ...]


def assign(
    source: ClusterReader,
    ranges: Sequence[RangeSpec],
    topics: Iterable[DiscoveredTopic],
    *,
    most: int,
    configured: int | None,
) -> Packed:
    """Assign ranges to `configured` lanes (twinlog.lanes), or to as many as their bytes need, at most `most`.

    Without `configured`, use `most` lanes if the source does not tell the sizes of its logs.
    """
    lanes = most if configured is None else configured
    if lanes == 1 or len(ranges) <= 1:
        return pack(ranges, 1)
    sizes = offset_sizes(source, topics)
    sized = weighed(ranges, sizes)
    if configured is None and sizes:
        lanes = lanes_worth(sum(item.estimated_bytes for item in sized), most)
    return pack_by_leaders(source, sized, lanes)


def pack_by_leaders(source: ClusterReader, ranges: Sequence[RangeSpec], lanes: int) -> Packed:
    """Pack ranges by the leaders that the source tells; if it does not, by their weights alone."""
    leaders: Mapping[TopicPartition, int] = {}
    if lanes > 1:
        try:
            leaders = source.leaders({item.topic for item in ranges})
        except TwinlogError as error:
            log.debug("lanes are assigned without regard to leaders: %s", error)
    return pack(ranges, lanes, leaders)


def offset_sizes(source: ClusterReader, topics: Iterable[DiscoveredTopic]) -> Mapping[TopicPartition, float]:
    """Return the mean bytes of an offset in the source's logs; nothing if the source does not tell.

    The sizes serve the packing only, so a failure to read them costs a line in the log.
    """
    offsets = {
        topic.at_source(partition.partition): partition.source.end - partition.source.log_start
        for topic in topics
        for partition in topic.partitions
    }
    try:
        sizes = source.log_dirs().sizes
    except TwinlogError as error:
        _warn(f"lanes are assigned by offsets, not by bytes (DescribeLogDirs): {error}")
        return {}
    return {it: size / offsets[it] for it, size in sizes.items() if offsets.get(it)}


@cache
def _warn(line: str) -> None:
    """Log it once in a process: a followed flow asks again every minute."""
    log.warning(line)


def weighed(
    ranges: Iterable[RangeSpec], bytes_per_offset: Mapping[TopicPartition, float]
) -> tuple[RangeSpec, ...]:
    """Estimate the bytes of ranges; leave partitions without an estimate as they are. Pure."""

    def weigh(item: RangeSpec) -> RangeSpec:
        each = bytes_per_offset.get(item.topic_partition)
        return item if each is None else replace(item, estimated_bytes=round((item.end - item.start) * each))

    return tuple(weigh(item) for item in ranges)


def lanes_worth(size: int, most: int) -> int:
    """Return how many lanes this many bytes need, from 1 to `most`. Pure."""
    return min(most, 1 + size // LANE_BYTES)


def pack(
    ranges: Sequence[RangeSpec], lanes: int, leaders: Mapping[TopicPartition, int] | None = None
) -> Packed:
    """Assign ranges to at most `lanes` lanes, each time the largest to the emptiest lane. Pure.

    The weight of a range is its estimated bytes, or its offsets if there is no estimate. The ranges with the least RPO
    go first, so that all lanes share them, and lanes share what each of the `leaders` (node ids) gives: over distance
    a connection carries only so much. Either is given up if a lane would then have more than MORE_BYTES of the most
    that a lane needs.
    """
    if not ranges:
        return ()
    lanes = min(lanes, len(ranges))
    by_weight = sorted(ranges, key=lambda it: -it.weight)
    urgent_first = sorted(by_weight, key=lambda it: it.rpo_seconds)
    least = _packed(by_weight, lanes, {}, math.inf)
    most = MORE_BYTES * _fullest(least)
    better = (_packed(urgent_first, lanes, known, most) for known in (leaders or {}, {}))
    return next((it for it in better if _fullest(it) <= most), least)


def _packed(
    ranges: Iterable[RangeSpec], lanes: int, leaders: Mapping[TopicPartition, int], most: float
) -> Packed:
    """Assign ranges in this order, each to the lane that reads least from its leader, if it then has at most `most`.

    If there is no such lane, or the leader is not known, the lane that is emptiest by then gets it.
    """
    bins: list[list[RangeSpec]] = [[] for _ in range(lanes)]
    loads = [0] * lanes
    read: list[Counter[int]] = [Counter() for _ in range(lanes)]
    for item in ranges:
        leader = leaders.get(item.topic_partition, -1)
        emptiest = loads.index(min(loads))
        fitting = [it for it in range(lanes) if loads[it] + item.weight <= most] if leader >= 0 else []
        lane = min(fitting or [emptiest], key=lambda it: (read[it][leader], loads[it]))
        bins[lane].append(item)
        loads[lane] += item.weight
        read[lane][leader] += item.weight
    return tuple(tuple(lane) for lane in bins)


def _fullest(packed: Packed) -> int:
    return max(sum(span.weight for span in lane) for lane in packed)


def assign_open(
    source: ClusterReader,
    ranges: Sequence[RangeSpec],
    topics: Collection[DiscoveredTopic],
    *,
    recent_bytes: Mapping[TopicPartition, int],
    least: int,
    most: int,
    configured: int | None,
    read_committed: bool = True,
) -> Packed:
    """Assign ranges without an end, by their backlog behind the ends in `topics` and `recent_bytes`.

    Use `configured` lanes, or as many as the backlog needs, from `least` to `most`.
    """
    ends = readable_ends(topics, read_committed=read_committed)
    behind: Sequence[RangeSpec] = [
        replace(span, end=max(span.start, ends.get(span.topic_partition, span.start))) for span in ranges
    ]
    lanes = configured or least
    if configured is None and least < most and any(span.end > span.start for span in behind):
        sizes = offset_sizes(source, topics)
        behind = weighed(behind, sizes)
        lanes = max(least, lanes_worth(sum(span.estimated_bytes for span in behind), most) if sizes else most)
    both = zip(ranges, behind, strict=True)
    return pack_by_leaders(
        source,
        [
            replace(it, estimated_bytes=1 + recent_bytes.get(it.topic_partition, 0) + late.estimated_bytes)
            for it, late in both
        ],
        lanes,
    )


def fixed_lanes(flow: FlowSettings, most: int) -> int | None:
    """Return how many lanes a generation has for any backlog, at most `most`; None if the backlog decides. Pure.

    Under a throttle more lanes would copy no more, and a lane's unused share of the rate does not pass to another.
    """
    if flow.copy.lanes:
        return min(flow.copy.lanes, most)
    return 1 if flow.copy.bytes_per_second else None


def readable_ends(topics: Iterable[DiscoveredTopic], *, read_committed: bool) -> Positions:
    """Return where the partitions of topics end for readers of that isolation level (upstream offsets)."""
    return {
        topic.at_source(partition.partition): partition.source.readable_end(read_committed=read_committed)
        for topic in topics
        for partition in topic.partitions
    }
