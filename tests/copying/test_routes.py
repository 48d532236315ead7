"""What a range is told of the topics that its records are routed to, and what stops it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.copying import routes
from twinlog.copying.ranges import ResolvedRanges
from twinlog.copying.routes import with_routes, without_hanging
from twinlog.kafka_types import TopicPartition
from twinlog.lane.open_transactions import FoundHanging, HangingTransaction
from twinlog.lane.spec import RangeSpec, RoutedTopic
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
    assert plain is with_routes(nothing, plain, ()) is without_hanging(nothing, plain, (), "B")


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


def test_nothing_is_routed_behind_a_transaction_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be decided with the next one; a partition without a leader cannot tell."""
    known = tuple(
        replace(it, routed=(RoutedTopic("alerts", 2),)) if it.chain else it
        for it in ranges(Partitioner.SAME).ranges
    )
    first, second = (TopicPartition("alerts", n) for n in (0, 1))
    seen = FoundHanging({first: HangingTransaction(7, 5, 9)}, frozenset([second]), frozenset(), {})
    monkeypatch.setattr(routes, "wait_until_led", lambda *_: seen)
    monkeypatch.setattr(routes, "wait_until_ended", lambda *_: seen)
    brokers: Any = SimpleNamespace()
    found = without_hanging(brokers, ResolvedRanges(known, ()), {7}, "B")
    assert [("plain", 0)] == [it.topic_partition for it in found.ranges]
    assert [(0, "lost-marker"), (1, "no-leader")] == [(it.partition, it.code) for it in found.stopped]
    assert "alerts-0, to which it is routed, holds records open from offset 5 on" in found.stopped[0].message
