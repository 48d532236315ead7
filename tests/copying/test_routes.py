"""What a range is told of the topics that its records are routed to, and what stops it."""

from __future__ import annotations

from typing import Any

import pytest

from twinlog.copying.ranges import ResolvedRanges
from twinlog.copying.resolve import with_routes
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import RangeSpec
from twinlog.transforms.chain import Chain
from twinlog.transforms.routes import Partitioner, Route
from twinlog.transforms.rules import Rule


def ranges(partitioner: Partitioner) -> ResolvedRanges:
    """Ranges of two partitions that route, and one that does not."""
    chain = Chain(rules=(Rule("r", (".*",), route=Route("alerts", partitioner)),))
    found = [RangeSpec("t", "id", "A.t", n, 0, 9, chain=chain) for n in (0, 1)]
    return ResolvedRanges((*found, RangeSpec("plain", "id", "A.plain", 0, 0, 9)), ())


def test_a_range_is_told_partitions_and_limit(target) -> None:
    """Those without a route are told nothing, and cost no question."""
    target.add_topic("alerts", 3)
    found = with_routes(target, ranges(Partitioner.KEY), ())
    assert [("alerts", 3), ("alerts", 3), None] == [
        (it.routed[0].topic, it.routed[0].partitions) if it.routed else None for it in found.ranges
    ]
    places = [TopicPartition("alerts", n) for n in range(3)]
    assert [places, places, []] == [[*it.routed_places] for it in found.ranges]
    plain = ResolvedRanges(found.ranges[2:], ())
    nothing: Any = None
    assert plain is with_routes(nothing, plain, ())


def test_the_same_partition_must_be_there(target) -> None:
    """Its neighbours go on."""
    target.add_topic("alerts", 1)
    found = with_routes(target, ranges(Partitioner.SAME), ())
    assert [("t", 0), ("plain", 0)] == [it.topic_partition for it in found.ranges]
    assert [("t", 1, "route-stopped")] == [(it.topic, it.partition, it.code) for it in found.stopped]
    assert "alerts has 1 partitions, too few for partitioner=same" in found.stopped[0].message


@pytest.mark.parametrize(
    ("there", "copies", "says"),
    [(False, (), "alerts, to which"), (True, ("alerts",), "is a copy of the flow")],
)
def test_a_topic_that_is_missing_or_a_copy_stops_all_that_route_there(
    there: bool, copies: tuple[str, ...], says: str, target
) -> None:
    """No record is dropped because its place is not there."""
    if there:
        target.add_topic("alerts", 2)
    found = with_routes(target, ranges(Partitioner.KEY), copies)
    assert [("plain", 0)] == [it.topic_partition for it in found.ranges]
    assert [says in it.message for it in found.stopped] == [True, True]
