"""Transactions of ours whose end the target lost in a partition of the copy: aborted, or the partition stops.

Data, progress and map of a transaction are committed together.  So one that is still open in the copy behind the fence
never counted if progress and map agree that nothing from its beginning on is copied: then its abort is what the target
lost, and is written once more.  In any other case it may have been committed, and a person has to look.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.progress import SourceLife, read_packed
from twinlog.config.settings import FlowSettings
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.relay.brokers import Brokers, TopicPartition
from twinlog.relay.fence import LOST_MARKER, Grant
from twinlog.relay.hanging import Open, hanging
from twinlog.relay.lane import Lane
from twinlog.relay.spec import RangeSpec
from twinlog.steps.plan_ranges import Settled, StoppedPartition

log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.05
"""How long the markers of an abort may take to arrive, and how often is looked for them."""


def without_lost_ends(
    flow: FlowSettings,
    clusters: Clusters,
    target: Brokers,
    settled: Settled,
    grant: Grant,
    ours: Collection[int],
) -> Settled:
    """Abort what never counted, and stop the other partitions in which a producer of `ours` has something open.

    Call behind the fence that gave `grant`, before a lane writes.  Raises TransientError and ClusterRefused.
    """
    by_copy = {(it.remote_topic, it.partition): it for it in settled.ranges}
    lost = hanging(target, by_copy, ours)
    if not lost:
        return settled
    maps = read_packed(flow, clusters.target)
    ended = []
    for place, found in lost.items():
        item = by_copy[place]
        last = grant.progress.get((item.topic, item.partition))
        known = maps.seen(SourceLife(item.topic, item.topic_id, item.partition))
        if never_counted(found.first_offset, last, known) and _aborted(target, grant, place, found):
            ended.append(place)
    left = _still_open(target, ended, ours)
    healed = [place for place in ended if place not in left]
    for topic, partition in healed:
        log.warning(
            "%s-%s: cluster %s had lost the end of a transaction that never counted; it was aborted again",
            topic,
            partition,
            flow.target.alias,
        )
    lost = {place: found for place, found in lost.items() if place not in healed}
    ranges = tuple(it for place, it in by_copy.items() if place not in lost)
    stopped = tuple(_stopped(by_copy[place], found, flow.target.alias) for place, found in lost.items())
    return Settled(ranges, (*settled.stopped, *stopped))


def never_counted(
    first_offset: int, last_copied: int | None, known: PackedMap | UnreadableMap | None
) -> bool:
    """Whether nothing from downstream `first_offset` on is copied, by progress (upstream) and map alike.  Pure."""
    if known is None or last_copied is None:
        return known is None and last_copied is None
    if isinstance(known, UnreadableMap) or known.end_upstream != last_copied + 1:
        return False
    try:
        return known.open().end_downstream <= first_offset
    except UnreadableMap:
        return False


def _aborted(target: Brokers, grant: Grant, place: TopicPartition, found: Open) -> bool:
    """Write the marker again, if one of our lanes has the same producer id; return whether one had."""
    for granted in grant.lanes:
        if granted.writer.producer_id == found.producer_id:
            lane = Lane(target, granted.writer)
            refused = lane.add([place])
            lane.abort()
            return not refused
    return False


def _still_open(
    target: Brokers, places: Collection[TopicPartition], ours: Collection[int]
) -> Collection[TopicPartition]:
    """Return what is open even when the markers have had their time."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    left: Collection[TopicPartition] = places
    while left and (left := hanging(target, places, ours)) and time.monotonic() < deadline:
        time.sleep(_PAUSE_SECONDS)
    return left


def _stopped(item: RangeSpec, found: Open, alias: str) -> StoppedPartition:
    message = (
        f"cluster {alias} lost the end of a transaction: {item.remote_topic}-{item.partition} holds records open from"
        f" offset {found.first_offset} on, and they may have been committed; see docs/topics.md,"
        ' "A transaction without an end"'
    )
    return StoppedPartition(item.topic, item.partition, LOST_MARKER, message)
