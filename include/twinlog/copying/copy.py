"""Step `copy`: fence, read progress, resolve the ranges, and have a runner copy them lane by lane.

If a lane stops with an indeterminate outcome, another round follows. That round fences again, reads what is committed,
and resolves the ranges anew: an indeterminate outcome costs only time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from twinlog.batches.codec import NUMBERS
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.copying import PoisonPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mirror_maker import require_taken_over
from twinlog.copying.ownership import Ownership
from twinlog.copying.packing import assign
from twinlog.copying.progress import CopyProgress, watched
from twinlog.copying.ranges import StoppedPartition, choose, ends_at, message_limits
from twinlog.copying.resolve import resolve_behind_fence
from twinlog.copying.result import CopyResult, Totals, result_of
from twinlog.errors import ClusterRefused, TransientError
from twinlog.formats.lane_counts import NO_COUNTS, newest_of_lanes
from twinlog.lane.spec import Follow, LaneOutcome, LaneReport, LaneSpec, RangeReport, RangeSpec
from twinlog.state.progress import read_lane_counts
from twinlog.topics.reverse_flows import reverse_ledger
from twinlog.topics.snapshot import FlowSnapshot, with_offsets_now

log = logging.getLogger(__name__)

TASKS_DIED = "tasks-died"
"""Code of the error a runner raises for tasks that died without a report."""

NO_SLOT = "no-slot"
"""Code of the error a runner raises if nothing is there to run a task, for long."""


class LaneRunner(Protocol):
    """Runs lanes, each as one task at a time: Spark's in production, a plain loop in tests."""

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once.  Raises TransientError (NO_SLOT) if none can."""

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run every lane to its end.

        Raises TransientError if tasks died without a report (TASKS_DIED), or nothing is there to run them (NO_SLOT).
        """

    def cancel(self, flow: str | None = None) -> None:
        """Kill all running lanes, or those of one flow, from another thread: their `run` raises TASKS_DIED."""


def judge(owned: Ownership, totals: Totals, reports: Sequence[LaneReport]) -> TransientError | None:
    """Add up the lanes' reports; return why another round is needed, or None.

    Raises FencedError if another driver took the flow over, ClusterRefused if the target refuses a lane.
    """
    ended: dict[LaneOutcome, LaneReport] = {}
    for report in reports:
        totals.add(report)
        ended.setdefault(report.state, report)
    if refused := ended.get(LaneOutcome.REFUSED):
        raise ClusterRefused(refused.error, flow=owned.flow.name, lane=refused.lane)
    if fenced := ended.get(LaneOutcome.FENCED):
        owned.require_not_taken()
        return TransientError(
            f"lane {fenced.lane} was fenced: by this driver itself, or by its transaction's time-out"
            " (twinlog.transaction.timeout.ms)",
            code="fence-again",
        )
    stopped = ended.get(LaneOutcome.FENCE_AGAIN)
    return None if stopped is None else TransientError(stopped.error, code="fence-again")


def lane_specs(
    owned: Ownership, packed: Sequence[Sequence[RangeSpec]], follow: Follow | None = None
) -> tuple[LaneSpec, ...]:
    """Give each packed lane the identity that the fence granted, and its share of the throttle. Pure."""
    flow, settings = owned.flow, owned.flow.copy
    shares = rate_shares(settings.bytes_per_second, packed, followed=follow is not None)
    return tuple(
        LaneSpec(
            flow=flow.name,
            lane=lane.lane,
            transactional_id=lane.writer.transactional_id or "",
            producer_id=lane.writer.producer_id,
            producer_epoch=lane.writer.producer_epoch,
            source=flow.source.connection,
            target=flow.target.connection,
            state=owned.state,
            ranges=tuple(ranges),
            sequences=lane.sequences,
            read_committed=settings.read_committed,
            quarantine_poison=settings.poison is PoisonPolicy.QUARANTINE,
            codec=NUMBERS.get(settings.compression),
            transaction_bytes=settings.transaction_bytes,
            transaction_ms=settings.transaction_ms,
            transaction_timeout_ms=settings.transaction_timeout_ms,
            fetch_bytes=settings.fetch_bytes,
            partition_fetch_bytes=settings.partition_fetch_bytes,
            reverse_ledger=reverse_ledger(flow),
            bytes_per_second=share,
            follow=follow,
            log_level=log.getEffectiveLevel(),
            fence_ms=owned.grant.mark.at_ms,
        )
        for lane, ranges, share in zip(owned.grant.lanes, packed, shares, strict=False)
    )


