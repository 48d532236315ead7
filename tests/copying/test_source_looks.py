"""A look at the source's ends proves something only if it is whole, and if its two halves follow one another."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.source_looks import look
from twinlog.errors import ClusterUnreachable
from twinlog.formats.transactions import Look, parse
from twinlog.kafka_types import TopicPartition
from twinlog.policy.selection import NameFilter

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def source() -> FakeCluster:
    made = FakeCluster("A")
    made.add_topic("orders")
    made.append(ORDERS, key=b"k", value=b"v")
    return made


@pytest.fixture
def narrow(flow: FlowSettings) -> FlowSettings:
    return replace(flow, topics=NameFilter(("orders.*",)), heartbeats_replication=False)


def test_a_topic_that_is_made_between_the_two_is_in_the_second(
    source: FakeCluster, narrow: FlowSettings
) -> None:
    """Records of a transaction that has ended by the first may lie in it; one that is gone by then is in none."""
    source.add_topic("orders-old")
    offsets = source.offsets

    def and_then(partitions):
        found = offsets(partitions)
        if "orders-new" not in source.topics:
            source.add_topic("orders-new")
            source.append(TopicPartition("orders-new", 0), key=b"k", value=b"v")
            source.append(ORDERS, key=b"k", value=b"v")
            del source.topics["orders-old"]
        return found

    source.offsets = and_then
    found = look(narrow, source)
    assert {ORDERS: 1} == found.before
    assert {ORDERS: 2, TopicPartition("orders-new", 0): 1} == found.after
    assert {"orders", "orders-new"} == set(found.topic_ids)


def test_it_is_whole_or_none(source: FakeCluster, narrow: FlowSettings) -> None:
    """A partition whose leader does not answer may hold records of any transaction."""
    source.refuse("offsets", "orders", ClusterUnreachable("its leader is away", cluster="A"))
    with pytest.raises(ClusterUnreachable):
        look(narrow, source)


def test_topics_that_are_not_copied_are_not_asked_for(source: FakeCluster, narrow: FlowSettings) -> None:
    """The cut is over the partitions of the flow."""
    source.add_topic("invoices")
    assert {ORDERS} == set(look(narrow, source).after)


def test_it_is_noted_under_the_recording(source: FakeCluster, narrow: FlowSettings) -> None:
    """In the flow's topic for transactions."""
    target = FakeCluster("B")
    target.add_topic(narrow.transactions_topic)
    found = look(narrow, source)
    found.note(narrow, target, "run/1")
    (record,) = target.topics[narrow.transactions_topic].logs[0].records
    assert Look("run/1", found.at_ms, found.topic_ids, {ORDERS: 1}, {ORDERS: 1}) == parse(
        record.key, record.value
    )
