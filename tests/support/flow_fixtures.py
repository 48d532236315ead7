"""A flow A->B and its two clusters, in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.copying.ownership import Ownership, state_topics
from twinlog.formats.lane_counts import LaneCounts, lane_header
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.spec import StateTopics
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.policy.selection import NameFilter
from twinlog.state.internal_topics import internal_topics
from twinlog.state.progress import read_progress


def settings(alias: str, bootstrap: str = "nowhere:9092") -> ClusterSettings:
    host, _, port = bootstrap.rpartition(":")
    return ClusterSettings(alias, bootstrap, ConnectionSettings(alias, ((host, int(port)),)))


@pytest.fixture
def flow(base_flow: FlowSettings) -> FlowSettings:
    """A->B, replicating all topics but internal ones, one replica of everything."""
    return base_flow


@pytest.fixture(scope="session")
def base_flow() -> FlowSettings:
    """The same, also for properties that Hypothesis tries many times."""
    return FlowSettings(
        source=settings("A"),
        target=settings("B"),
        topics=NameFilter((".*",), (r"mm2.*\.internal", "__.*")),
        replication_factor=1,
    )


@pytest.fixture
def source() -> FakeCluster:
    return FakeCluster("A")


@pytest.fixture
def target() -> FakeCluster:
    return FakeCluster("B", brokers=3)


@pytest.fixture
def clusters(source: FakeCluster, target: FakeCluster) -> Clusters:
    return Clusters(source, target)


@pytest.fixture
def with_internal(flow: FlowSettings, target: FakeCluster) -> FakeCluster:
    """The target, with the flow's own topics in place."""
    for topic in internal_topics(flow):
        target.add_topic(topic.name, topic.partitions, configs={"cleanup.policy": "compact"})
    return target


@pytest.fixture
def real_flow(cluster_a, cluster_b) -> Callable[..., FlowSettings]:
    """`real_flow(topics)` is a flow between the two real clusters, for the given topics only."""

    def make(*topics: str, **changes: object) -> FlowSettings:
        base = FlowSettings(
            source=settings("A", cluster_a.bootstrap_servers),
            target=settings("B", cluster_b.bootstrap_servers),
            topics=NameFilter(tuple(topics)),
            heartbeats_replication=False,
        )
        return replace(base, **changes)

    return make


@pytest.fixture
def orders(source: FakeCluster, with_internal: FakeCluster) -> TopicPartition:
    """A topic of one partition with five records (source times 1000 to 1004 ms), and its empty copy."""
    source.add_topic("orders")
    with_internal.add_topic("A.orders")
    at = TopicPartition("orders", 0)
    for number in range(5):
        source.append(at, key=b"k", value=b"v", timestamp=1_000 + number)
    return at


@pytest.fixture
def copied(flow: FlowSettings, source: FakeCluster, target: FakeCluster) -> Callable[..., None]:
    """`copied(partition, start, end)` does to the target what copying these upstream offsets does."""

    def copy(at: TopicPartition, start: int, end: int) -> None:
        remote = TopicPartition(f"A.{at.topic}", at.partition)
        downstream = target.topics[remote.topic].logs[at.partition].end
        for record in source.topics[at.topic].logs[at.partition].records[start:end]:
            target.append(remote, key=record.key, value=record.value, timestamp=record.timestamp)
        key = source_offset_key(flow.connector_name, "A", at.partition, at.topic)
        target.append(TopicPartition(flow.offsets_topic, 0), key=key, value=offset_value(end - 1))
        map_key = MapKey(at.topic, source.topics[at.topic].topic_id, at.partition, start)
        piece = MapSegment(start, end, (Extent(start, downstream, end - start),))
        target.append(
            TopicPartition(flow.offset_map_topic, 0), key=encode_map_key(map_key), value=encode_segment(piece)
        )

    return copy


@pytest.fixture
def lane_tells(flow: FlowSettings, target: FakeCluster) -> Callable[[TopicPartition, LaneCounts], None]:
    """`lane_tells(partition, counts)` stores progress of a partition as a lane with these counts does."""

    def tell(at: TopicPartition, counts: LaneCounts) -> None:
        key, log = source_offset_key(flow.connector_name, "A", at.partition, at.topic), target.topics
        log[flow.offsets_topic].logs[0].append(key, offset_value(1), counts.at_ms, lane_header(counts))

    return tell


@pytest.fixture
def fenced(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Whoever takes the flow's fence gets it, and writes into the target in memory.

    What is in the list happens meanwhile, one thing in front of each fence.
    """
    meanwhile: list[Callable[[], object]] = []

    @dataclass
    class Owned:
        state: StateTopics
        progress: Mapping[TopicPartition, int]
        clusters: Clusters
        run_id: str = "run"
        grant: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(copy_ends={}))

        def write(self, records: list[StateRecord]) -> None:
            for it in records:
                at = TopicPartition(it.topic, it.partition)
                self.clusters.target.append(at, key=it.key, value=it.value)

    def taken(flow: FlowSettings, clusters: Clusters, why: str, run_id: str | None = None) -> Owned:
        if meanwhile:
            meanwhile.pop(0)()
        return Owned(state_topics(flow, clusters), read_progress(flow, clusters.target), clusters)

    monkeypatch.setattr(Ownership, "taken", taken)
    return meanwhile