def rate_shares(
    rate: int | None, packed: Sequence[Sequence[RangeSpec]], *, followed: bool = False
) -> tuple[float | None, ...]:
    """Share the throttle between lanes by what each has to copy, so that they end together. Pure.

    The future load of lanes that follow is unknown: half of the throttle is shared evenly, so that each has some.
    """
    if rate is None or not packed:
        return (None,) * len(packed)
    even = rate / (2 * len(packed)) if followed else 0.0
    weights = [sum(item.weight for item in lane) for lane in packed]
    rest, total = rate - even * len(packed), sum(weights)
    return tuple(even + rest * weight / total for weight in weights)


def dead_lanes(specs: Iterable[LaneSpec], reports: Iterable[LaneReport]) -> Iterator[LaneSpec]:
    """Yield the lanes without a report, and those that Spark began anew after their first try. Pure.

    A second try writes nothing, and reports no ranges (twinlog.spark.lane_task).
    """
    reported = {
        report.lane for report in reports if report.ranges or report.state is not LaneOutcome.FENCE_AGAIN
    }
    for spec in specs:
        if spec.lane not in reported:
            yield spec


def count_dead(owned: Ownership, target: ClusterReader, lanes: Iterable[LaneSpec], totals: Totals) -> None:
    """Add to `totals` what lanes committed that died without a report, as told with the progress they stored.

    Only behind the fence that follows: until then they may still commit.
    """
    for spec in lanes:
        stored = read_lane_counts(owned.flow, target, spec.fence_ms)
        own = {place: counts for place, counts in stored.items() if counts.lane == spec.lane}
        last = newest_of_lanes(own.values()).get(spec.lane, NO_COUNTS)
        ranges = []
        for item in spec.ranges:
            counts = own.get(item.topic_partition, NO_COUNTS)
            copied = counts.partition_records, counts.partition_bytes
            reached = owned.progress.get(item.topic_partition, item.start - 1) + 1
            ranges.append(RangeReport(item.topic, item.remote_topic, item.partition, *copied, reached))
        totals.add(
            LaneReport(
                spec.lane,
                LaneOutcome.DONE,
                tuple(ranges),
                transactions=last.commits,
                retries=last.retries,
                throttled_ms=last.throttled_ms,
            )
        )


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
    limits = message_limits(clusters.target, [topic.remote_topic for topic in chosen])
    require_taken_over(flow, clusters, discovery)
    owned = Ownership.of(flow, clusters, run_id, flow.copy.lanes or slots)
    totals = Totals()
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None
    dead: tuple[LaneSpec, ...] = ()
    count = deaths = 0
    while not discovery.stands_by and count < MAX_ROUNDS and deaths < MAX_DEATHS:
        count += 1
        owned.take()
        count_dead(owned, clusters.target, dead, totals)
        resolved = resolve_behind_fence(owned, clusters, chosen, ends, limits)
        stopped = resolved.stopped
        # Partitions that failed in an earlier round would fail again.
        ranges = [span for span in resolved.ranges if not totals.failed(span)]
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
        dead = tuple(dead_lanes(specs, reports))
        if failure is None or failure.code == NO_SLOT:
            break
        log.info("%s: round %d of its copy ended in doubt: %s", flow.name, count, failure.message)
        deaths += failure.code == TASKS_DIED
    seconds = time.monotonic() - started
    return result_of(flow, run_id, discovery, totals, stopped, failure, count, owned.lanes, seconds)
