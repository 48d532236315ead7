"""A flow A->B, its clusters in memory, and a topic of which twinlog copied a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from fake_cluster import FakeCluster

from twinlog.client.pairs import Answer, Ask
from twinlog.client.translator import FlowTranslator
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger.records import Incarnation
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import write_ledger


@dataclass
class World:
    """Two clusters, and what a copy leaves on them."""

    flow: FlowSettings
    source: FakeCluster
    target: FakeCluster

    @property
    def clusters(self) -> Clusters:
        return Clusters(self.source, self.target)

    def translate(self, *asks: tuple[str, int, int]) -> tuple[Answer, ...]:
        return FlowTranslator(self.flow, self.clusters).translate(Ask(*it) for it in asks)

    def reverse(self, *asks: tuple[str, int, int]) -> tuple[Answer, ...]:
        return FlowTranslator(self.flow, self.clusters).reverse(Ask(*it) for it in asks)

    def fill(self, cluster: FakeCluster, topic: str, count: int) -> None:
        for number in range(count):
            cluster.append(TopicPartition(topic, 0), key=b"k", value=b"%d" % number, timestamp=1000 + number)

    def mapped(self, topic: str, first: int, end: int, runs: Sequence[Extent]) -> None:
        """What a copy writes into the map."""
        key = MapKey(topic, self.source.topics[topic].topic_id, 0, first)
        value = encode_segment(MapSegment(first, end, tuple(runs)))
        at = TopicPartition(self.flow.offset_map_topic, 0)
        self.target.append(at, key=encode_map_key(key), value=value)

    def seen(self, topic: str, topic_id: str = "") -> None:
        """What the first cycle notes of a topic."""
        known = topic_id or self.source.topics[topic].topic_id
        write_ledger(self.flow, self.target, [Incarnation(topic, known, 1, f"A.{topic}")])

    def lose_source(self, alias: str = "A") -> None:
        """The source is gone."""

        def gone(*_: object, **__: object) -> None:
            raise ClusterUnreachable("gone", cluster=alias)

        for verb in (
            "cluster_id",
            "describe_topics",
            "offsets",
            "offsets_at",
            "groups",
            "committed_offsets",
            "topic_names",
        ):
            setattr(self.source, verb, gone)


def settings(alias: str) -> ClusterSettings:
    return ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),)))


@pytest.fixture
def world() -> World:
    flow = FlowSettings(
        source=settings("A"), target=settings("B"), topics=NameFilter((".*",), (r"mm2.*\.internal",))
    )
    made = World(flow, FakeCluster("A"), FakeCluster("B"))
    made.target.add_topic(flow.offset_map_topic, 16)
    made.target.add_topic(flow.ledger_topic)
    return made


@pytest.fixture
def orders(world: World) -> World:
    """Twelve records: 0..3 and 5..9 are copied to 2..5 and 7..11, 4 holds none, 10 and 11 are not copied yet."""
    world.source.add_topic("orders")
    world.target.add_topic("A.orders")
    world.fill(world.source, "orders", 12)
    world.fill(world.target, "A.orders", 12)
    world.mapped("orders", 0, 10, [Extent(0, 2, 4), Extent(5, 7, 5)])
    world.seen("orders")
    return world
