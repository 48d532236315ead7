"""Begin a cycle: give every topic its place on the target, and plan what there is to copy."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import RangePlan
from twinlog.lifecycle.sync_topics import SyncTopicsResult, as_left
from twinlog.steps import plan_ranges, sync_topics
from twinlog.topics.discovery import refuse_unknown_topics
from twinlog.topics.snapshot import FlowSnapshot


@dataclass(frozen=True, slots=True)
class Begun:
    """Hold what a cycle found before its copy; `snapshot` is what both clusters had once topics were synced."""

    snapshot: FlowSnapshot
    synced: SyncTopicsResult
    planned: RangePlan

    @property
    def has_work(self) -> bool:
        """Say whether there is something to copy, or a transaction that an earlier copy left open."""
        return bool(self.planned.ranges or self.planned.unended)


def begin(
    flow: FlowSettings,
    clusters: Clusters,
    topics: Collection[str] | None,
    until_ms: int | None,
    *,
    hint: str,
) -> Begun:
    """Sync the topics and plan the copy, of `topics` (None: all of the flow), up to `until_ms` (epoch ms).

    Raises UsageError with `hint` for a topic that the flow does not replicate, and errors of clusters that cannot be
    reached or refuse.
    """
    snapshot = FlowSnapshot(flow, clusters)
    refuse_unknown_topics(snapshot.discovery, topics, hint)
    synced = sync_topics.run(flow, clusters, snapshot=snapshot)
    snapshot = as_left(snapshot, synced)
    planned = plan_ranges.run(flow, clusters, until_ms=until_ms, topics=topics, snapshot=snapshot)
    return Begun(snapshot, synced, planned)
