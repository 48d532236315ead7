"""Values are grouped by a key."""

from __future__ import annotations

from twinlog.grouped import grouped, without_keys
from twinlog.kafka_types import TopicPartition


def test_groups_and_values_keep_their_order():
    """Keys stand in the order of their first value, values in the order in which they come."""
    assert [("b", [2, 1]), ("a", [2])] == [*grouped([("b", 2), ("a", 2), ("b", 1)]).items()]


def test_partitions_give_their_numbers_by_topic():
    """A partition is a pair of its topic and its number."""
    assert {"t": [3, 0]} == grouped([TopicPartition("t", 3), TopicPartition("t", 0)])


def test_nothing_gives_no_group():
    """There is no group without a value."""
    assert {} == grouped(iter(()))


def test_keys_are_left_out():
    """Others keep their order, and the mapping is as it was."""
    values = {"c": 1, "a": 2, "b": 3}
    assert [("c", 1), ("b", 3)] == [*without_keys(values, {"a", "x"}).items()]
    assert ["c", "a", "b"] == [*values]
