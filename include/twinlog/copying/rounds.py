"""Run one round of a copy: fence, pack the ranges into lanes, and have a runner run them.

A round may be followed by another. A lane that stops with an indeterminate outcome costs only time, because the next
round fences again and reads what is committed. Fence and lanes belong to one process, so producer epochs and sequences
go only to that process's own tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings, Guarantee, PoisonPolicy
from twinlog.copying.mend import at_least_once
from twinlog.copying.mend.copies import without_lost_markers
from twinlog.copying.mend.state import take_fence
from twinlog.copying.ranges import ResolvedRanges, message_limits
from twinlog.copying.result import Totals
from twinlog.errors import ClusterRefused, FencedError, TerminalError, TransientError
from twinlog.formats.ledger.reading import of_kind
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import FenceLogs, Grant, last_fence, own_progress
from twinlog.lane.spec import (
    DEFAULT_MAX_MESSAGE_BYTES,
    Follow,
    LaneOutcome,
    LaneReport,
    LaneSpec,
    RangeSpec,
    StateTopics,
)
from twinlog.logs.log_state import LogState
from twinlog.protocol.brokers import Brokers
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.reverse_flows import reverse_ledger

PAUSED = "paused"
"""Code of the error for a flow that was found paused behind the fence."""

TAKING_SECONDS = 2.0
"""How long another driver may need from its first fenced lane to its name in the ledger."""

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

    def cancel(self) -> None:
        """Kill all running lanes, from another thread: their `run` raises TASKS_DIED."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """State that all rounds of one driver share.

    `lanes` is how many lanes it may use; `tally` adds up the lanes' reports.
    """

    flow: FlowSettings
    runner: LaneRunner
    run_id: str
    state: StateTopics
    lanes: int
    logs: FenceLogs
    tally: Totals = field(default_factory=Totals)

    @classmethod
    def begin(
        cls, flow: FlowSettings, clusters: Clusters, runner: LaneRunner, run_id: str, lanes: int | None = None
    ) -> Rounds:
        """Find the flow's state topics; use at most `lanes` lanes (else twinlog.lanes, else the runner's slots).

        Raises the target's refusal if sync_topics has not created them yet.
        """
        state = state_topics(flow, clusters)
        count = lanes or flow.copy.lanes or runner.slots
        return cls(flow, runner, run_id, state, count, FenceLogs.of(state))

    def fence(self) -> Grant:
        """Make sure that no other driver writes for the flow, and read the flow's progress.

        Raises FencedError if another driver holds the flow. Raises TerminalError `paused` if the flow is paused. That
        is checked behind the fence, because a migration to MM2 pauses the flow in a transaction of the control lane.
        """
        with Brokers(self.flow.target.connection) as target:
            grant = take_fence(
                self.flow, target, self.state, run_id=self.run_id, lanes=self.lanes, logs=self.logs
            )
            _require_not_paused(self.flow, self.logs.ledger.read(target))
            return grant

    def read_ahead(self) -> None:
        """Read the state logs up to now. The fence, during which nothing is copied, then has only the rest to read."""
        with Brokers(self.flow.target.connection) as target:
            self.logs.ledger.catch_up(target)
            self.logs.progress.catch_up(target)
            if self.flow.copy.guarantee is Guarantee.AT_LEAST_ONCE:
                self.logs.offset_map.catch_up(target)

    def without_lost_markers(
        self, clusters: Clusters, settled: ResolvedRanges, topics: Sequence[DiscoveredTopic], grant: Grant
    ) -> ResolvedRanges:
        """Check that the copies agree with progress, and end our open transactions in them; call behind the fence.

        For a flow without transactions, cut the maps where the ranges begin. No lane of the flow may be writing then.

        Raises as `copying.mend.copies.without_lost_markers` or `cut_maps`, and FencedError if another driver has
        fenced since: records it copied look like a progress regression.
        """
        if not settled.ranges and not any(it.in_transaction for it in topics):
            return settled
        with Brokers(self.flow.target.connection) as target:
            if self.flow.copy.guarantee is Guarantee.AT_LEAST_ONCE:
                self._require_last(target, grant)  # lanes of a driver that fenced since may be writing
                at_least_once.cut_maps(target, self.state, settled.ranges, self.logs)
                return settled
            sound = without_lost_markers(self.flow, clusters, target, settled, topics, grant)
            if len(sound.stopped) > len(settled.stopped):
                self._require_last(target, grant)
            return sound

    def progress(self) -> Mapping[TopicPartition, int]:
        """Read the flow's progress as of now: the last copied upstream offset of each partition."""
        with Brokers(self.flow.target.connection) as target:
            return own_progress(self.logs.progress.read(target).committed, self.state)

    def run(self, specs: Sequence[LaneSpec]) -> TransientError | None:
        """Run the lanes once and add up their reports; return why another round is needed, or None.

        Raises as `judge`.
        """
        try:
            reports = self.runner.run(specs)
        except TransientError as error:
            return error
        # Outside the try: FencedError is transient for a scheduler, not for this driver.
        return self.judge(reports)

    def judge(self, reports: Sequence[LaneReport]) -> TransientError | None:
        """Add up the lanes' reports; return why another round is needed, or None.

        Raises FencedError if another driver took the flow over, ClusterRefused if the target refuses a lane.
        """
        for report in reports:
            self.tally.add(report)
        refused = next((report for report in reports if report.state is LaneOutcome.REFUSED), None)
        if refused is not None:
            raise ClusterRefused(refused.error, flow=self.flow.name, lane=refused.lane)
        fenced = next((report for report in reports if report.state is LaneOutcome.FENCED), None)
        if fenced is not None:
            self.stop_if_taken()
            return TransientError(
                f"lane {fenced.lane} was fenced: by this driver itself, or by its transaction's time-out",
                code="fence-again",
            )
        doubtful = next((report for report in reports if report.state is LaneOutcome.FENCE_AGAIN), None)
        return None if doubtful is None else TransientError(doubtful.error, code="fence-again")

    def stop_if_taken(self) -> None:
        """Raise FencedError if the lane was fenced by another driver, not by its transaction's time-out.

        The ledger names the other driver, but only after its lanes are fenced. To fence it in turn meanwhile would
        begin a fight that neither wins, so it is given `TAKING_SECONDS` to write its name.
        """
        patience = time.monotonic() + TAKING_SECONDS
        with Brokers(self.flow.target.connection) as target:
            while True:
                rival = self._rival(target)
                if rival:
                    raise self._taken(rival)
                if time.monotonic() >= patience:
                    return
                time.sleep(0.1)

    def give_way(self, gives_way_to: Callable[[str], bool]) -> None:
        """Raise FencedError if a driver that we give way to has fenced us, by the ledger.

        Without this check our next fence would take the flow back.
        """
        with Brokers(self.flow.target.connection) as target:
            rival = self._rival(target)
        if rival and gives_way_to(rival):
            raise self._taken(rival)

    def _require_last(self, target: Brokers, grant: Grant) -> None:
        """Raise FencedError unless the ledger's last fence, which is written before its lanes write, is this one."""
        holder = last_fence(self.logs.ledger.read(target))
        if holder and not grant.mark.is_of(holder):
            raise self._taken(holder.run_id)

    def _rival(self, target: Brokers) -> str:
        """Return the run id of the ledger's last fence, empty if that is our own or if there is none."""
        holder = last_fence(self.logs.ledger.read(target))
        return "" if holder is None or holder.run_id == self.run_id else holder.run_id

    def _taken(self, rival: str) -> FencedError:
        return FencedError(
            f"another twinlog took over flow {self.flow.name} (run {rival})",
            hint="let one of them run; what this one committed counts, nothing else was written",
            flow=self.flow.name,
            run_id=rival,
        )


