"""Open the clusters of a flow, and go on only if they are those that its state on the target is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from twinlog.cluster import api as opening
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable
from twinlog.state.ledger import read_ledger, require_own


@contextmanager
def open_own_clusters(flow: FlowSettings) -> Iterator[Clusters]:
    """Yield the flow's two clusters, for what reads its state and does not discover its topics.

    Raises TerminalError `another-name`, `source-changed` or `target-changed`: whatever the clusters had would be read
    as the flow's, and an empty cluster as a flow without topics.
    """
    with opening.open_clusters(flow) as clusters:
        ledger = read_ledger(flow, clusters.target)
        require_own(flow, ledger, _source_id(clusters), clusters.target.cluster_id())
        yield clusters


def _source_id(clusters: Clusters) -> str:
    """Return the id of the source; "" if the source is gone, which is no reason not to read the target."""
    try:
        return clusters.source.cluster_id()
    except ClusterUnreachable:
        return ""
