"""Step `plan_ranges`: plan what there is to copy, as ranges of upstream offsets, packed into lanes.

The step reads progress without a fence, so the plan is a hint: for people to see, and to leave the Spark job out if
there is nothing to copy. The step `copy` resolves the ranges again, behind its fence.
"""

from __future__ import annotations

from collections.abc import Collection

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying import ranges
from twinlog.copying.ranges import RangePlan
from twinlog.topics.snapshot import FlowSnapshot


def run(
    flow: FlowSettings,
    clusters: Clusters,
    *,
    until_ms: int | None = None,
    topics: Collection[str] | None = None,
    snapshot: FlowSnapshot | None = None,
) -> RangePlan:
    """Plan the next copy, of records before `until_ms` (epoch ms) and of source topics `topics`."""
    return ranges.run(flow, clusters, until_ms=until_ms, topics=topics, snapshot=snapshot)