def _require_not_paused(flow: FlowSettings, ledger: LogState) -> None:
    for record in of_kind(ledger.committed, FlowState):
        if record.state is FlowPhase.PAUSED:
            raise TerminalError(
                f"flow {flow.name} is paused by {record.by}: {record.reason}",
                hint="`twinlog resume` lets it go on; after a hand-over, `twinlog takeover` takes it back from MM2",
                code=PAUSED,
                flow=flow.name,
            )


def state_topics(flow: FlowSettings, clusters: Clusters) -> StateTopics:
    """Find the flow's state topics, and the ids of its clusters.

    Raises the target's refusal if sync_topics has not created them yet, and errors of the clusters.
    """
    aside = flow.quarantine_topic if flow.copy.poison is PoisonPolicy.QUARANTINE else ""
    names = (flow.offsets_topic, flow.offset_map_topic, flow.ledger_topic, *((aside,) if aside else ()))
    described = clusters.target.describe_topics(names).require()
    limits = message_limits(clusters.target, [aside]) if aside else {}
    return StateTopics(
        offsets_topic=flow.offsets_topic,
        offsets_partitions=len(described[flow.offsets_topic].partitions),
        map_topic=flow.offset_map_topic,
        map_partitions=len(described[flow.offset_map_topic].partitions),
        ledger_topic=flow.ledger_topic,
        connector_name=flow.connector_name,
        source_alias=flow.source.alias,
        quarantine_topic=aside,
        quarantine_max_bytes=limits.get(aside, DEFAULT_MAX_MESSAGE_BYTES),
        source_cluster_id=clusters.source.cluster_id(),
        target_cluster_id=clusters.target.cluster_id(),
    )


def lane_specs(
    flow: FlowSettings,
    state: StateTopics,
    grant: Grant,
    packed: Sequence[Sequence[RangeSpec]],
    follow: Follow | None = None,
) -> tuple[LaneSpec, ...]:
    """Give each packed lane the identity that the fence granted, and its share of the throttle. Pure."""
    settings = flow.copy
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
            state=state,
            ranges=tuple(ranges),
            sequences=lane.sequences,
            exactly_once=settings.guarantee is Guarantee.EXACTLY_ONCE,
            read_committed=settings.read_committed,
            quarantine_poison=settings.poison is PoisonPolicy.QUARANTINE,
            transaction_bytes=settings.transaction_bytes,
            transaction_ms=settings.transaction_ms,
            fetch_bytes=settings.fetch_bytes,
            partition_fetch_bytes=settings.partition_fetch_bytes,
            way_back_ledger=reverse_ledger(flow),
            bytes_per_second=share,
            follow=follow,
        )
        for lane, ranges, share in zip(grant.lanes, packed, shares, strict=False)
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
