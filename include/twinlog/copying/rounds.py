"""Run one round of a copy: give each lane its ranges, have a runner run the lanes, and judge their reports.

A round may be followed by another. A lane that stops with an indeterminate outcome costs only time, because the next
round fences again and reads what is committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from twinlog.batches.codec import NUMBERS
from twinlog.checks.coverage import copied_from
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.copying import PoisonPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.copying.result import Totals
from twinlog.errors import ClusterRefused, TransientError
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import Follow, LaneOutcome, LaneReport, LaneSpec, RangeReport, RangeSpec
from twinlog.state.progress import read_packed
from twinlog.topics.reverse_flows import reverse_ledger

TASKS_DIED = "tasks-died"
"""Code of the error a runner raises for tasks that died without a report."""


class LaneRunner(Protocol):
    """Runs lanes, each as one task at a time: Spark's in production, a plain loop in tests."""

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run every lane to its end.

        Raises TransientError (TASKS_DIED) if tasks died without a report.
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
            f"lane {fenced.lane} was fenced: by this driver itself, or by its transaction's time-out",
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
            fetch_bytes=settings.fetch_bytes,
            partition_fetch_bytes=settings.partition_fetch_bytes,
            reverse_ledger=reverse_ledger(flow),
            bytes_per_second=share,
            follow=follow,
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


def ranges_of_the_dead(specs: Iterable[LaneSpec], reports: Iterable[LaneReport]) -> Iterator[RangeSpec]:
    """Yield the ranges of lanes without a report, and of those that Spark began anew after their first try. Pure.

    A second try writes nothing, and reports no ranges (twinlog.spark.lane_task).
    """
    reported = {it.lane for it in reports if it.ranges or it.state is not LaneOutcome.FENCE_AGAIN}
    for spec in specs:
        if spec.lane not in reported:
            yield from spec.ranges


def count_by_map(
    flow: FlowSettings,
    target: ClusterReader,
    progress: Mapping[TopicPartition, int],
    ranges: Iterable[RangeSpec],
    totals: Totals,
) -> None:
    """Add to `totals` what the map knows to have been copied of `ranges`; `progress` was read behind the fence.

    Only behind the fence that follows: until then a lane that died without a report may still commit.
    """
    maps = read_packed(flow, target)
    for item in ranges:
        copied = copied_from(maps, item.life, item.start)
        reached = progress.get(item.topic_partition, item.start - 1) + 1
        report = RangeReport(item.topic, item.remote_topic, item.partition, copied, 0, reached)
        totals.add(LaneReport(0, LaneOutcome.DONE, (report,)))
