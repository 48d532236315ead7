"""Step `sync_topics`: give every replicated topic its copy on the target, with enough partitions.

The step creates remote topics and the flow's own topics, adds partitions, and never shrinks a topic. It records
recreated topics and lost ranges in the ledger. One refused topic does not stop the others. Running the step again
changes nothing more.
"""

from __future__ import annotations

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.lifecycle import sync_topics
from twinlog.lifecycle.sync_topics import SyncTopicsResult
from twinlog.topics.snapshot import FlowSnapshot


def run(
    flow: FlowSettings, clusters: Clusters, *, dry_run: bool = False, snapshot: FlowSnapshot | None = None
) -> SyncTopicsResult:
    """Create what is missing on the target; with `dry_run` only say what would be created."""
    return sync_topics.run(flow, clusters, dry_run=dry_run, snapshot=snapshot)
