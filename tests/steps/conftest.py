"""A flow A->B and its two clusters, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.fake import FakeCluster
from twinlog.cluster.internal_topics import internal_topics
from twinlog.config.connection import ConnectionSettings
from twinlog.config.settings import ClusterSettings, FlowSettings
from twinlog.policy.filters import NameFilter


def settings(alias: str, bootstrap: str = "nowhere:9092") -> ClusterSettings:
    host, _, port = bootstrap.rpartition(":")
    return ClusterSettings(alias, bootstrap, ConnectionSettings(alias, ((host, int(port)),)))


@pytest.fixture
def flow() -> FlowSettings:
    """A->B, replicating all topics but internal ones, one replica of everything."""
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
