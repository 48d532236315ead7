"""Step `copy`: fence, read progress, resolve the ranges, and have a runner copy them lane by lane.

If a lane stops with an indeterminate outcome, another round follows. That round fences again, reads what is committed,
and resolves the ranges anew (copying/rounds.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.loopback import with_loopback
from twinlog.copying.packing import assign
from twinlog.copying.progress import CopyProgress, watched
from twinlog.copying.ranges import StoppedPartition, choose, ends_at, max_bytes
from twinlog.copying.resolve import resolve_now
from twinlog.copying.result import CopyResult, Totals, result_of
from twinlog.copying.rounds import TASKS_DIED, LaneRunner, Rounds, lane_specs
from twinlog.errors import TransientError
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import RangeSpec
from twinlog.topics.discover import with_offsets_now
from twinlog.topics.snapshot import FlowSnapshot

MAX_ROUNDS = 6
"""Most fences in one copy. Each round has fewer ranges than the one before, unless a cluster keeps failing."""

MAX_DEATHS = 2
"""Most rounds in which tasks died without a report: one killed worker may be chance, a second hardly is."""


def run(
    flow: FlowSettings,
    clusters: Clusters,
    runner: LaneRunner,
    *,
    run_id: str,
    until_ms: int | None = None,
    topics: Collection[str] | None = None,
    on_progress: Callable[[CopyProgress], None] | None = None,
    snapshot: FlowSnapshot | None = None,
) -> CopyResult:
    """Copy all records (up to `until_ms`, of `topics`), in as many rounds as needed; copy nothing while paused.

    `snapshot` says what there is, as it was before the fence; the ends of its logs are read
    again. `on_progress` is called every few seconds with the lanes' progress. Raises FencedError if another twinlog
    runs the flow, and errors of clusters that cannot be reached.
    """
    started = time.monotonic()
    discovery = (snapshot or FlowSnapshot(flow, clusters)).discovery
    if snapshot is not None:
        discovery = replace(discovery, topics=with_offsets_now(clusters.source, discovery.topics))
    chosen = choose(discovery, topics)
    ends = ends_at(clusters.source, chosen, until_ms)
    limits = max_bytes(clusters.target, chosen)
    rounds = Rounds.begin(flow, clusters, runner, run_id)
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None
    count = deaths = 0
    while not discovery.stands_by and count < MAX_ROUNDS and deaths < MAX_DEATHS:
        count += 1
        grant = rounds.fence()
        progress = {TopicPartition(*key): last for key, last in grant.progress.items()}
        settled = with_loopback(flow, clusters, resolve_now(flow, clusters, chosen, progress, ends, limits))
        settled = rounds.without_lost_markers(clusters, settled, chosen, grant)
        stopped = settled.stopped
        ranges = without_trouble(settled.ranges, rounds.tally)
        packed = assign(clusters.source, ranges, chosen, most=rounds.lanes, configured=flow.copy.lanes)
        if not packed:
            failure = None
            break
        rounds.tally.settle(settled.ranges)
        specs = lane_specs(flow, rounds.state, grant, packed)
        with watched(flow, rounds.state, specs, on_progress):
            failure = rounds.run(specs)
        if failure is None:
            break
        deaths += failure.code == TASKS_DIED
    seconds = time.monotonic() - started
    return result_of(flow, run_id, discovery, rounds.tally, stopped, failure, count, rounds.lanes, seconds)


def without_trouble(ranges: Sequence[RangeSpec], tally: Totals) -> list[RangeSpec]:
    """Leave out partitions that already failed in an earlier round: they would fail again."""
    failed = {key for key, report in tally.ranges.items() if report.error}
    return [item for item in ranges if item.topic_partition not in failed]
