"""A flow A->B whose copies MM2 has made, in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.kafka_types import TopicPartition
from twinlog.migration.copier import Origin
from twinlog.policy.selection import NameFilter


@dataclass
class Moving:
    """Two clusters, and hands to do what MM2 does."""

    flow: FlowSettings
    source: FakeCluster
    target: FakeCluster

    @property
    def clusters(self) -> Clusters:
        return Clusters(self.source, self.target)

    @property
    def origin(self) -> Origin:
        return Origin.of(self.flow)

    def topic(self, name: str, *records: str, configs: dict[str, str] | None = None) -> None:
        """A topic of one partition with these records on the source, and its empty copy."""
        self.source.add_topic(name, configs=configs)
        self.target.add_topic(f"A.{name}", configs=configs)
        for record in records:
            self.source.append(TopicPartition(name, 0), key=record[:1].encode(), value=record.encode())

    def copy(self, name: str, *records: str) -> None:
        """What is in the copy."""
        for record in records:
            self.target.append(TopicPartition(f"A.{name}", 0), key=record[:1].encode(), value=record.encode())

    def position(
        self, topic: str, offset: int, *, partition: int = 0, connector: str = "", alias: str = "A"
    ) -> None:
        """What MM2 says."""
        key = source_offset_key(connector or self.flow.connector_name, alias, partition, topic)
        at = TopicPartition(self.flow.offsets_topic, 0)
        self.target.append(at, key=key, value=offset_value(offset))


def cluster_settings(alias: str) -> ClusterSettings:
    return ClusterSettings(alias, "nowhere:1", ConnectionSettings(alias, (("nowhere", 1),)))


@pytest.fixture
def moving() -> Moving:
    flow = FlowSettings(
        source=cluster_settings("A"),
        target=cluster_settings("B"),
        topics=NameFilter((".*",), (r"mm2.*\.internal", "__.*")),
        replication_factor=1,
    )
    made = Moving(flow, FakeCluster("A"), FakeCluster("B"))
    made.target.add_topic(flow.offsets_topic, 25)
    return made


@pytest.fixture
def running(moving: Moving) -> Callable[[Callable[[], object]], None]:
    """`running(deed)` lets somebody do that while a take-over watches."""

    def let(deed: Callable[[], object]) -> None:
        offsets = moving.target.offsets
        seen = []

        def and_then(partitions: object) -> object:
            answer = offsets(partitions)  # type: ignore[arg-type]
            seen.append(1)
            if len(seen) == 2:
                deed()
            return answer

        moving.target.offsets = and_then  # type: ignore[assignment,method-assign]

    return let
