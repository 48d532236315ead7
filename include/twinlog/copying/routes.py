"""Find the topics of the target to which rules route records, and stop the partitions that cannot be routed there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers, TopicDescription
from twinlog.copying.ranges import ResolvedRanges, StoppedPartition, message_limits
from twinlog.lane.spec import DEFAULT_MAX_MESSAGE_BYTES, RangeSpec, RoutedTopic

ROUTE_STOPPED = "route-stopped"
"""Code of a partition whose records cannot be routed as its rules say."""


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
    reasons = [(it, _why_not(it, known, found, copies)) for it in resolved.ranges]
    ranges = tuple(
        replace(it, routed=tuple(known[name] for name in dict.fromkeys(r.to for r in it.chain.routes)))
        for it, why in reasons
        if not why
    )
    stopped = (
        StoppedPartition(it.topic, it.partition, ROUTE_STOPPED, f"{it.topic}-{it.partition}: {why}")
        for it, why in reasons
        if why
    )
    return ResolvedRanges(ranges, (*resolved.stopped, *stopped))


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
