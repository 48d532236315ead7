"""Step `copy`: fence, read progress, settle the ranges, and have a runner copy them lane by lane.

Fence and copy live in one process, so producer epochs and sequences never travel further than to its own tasks.
A lane that stops in doubt costs nothing but time: the next round fences again, reads what is committed, and
settles anew.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Protocol

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.values import TopicPartition
from twinlog.config.settings import FlowSettings, Guarantee, PoisonPolicy
from twinlog.errors import ClusterRefused, FencedError, TransientError
from twinlog.relay.brokers import Brokers
from twinlog.relay.fence import Grant, at_least_once_grant, fence, last_fence
from twinlog.relay.log_reader import read_state
from twinlog.relay.spec import LaneReport, LaneSpec, RangeSpec, StateTopics
from twinlog.steps import discover
from twinlog.steps.copy_result import CopyResult, Tally, result_of
from twinlog.steps.plan_ranges import StoppedPartition, choose, ends_at, max_bytes, pack, settle

MAX_ROUNDS = 6
"""Fences in one copy.  Each settles less than the one before, unless a cluster keeps failing."""

MAX_DEATHS = 2
"""Rounds in which tasks died without a report: a killed worker may be chance, a second one hardly is."""

TASKS_DIED = "tasks-died"
"""Code of the error a runner raises for tasks that died without a report."""


class LaneRunner(Protocol):
    """Runs lanes, each as one task at a time: Spark's in production, a plain loop in tests."""

    @property
    def slots(self) -> int:
        """How many lanes can run at once."""

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run every lane to its end.  Raises TransientError (TASKS_DIED) when tasks died without a report."""


def run(
    flow: FlowSettings,
    clusters: Clusters,
    runner: LaneRunner,
    *,
    run_id: str,
    until_ms: int | None = None,
    topics: Collection[str] | None = None,
) -> CopyResult:
    """Copy everything there is (up to `until_ms`, of `topics`), in as many rounds as it takes.

    Raises FencedError when another twinlog runs the flow, and errors of clusters that cannot be reached.
    """
    started = time.monotonic()
    discovery = discover.run(flow, clusters)
    chosen = choose(discovery, topics)
    ends = ends_at(clusters.source, chosen, until_ms)
    limits = max_bytes(clusters.target, chosen)
    lanes = flow.copy.lanes or runner.slots
    state = state_topics(flow, clusters)
    tally = Tally()
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None
    rounds = deaths = 0
    while rounds < MAX_ROUNDS and deaths < MAX_DEATHS:
        rounds += 1
        grant = _fence(flow, state, run_id, lanes)
        progress = {TopicPartition(*key): last for key, last in grant.progress.items()}
        settled = settle(flow, chosen, progress, ends, limits)
        stopped = settled.stopped
        packed = pack(_without_trouble(settled.ranges, tally), lanes)
        if not packed:
            failure = None
            break
        tally.settle(settled.ranges)
        failure = _round(flow, runner, lane_specs(flow, state, grant, packed), tally, run_id)
        if failure is None:
            break
        deaths += failure.code == TASKS_DIED
    return result_of(
        flow, run_id, discovery, tally, stopped, failure, rounds, lanes, time.monotonic() - started
    )


def state_topics(flow: FlowSettings, clusters: Clusters) -> StateTopics:
    """Find the flow's state topics on the target.  Raises the refusal when sync_topics has not made them yet."""
    names = (flow.offsets_topic, flow.offset_map_topic, flow.ledger_topic)
    described = clusters.target.describe_topics(names).require()
    return StateTopics(
        offsets_topic=flow.offsets_topic,
        offsets_partitions=len(described[flow.offsets_topic].partitions),
        map_topic=flow.offset_map_topic,
        map_partitions=len(described[flow.offset_map_topic].partitions),
        ledger_topic=flow.ledger_topic,
        connector_name=flow.connector_name,
        source_alias=flow.source.alias,
    )


def lane_specs(
    flow: FlowSettings, state: StateTopics, grant: Grant, packed: Sequence[Sequence[RangeSpec]]
) -> tuple[LaneSpec, ...]:
    """Give each packed lane the identity the fence granted.  Pure."""
    settings = flow.copy
    return tuple(
        LaneSpec(
            flow=flow.name,
            run_id=grant.run_id,
            lane=granted.lane,
            transactional_id=granted.writer.transactional_id or "",
            producer_id=granted.writer.producer_id,
            producer_epoch=granted.writer.producer_epoch,
            source=flow.source.connection,
            target=flow.target.connection,
            state=state,
            ranges=tuple(ranges),
            sequences=granted.sequences,
            exactly_once=settings.guarantee is Guarantee.EXACTLY_ONCE,
            read_committed=settings.read_committed,
            quarantine_poison=settings.poison is PoisonPolicy.QUARANTINE,
            transaction_bytes=settings.transaction_bytes,
            transaction_ms=settings.transaction_ms,
            fetch_bytes=settings.fetch_bytes,
            partition_fetch_bytes=settings.partition_fetch_bytes,
        )
        for granted, ranges in zip(grant.lanes, packed, strict=False)
    )


def _fence(flow: FlowSettings, state: StateTopics, run_id: str, lanes: int) -> Grant:
    with Brokers(flow.target.connection) as target:
        if flow.copy.guarantee is Guarantee.AT_LEAST_ONCE:
            return at_least_once_grant(target, state, run_id=run_id, lanes=lanes)
        timeout = flow.copy.transaction_timeout_ms
        return fence(target, flow.name, state, run_id=run_id, lanes=lanes, transaction_timeout_ms=timeout)


def _round(
    flow: FlowSettings, runner: LaneRunner, specs: tuple[LaneSpec, ...], tally: Tally, run_id: str
) -> TransientError | None:
    """Run the lanes once; return why another round is needed, or None."""
    try:
        reports = runner.run(specs)
    except TransientError as error:
        return error
    for report in reports:
        tally.add(report)
    refused = next((report for report in reports if report.state == "refused"), None)
    if refused is not None:
        raise ClusterRefused(refused.error, flow=flow.name, lane=refused.lane)
    fenced = next((report for report in reports if report.state == "fenced"), None)
    if fenced is not None:
        _stop_if_taken(flow, run_id)
    doubtful = fenced or next((report for report in reports if report.state == "fence-again"), None)
    return None if doubtful is None else TransientError(doubtful.error, code="fence-again")


def _stop_if_taken(flow: FlowSettings, run_id: str) -> None:
    """A lane was fenced: by another driver, whose name the ledger has, or by the time-out of its own transaction."""
    with Brokers(flow.target.connection) as target:
        holder = last_fence(read_state(target, flow.ledger_topic))
    if holder is not None and holder.run_id != run_id:
        raise FencedError(
            f"another twinlog took over flow {flow.name} (run {holder.run_id})",
            hint="let one of them run; what this one committed counts, nothing else was written",
            flow=flow.name,
            run_id=holder.run_id,
        )


def _without_trouble(ranges: Sequence[RangeSpec], tally: Tally) -> list[RangeSpec]:
    """Leave out partitions that already failed in an earlier round: they would fail again."""
    failed = {key for key, report in tally.ranges.items() if report.error}
    return [item for item in ranges if (item.topic, item.partition) not in failed]
