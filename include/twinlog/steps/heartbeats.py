"""Step `heartbeats`: write MM2's heartbeat, and measure the age of the newest one that was copied.

The one that this flow copies was written before the copy, by `discover`.

Running the step again writes another heartbeat.
"""

from __future__ import annotations

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.monitoring import heartbeats
from twinlog.monitoring.heartbeats import HeartbeatsResult


def run(flow: FlowSettings, clusters: Clusters) -> HeartbeatsResult:
    """Write one heartbeat.

    Raises ClusterRefused if the target allows no write to `heartbeats`.
    """
    return heartbeats.run(flow, clusters, begun=True)
