"""Step `checkpoints`: translate the position of every group of the source, and write it for MM2's clients.

The step commits positions on the target for groups without members there, if `sync.group.offsets.enabled` is set
(KIP-545). The result holds the outcome of every position. Running the step again commits what has changed since.
"""

from __future__ import annotations

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.groups import checkpoints
from twinlog.groups.report import CheckpointsResult
from twinlog.topics.snapshot import FlowSnapshot


def run(
    flow: FlowSettings, clusters: Clusters, snapshot: FlowSnapshot | None = None, *, dry_run: bool = False
) -> CheckpointsResult:
    """Translate, commit and write checkpoints; with `dry_run` only report what would be done."""
    return checkpoints.run(flow, clusters, snapshot, dry_run=dry_run)
