"""Open the two clusters of a flow together, and wait for one of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.api import Cluster
from twinlog.cluster.kafka import KafkaCluster
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable


@dataclass(frozen=True, slots=True)
class Clusters:
    """Source and target of one flow."""

    source: Cluster
    target: Cluster


@contextmanager
def open_clusters(flow: FlowSettings) -> Iterator[Clusters]:
    """Yield the flow's two clusters; each connects at its first question and disconnects when it is dropped."""
    yield Clusters(KafkaCluster(flow.source), KafkaCluster(flow.target, written=True))


@contextmanager
def awaited(alias: str, hint: str, **data: str) -> Iterator[None]:
    """Tell a person what to do while a cluster does not answer: this hint, and more data, go into its error."""
    try:
        yield
    except ClusterUnreachable as error:
        if error.data.get("cluster") != alias:
            raise
        raise ClusterUnreachable(error.message, hint=hint, **{**error.data, **data}) from None
