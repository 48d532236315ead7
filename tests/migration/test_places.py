"""Which partitions are refused before anything is compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.errors import ClusterRefused, TransientError, UsageError
from twinlog.kafka_types import TopicPartition
from twinlog.migration import handover, takeover
from twinlog.migration.takeover_report import TakeoverReport


def refused(report: TakeoverReport) -> list[tuple[str, int, int | None]]:
    return [(it.topic, it.partition, it.position) for it in report.refused]


def dry(moving: Any, step: Any = takeover, **options: Any) -> TakeoverReport:
    report: TakeoverReport = step.run(
        moving.flow, moving.clusters, moving.origin, run_id="r", dry_run=True, watch_seconds=0, **options
    )
    return report


def without_leader(cluster: FakeCluster, gone: TopicPartition) -> None:
    """Nobody answers for the offsets of one partition from now on."""
    answer = cluster.offsets

    def offsets(partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        asked = list(partitions)
        found = answer(it for it in asked if it != gone)
        no = TransientError(f"{gone.topic}-{gone.partition} has no leader")
        return Answers(found.found, {**found.refused, **({gone: no} if gone in asked else {})})

    cluster.offsets = offsets  # type: ignore[method-assign]


@pytest.fixture
def orders(moving: Any) -> Any:
    """Two partitions with a record each, both copied; and a topic that is fine."""
    for cluster, name in ((moving.source, "orders"), (moving.target, "A.orders")):
        cluster.add_topic(name, 2)
        for number in (0, 1):
            cluster.append(TopicPartition(name, number), key=b"k", value=b"v")
    for number in (0, 1):
        moving.position("orders", 0, partition=number)
    moving.topic("fine", "x")
    moving.copy("fine", "x")
    moving.position("fine", 0)
    return moving


@pytest.mark.parametrize("step", [takeover, handover])
def test_a_partition_that_cannot_be_read_is_refused(orders: Any, step: Any) -> None:
    """On either side: nobody knows how far it is copied."""
    assert "dry-run" == dry(orders, step).state
    without_leader(orders.source, TopicPartition("orders", 1))
    assert [("orders", 1, 0)] == refused(dry(orders, step))
    without_leader(orders.target, TopicPartition("A.orders", 0))
    report = dry(orders, step)
    assert [("orders", 0, 0), ("orders", 1, 0)] == refused(report)
    assert all("cannot be read" in it.message and it.hint for it in report.refused)


def test_a_copy_that_cannot_be_read_is_refused_without_a_position(orders: Any) -> None:
    """MirrorMaker may have copied into it and not yet said so."""
    orders.topic("new", "a")
    without_leader(orders.target, TopicPartition("A.new", 0))
    assert [("new", 0, None)] == refused(dry(orders))


def test_a_topic_that_is_hidden_is_refused(orders: Any) -> None:
    """Whether the source lists it or not; --topics leaves it out, or names it."""
    no = ClusterRefused("no", hint="grant DESCRIBE")
    orders.source.refuse("describe_topics", "orders", no)
    assert [("orders", 0, 0), ("orders", 1, 0)] == refused(dry(orders))
    orders.source.topic_names = lambda: ("fine",)
    for step in (takeover, handover):
        assert [("orders", 0, 0), ("orders", 1, 0)] == refused(dry(orders, step))
    assert "grant DESCRIBE" == dry(orders, topics=["orders"]).refused[0].hint
    assert "dry-run" == dry(orders, topics=["fine"]).state
    with pytest.raises(UsageError):
        dry(orders, topics=["nope"])


def test_a_hidden_topic_without_a_position_is_refused(orders: Any) -> None:
    """Nobody knows whether any of it was copied."""
    orders.topic("secret", "a")
    orders.source.refuse("describe_topics", "secret", ClusterRefused("no"))
    assert [("secret", 0, None)] == refused(dry(orders))


def test_what_the_source_deleted_or_the_flow_leaves_out_is_no_reason_to_refuse(orders: Any) -> None:
    """MirrorMaker keeps positions for good."""
    orders.position("deleted-long-ago", 7)
    orders.position("__consumer_offsets", 7)
    orders.source.refuse("describe_topics", "__consumer_offsets", ClusterRefused("no"))
    assert "dry-run" == dry(orders).state


def test_a_position_of_a_partition_that_is_not_there_is_refused(orders: Any) -> None:
    """The topic was made anew with fewer."""
    orders.position("orders", 9, partition=2)
    report = dry(orders)
    assert [("orders", 2, 9)] == refused(report)
    assert "recreated" in report.refused[0].message
