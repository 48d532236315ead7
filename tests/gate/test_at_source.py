"""The gate goes on with a fence's watch: nothing was written since if the ends are as the fence has seen them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog.config.flow.settings import FlowSettings
from twinlog.gate.at_source import LATELY_SECONDS, Moving, moving_topics
from twinlog.kafka_types import TopicPartition

ORDERS = TopicPartition("orders", 0)


class Source:
    """A source with one topic, and how often somebody has waited before it was looked at again."""

    def __init__(self, flow: FlowSettings) -> None:
        self.flow, self.cluster, self.waits = flow, FakeCluster("A"), list[float]()
        self.cluster.add_topic("orders")
        self.write()

    def write(self) -> None:
        self.cluster.append(ORDERS, key=b"k", value=b"v", timestamp=1)

    def moving(self, watched: Moving | None = None) -> Moving:
        return moving_topics(self.flow, self.cluster, {"orders"}, sleep=self.waits.append, watched=watched)


@pytest.fixture
def source(flow: FlowSettings) -> Source:
    return Source(flow)


def test_what_a_fence_has_watched_is_not_watched_again(source: Source) -> None:
    """The ends are read once more, without a wait."""
    watched = source.moving()
    assert (frozenset(), frozenset()) == (watched.topics, source.moving(watched).topics)
    assert [source.flow.gate.fence_seconds] == source.waits


def test_what_was_written_since_is_seen(source: Source) -> None:
    """However short the time was."""
    watched = source.moving()
    source.write()
    assert {"orders"} == source.moving(watched).topics


@pytest.mark.parametrize("other", ["long ago", "another topic", "made anew"])
def test_an_old_watch_or_of_others_does_not_count(source: Source, other: str) -> None:
    """A topic that was made anew may end where the one before ended."""
    watched = source.moving()
    if other == "long ago":
        watched = replace(watched, at=watched.at - LATELY_SECONDS)
    elif other == "another topic":
        source.cluster.add_topic("days")
    else:
        del source.cluster.topics["orders"]
        source.cluster.add_topic("orders")
        source.write()
    assert frozenset() == source.moving(watched).topics
    assert 2 == len(source.waits)
