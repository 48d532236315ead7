"""Open the two clusters of a flow together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.api import Cluster
from twinlog.cluster.kafka import KafkaCluster
from twinlog.config.flow.settings import FlowSettings


@dataclass(frozen=True, slots=True)
class Clusters:
    """Source and target of one flow."""

    source: Cluster
    target: Cluster


@contextmanager
def open_clusters(flow: FlowSettings) -> Iterator[Clusters]:
    """Yield the flow's two clusters; each connects at its first question and disconnects when it is dropped."""
    yield Clusters(KafkaCluster(flow.source), KafkaCluster(flow.target, written=True))
