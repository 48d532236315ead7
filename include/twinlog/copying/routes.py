"""Find the topics of the target to which rules route records, and stop the partitions that cannot be routed there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers, TopicDescription
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition, message_limits
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.range_errors import NO_LEADER
from twinlog.lane.fence.lost_progress import LOST_MARKER, WHAT_TO_DO
from twinlog.lane.open_transactions import wait_until_ended, wait_until_led
from twinlog.lane.spec import DEFAULT_MAX_MESSAGE_BYTES, RangeSpec, RoutedTopic
from twinlog.protocol.brokers import Brokers

ROUTE_STOPPED = "route-stopped"
"""Code of a partition whose records cannot be routed as its rules say."""

MARKERS_SECONDS = 10.0
"""How long the end of an earlier transaction may take to arrive in a routed topic."""

LEADER_SECONDS = 3.0
"""How long partitions of a routed topic may be without a leader before they are left to the next round."""


def with_routes(target: ClusterReader, resolved: ResolvedRanges, copies: Collection[str]) -> ResolvedRanges:
    """Tell each range of the topics it routes records to; `copies` are the names of the flow's copies.

    A range stops if such a topic is not there, has too few partitions, or is a copy of the flow.
    """
    names = sorted({route.to for it in resolved.ranges for route in it.chain.routes})
    if not names:
        return resolved
    found = target.describe_topics(names)
    limits = message_limits(target, found.found)
    known = {
        name: RoutedTopic(name, len(it.partitions), limits.get(name, DEFAULT_MAX_MESSAGE_BYTES))
        for name, it in found.found.items()
    }
    reasons = {it.topic_partition: _why_not(it, known, found, copies) for it in resolved.ranges}
    ranges = tuple(
        replace(it, routed=tuple(known[name] for name in dict.fromkeys(r.to for r in it.chain.routes)))
        for it in resolved.ranges
        if not reasons[it.topic_partition]
    )
    return ResolvedRanges(ranges, (*resolved.stopped, *_stopped(resolved.ranges, reasons, ROUTE_STOPPED)))


def _why_not(
    it: RangeSpec,
    known: Mapping[str, RoutedTopic],
    found: Answers[str, TopicDescription],
    copies: Collection[str],
) -> str:
    """Say why records of a range cannot be routed, "" if they can.  Pure."""
    for route in it.chain.routes:
        if route.to in copies:
            return (
                f"{route.to}, to which a rule routes records, is a copy of the flow; route to another topic"
            )
        topic = known.get(route.to)
        if topic is None:
            why = found.refused[route.to].message if route.to in found.refused else "it does not exist"
            return f"{route.to}, to which a rule routes records: {why}; the next cycle creates it if it may"
        if not route.reaches(it.partition, topic.partitions):
            return (
                f"{route.to} has {topic.partitions} partitions, too few for partitioner=same; add partitions to it,"
                " or route by key"
            )
    return ""


def without_hanging(
    target: Brokers, resolved: ResolvedRanges, ours: Collection[int], alias: str
) -> ResolvedRanges:
    """Stop the ranges that would write behind a transaction of ours that lacks its end in a routed topic.

    Those to whose places a partition without a leader belongs stop, too: nobody can tell.
    Call it behind the fence, while no lane writes.  Raises as `find_hanging`.
    """
    places = {place for it in resolved.ranges for place in it.routed_places}
    if not places:
        return resolved
    seen = wait_until_led(target, places, ours, LEADER_SECONDS)
    if seen.open:
        seen = wait_until_ended(target, places, ours, MARKERS_SECONDS)
    reasons = {
        place: f"cluster {alias} lost the end of a transaction: {place[0]}-{place[1]}, to which it is routed, holds"
        f" records open from offset {it.first_offset} on, and they may have been committed; {WHAT_TO_DO}"
        for place, it in seen.open.items()
    }
    left = _without(resolved, reasons, LOST_MARKER)
    missing = f"has no leader on cluster {alias} that could be asked whether it holds all it was given"
    leaderless = {
        place: f"{place[0]}-{place[1]}, to which it is routed, {missing}" for place in seen.leaderless
    }
    return _without(left, leaderless, NO_LEADER)


def _without(resolved: ResolvedRanges, reasons: Mapping[TopicPartition, str], code: str) -> ResolvedRanges:
    """Stop the ranges that route records to a place with a reason against it."""
    found = {
        it.topic_partition: next((reasons[place] for place in it.routed_places if place in reasons), "")
        for it in resolved.ranges
    }
    left = tuple(it for it in resolved.ranges if not found[it.topic_partition])
    return ResolvedRanges(left, (*resolved.stopped, *_stopped(resolved.ranges, found, code)))


def _stopped(
    ranges: Iterable[RangeSpec], reasons: Mapping[TopicPartition, str], code: str
) -> Iterable[StoppedPartition]:
    return (
        StoppedPartition(it.topic, it.partition, code, f"{it.topic}-{it.partition}: {why}")
        for it in ranges
        if (why := reasons[it.topic_partition])
    )
