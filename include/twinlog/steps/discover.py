"""Step `discover`: find the topics of the flow on both clusters, through the filters and the cycle rule.

The step reads both clusters and the ledger, and changes nothing. Running it again finds what exists by then.
"""

from __future__ import annotations

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.topics import discover
from twinlog.topics.discovery import Discovery


def run(flow: FlowSettings, clusters: Clusters) -> Discovery:
    """Find topics, partitions, topic ids and where logs begin and end.

    Raises TerminalError `same-cluster`.
    """
    return discover.run(flow, clusters)
