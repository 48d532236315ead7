"""Partitions that the last cycle had to stop: said until they have moved, or hold nothing more to copy."""

from __future__ import annotations

import time
from typing import Any

import pytest
from fake_cluster import GoneCluster

from twinlog.cluster.api import Clusters
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import publish, status
from twinlog.monitoring.stopped import MOST, StoppedCopy, as_reported, stopped_in

POISON = "orders-0 at upstream offset 3: A.orders refused it: too large (MESSAGE_TOO_LARGE)"
STOPPED = (StoppedCopy("orders", 0, POISON),)


def copy_result(error: str = POISON, code: str = "poison-record", **changes: Any) -> dict[str, Any]:
    """What a copy answers that ended before the fourth record."""
    partition = {"topic": "orders", "partition": 0, "copied_records": 3, "error": error, "error_code": code}
    return {"state": "failed", "records": 3, "bytes": 9, "partitions": [partition], "stopped": []} | changes


class TestStoppedIn:
    """What of a copy's result waits for a person."""

    @pytest.mark.parametrize(
        ("result", "expected"),
        [
            (None, {}),
            (copy_result(""), {}),
            (copy_result(), {TopicPartition("orders", 0): POISON}),
            (copy_result(code="no-leader"), {}),
            (copy_result(code="recreated"), {}),
            (copy_result(transient=True), {}),
            (
                copy_result(
                    "", stopped=[{"topic": "a", "partition": 2, "code": "gap", "message": "a-2: gone"}]
                ),
                {TopicPartition("a", 2): "a-2: gone"},
            ),
            (
                copy_result(
                    "", stopped=[{"topic": "a", "partition": 2, "code": "stalled", "message": "a-2: slow"}]
                ),
                {},
            ),
        ],
    )
    def test_what_goes_away_by_itself_is_left_out(self, result, expected) -> None:
        """Every kind."""
        assert expected == stopped_in(result)

    def test_a_report_names_so_many(self) -> None:
        """It is written in every cycle."""
        many = {TopicPartition("orders", number): "x" * 1_000 for number in range(2 * MOST)}
        kept = as_reported(many)["orders"]
        assert (MOST, {300}) == (len(kept), {len(it) for it in kept.values()})


class TestStatus:
    """What `twinlog status` says, from the ledger and both logs."""

    @pytest.fixture
    def reported(self, flow, clusters, orders, copied):
        """A cycle that copied three records of five and had to stop."""
        copied(orders, 0, 3)
        publish.run(flow, clusters, "run-1", copy_result(), int(time.time() * 1000))

    def test_a_stopped_partition_needs_a_person(self, reported, flow, clusters) -> None:
        """It is named with its reason; lag alone would look like a copy under way."""
        found = status.run(flow, clusters)
        assert (STOPPED, True) == (found.stopped_partitions, found.needs_person)

    def test_a_cycle_that_did_not_look_at_it_forgets_nothing(self, reported, flow, clusters) -> None:
        """One of other topics, or one that could not ask."""
        publish.run(flow, clusters, "run-2", None, int(time.time() * 1000))
        publish.run(flow, clusters, "run-3", copy_result(code="no-leader"), int(time.time() * 1000))
        assert STOPPED == status.run(flow, clusters).stopped_partitions

    def test_once_it_has_moved_it_is_not_stopped(self, reported, flow, clusters, orders, copied) -> None:
        """Also before the next report, and for good after it."""
        copied(orders, 3, 4)
        assert () == status.run(flow, clusters).stopped_partitions
        publish.run(flow, clusters, "run-2", None, int(time.time() * 1000))
        found = status.run(flow, clusters)
        assert ((), False) == (found.stopped_partitions, found.needs_person)

    @pytest.mark.parametrize("written_since", [0, 1, 4])
    def test_a_truncated_partition_is_named_wherever_its_source_ends(
        self, flow, clusters, source, orders, copied, written_since: int
    ) -> None:
        """Before or behind the end of its copy: two that were cut at once may differ in that."""
        copied(orders, 0, 5)
        log = source.topics["orders"].logs[0]
        del log.records[3:]
        log.end = 3
        for _ in range(written_since):
            source.append(orders, key=b"k", value=b"v", timestamp=2_000)
        cut = "orders-0: the source's log ends before upstream offset 5"
        publish.run(flow, clusters, "run-1", copy_result(cut, "truncation"), int(time.time() * 1000))
        found = status.run(flow, clusters)
        assert ((StoppedCopy("orders", 0, cut),), True) == (found.stopped_partitions, found.needs_person)

    def test_without_the_source_the_last_report_speaks(self, reported, flow, clusters) -> None:
        """Nobody can say whether it holds more."""
        found = status.run(flow, Clusters(GoneCluster("A"), clusters.target))
        assert STOPPED == found.stopped_partitions
