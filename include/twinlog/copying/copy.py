"""Step `copy`: fence, read progress, resolve the ranges, and have a runner copy them lane by lane.

If a lane stops with an indeterminate outcome, another round follows. That round fences again, reads what is committed,
and resolves the ranges anew (copying/rounds.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mirror_maker import require_taken_over
from twinlog.copying.ownership import Ownership
from twinlog.copying.packing import assign
from twinlog.copying.progress import CopyProgress, watched
from twinlog.copying.ranges import StoppedPartition, choose, ends_at, message_limits
from twinlog.copying.resolve import resolve_behind_fence
from twinlog.copying.result import CopyResult, Totals, result_of
from twinlog.copying.rounds import TASKS_DIED, LaneRunner, count_by_map, judge, lane_specs, ranges_of_the_dead
from twinlog.errors import TransientError
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
    slots = runner.slots  # waits until one is free: nothing is fenced, or looked at, before that
    started = time.monotonic()
    discovery = (snapshot or FlowSnapshot(flow, clusters)).discovery
    if snapshot is not None:
        discovery = replace(discovery, topics=with_offsets_now(clusters.source, discovery.topics))
    chosen = choose(discovery, topics)
    ends = ends_at(clusters.source, chosen, until_ms)
    limits = message_limits(clusters.target, [it.remote_topic for it in chosen])
    require_taken_over(flow, clusters, discovery)
    owned = Ownership.of(flow, clusters, run_id, flow.copy.lanes or slots)
    totals = Totals()
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None
    dead: tuple[RangeSpec, ...] = ()
    count = deaths = 0
    while not discovery.stands_by and count < MAX_ROUNDS and deaths < MAX_DEATHS:
        count += 1
        owned.take()
        if dead:
            count_by_map(flow, clusters.target, owned.progress, dead, totals)
        resolved = resolve_behind_fence(owned, clusters, chosen, ends, limits)
        stopped = resolved.stopped
        # Partitions that failed in an earlier round would fail again.
        ranges = [it for it in resolved.ranges if not totals.failed(it)]
        packed = assign(clusters.source, ranges, chosen, most=owned.lanes, configured=flow.copy.lanes)
        if not packed:
            failure = None
            break
        totals.note_ends(resolved.ranges)
        specs = lane_specs(owned, packed)
        with watched(flow, owned.state, specs, on_progress):
            try:
                reports = runner.run(specs)
            except TransientError as error:
                failure, reports = error, ()
            else:  # not in the try: FencedError is transient for a scheduler, not for this driver
                failure = judge(owned, totals, reports)
        dead = tuple(ranges_of_the_dead(specs, reports))
        if failure is None:
            break
        deaths += failure.code == TASKS_DIED
    seconds = time.monotonic() - started
    return result_of(flow, run_id, discovery, totals, stopped, failure, count, owned.lanes, seconds)
