"""Step `discover`: find the topics of the flow on both clusters, through the filters and the cycle rule.

The step reads both clusters and the ledger, and changes nothing. Running it again finds what exists by then.
"""

from __future__ import annotations

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.topics.discovery import Discovery
from twinlog.topics.snapshot import FlowSnapshot


def run(flow: FlowSettings, clusters: Clusters) -> Discovery:
    """Find topics, partitions, topic ids and where logs begin and end.

    Raises ConfigError `same-cluster`.
    """
    return FlowSnapshot(flow, clusters).discovery
