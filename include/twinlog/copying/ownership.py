"""Own a flow: take it with a fence, write behind the fence, give way to the driver that takes it next.

A fence shuts out every other driver of the flow (docs/decisions/0001-fence.md): a copy under way stops, and what is
read from then on is what the last writer left. Fence and lanes belong to one process, so producer epochs and sequences
go only to that process's own tasks.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from twinlog.cluster.api import Clusters
from twinlog.config.flow.copying import PoisonPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.mend.state import mend_map, mend_progress
from twinlog.copying.ranges import message_limits
from twinlog.errors import FencedError, TerminalError
from twinlog.formats.ledger.reading import of_kind
from twinlog.formats.ledger.records import FlowState
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence import fence
from twinlog.lane.fence.beside import Alone
from twinlog.lane.fence.lost_progress import LostProgressError
from twinlog.lane.spec import DEFAULT_MAX_MESSAGE_BYTES, StateTopics
from twinlog.protocol.brokers import Brokers

PAUSED = "paused"
"""Code of the error for a flow that was found paused behind the fence."""

BY_HAND = re.compile(r"alter-[0-9a-f]{8}")
"""Run ids of `twinlog topics offsets --to`, by which a person takes a flow for a moment."""

TAKING_SECONDS = 2.0
"""How long another driver may need from its first fenced lane to its name in the ledger."""


@dataclass(slots=True)
class Ownership:
    """One driver's ownership of a flow: taken by each fence, lost to the next fence of another driver.

    `lanes` is how many lanes the driver may use. `grant` is that of the last fence. `alone` keeps out those who write
    beside the lanes, for a driver that changes the flow's state.
    """

    flow: FlowSettings
    state: StateTopics
    run_id: str
    lanes: int
    logs: fence.FenceLogs
    grant: fence.Grant = field(init=False)
    alone: Alone | None = None

    @classmethod
    def of(cls, flow: FlowSettings, clusters: Clusters, run_id: str, lanes: int) -> Ownership:
        """Prepare to take a flow; raises the target's refusal if sync_topics has not created its topics yet."""
        state = state_topics(flow, clusters)
        return cls(flow, state, run_id, lanes, fence.FenceLogs.of(state))

    @classmethod
    def taken(
        cls,
        flow: FlowSettings,
        clusters: Clusters,
        why: str,
        run_id: str | None = None,
        state: StateTopics | None = None,
    ) -> Ownership:
        """Take a flow to change its state outside of a copy, `why` as a run of its own, or as `run_id`.

        Those who write beside the lanes are ended, too (lane/fence/beside.py). Raises as `take`.
        """
        state = state or state_topics(flow, clusters)
        owned = cls(flow, state, run_id or f"{why}-{uuid.uuid4().hex[:8]}", 1, fence.FenceLogs.of(state))
        owned.take(to_copy=False)
        with Brokers(flow.target.connection) as target:
            owned.alone = Alone.taken(target, flow.name, flow.copy.transaction_timeout_ms)
        return owned

    @property
    def progress(self) -> dict[TopicPartition, int]:
        """Last copied upstream offsets, read behind the last fence."""
        return {TopicPartition(*key): last for key, last in self.grant.progress.items()}

    def take(self, *, to_copy: bool = True) -> fence.Grant:
        """Take the flow: fence it, rewrite commit markers that progress and map have lost, and read progress.

        Raises FencedError if another driver holds the flow, and as `fence`, `mend_progress` and `mend_map`. If it is
        taken `to_copy`, raises TerminalError `paused` for a flow that is paused or failed over. That is checked behind
        the fence: a migration to MM2, and a failover, write the flow's state in a transaction of the control lane.
        """
        flow, state = self.flow, self.state
        terms = state, self.run_id, self.lanes, flow.copy.transaction_timeout_ms, self.logs
        with Brokers(flow.target.connection) as target:
            try:
                self.grant = fence.fence(target, flow.name, *terms)
            except LostProgressError as lost:
                mend_progress(flow, target, state, lost)
                self.grant = fence.fence(target, flow.name, *terms)
            mend_map(flow, target, state, self.grant)
            known = self.logs.ledger.read(target).committed if to_copy else {}
        for record in of_kind(known, FlowState):
            if not record.lets_copy(flow.recovery_run):
                raise TerminalError(
                    f"flow {flow.name} is {record.state.value} by {record.by}: {record.reason}",
                    hint="`twinlog recovery status` says what can be done"
                    if record.state.out_of_service
                    else "`twinlog resume` lets it go on; after a hand-over, `twinlog migrate takeover` does",
                    code=PAUSED,
                    flow=flow.name,
                )
        return self.grant

    def write(self, records: Sequence[StateRecord]) -> None:
        """Commit records in one transaction behind the fence; call this once per fence.

        Raises FencedError if another driver took the flow, and TransientError `overtaken` if somebody wrote beside the
        lanes since the fence: state or map may differ from what was read.
        """
        if not records:
            return
        with Brokers(self.flow.target.connection) as target:
            fence.write_fenced(
                target, self.grant.lanes[0], records, self.alone.require if self.alone else None
            )

    def read_ahead(self) -> None:
        """Read the state logs up to now. The fence, during which nothing is copied, then has only the rest to read."""
        with Brokers(self.flow.target.connection) as target:
            self.logs.ledger.catch_up(target)
            self.logs.progress.catch_up(target)

    def progress_now(self) -> Positions:
        """Read the flow's progress as of now: the last copied upstream offset of each partition."""
        with Brokers(self.flow.target.connection) as target:
            return fence.own_progress(self.logs.progress.read(target).committed, self.state)

    def require_last(self, target: Brokers) -> None:
        """Raise FencedError unless the ledger's last fence, which is written before its lanes write, is ours."""
        holder = fence.last_fence(self.logs.ledger.read(target))
        if holder and not self.grant.mark.is_of(holder):
            raise self._lost_to(holder.run_id)

    def require_not_taken(self) -> None:
        """Raise FencedError if a lane was fenced by another driver, not by its transaction's time-out.

        The ledger names the other driver, but only after its lanes are fenced. To fence it in turn meanwhile would
        begin a fight that neither wins, so it is given `TAKING_SECONDS` to write its name.
        """
        deadline = time.monotonic() + TAKING_SECONDS
        with Brokers(self.flow.target.connection) as target:
            while not (rival := self._rival(target)):
                if time.monotonic() >= deadline:
                    return
                time.sleep(0.1)
        raise self._lost_to(rival)

    def give_way(self, gives_way_to: Callable[[str], bool]) -> None:
        """Raise FencedError if a driver that we give way to has fenced us, by the ledger.

        Without this check our next fence would take the flow back.
        """
        with Brokers(self.flow.target.connection) as target:
            rival = self._rival(target)
        if rival and gives_way_to(rival):
            raise self._lost_to(rival)

    def _rival(self, target: Brokers) -> str:
        """Return the run id of the ledger's last fence, empty if that is our own or if there is none."""
        holder = fence.last_fence(self.logs.ledger.read(target))
        return "" if holder is None or holder.run_id == self.run_id else holder.run_id

    def _lost_to(self, rival: str) -> FencedError:
        return FencedError(
            f"another twinlog took over flow {self.flow.name} (run {rival})",
            hint="let one of them run; what this one committed counts, nothing else was written",
            flow=self.flow.name,
            run_id=rival,
        )


def state_topics(flow: FlowSettings, clusters: Clusters, *, ask_source: bool = True) -> StateTopics:
    """Find the flow's state topics, and the ids of its clusters; without `ask_source` the source's is unknown.

    Raises the target's refusal if sync_topics has not created them yet, and errors of the clusters.
    """
    flow.require_copied("what needs its fence")
    aside = flow.quarantine_topic if flow.copy.poison is PoisonPolicy.QUARANTINE else ""
    names = (flow.offsets_topic, flow.offset_map_topic, flow.ledger_topic, *filter(None, (aside,)))
    described = clusters.target.describe_topics(names).require()
    limits = message_limits(clusters.target, [aside]) if aside else {}
    return StateTopics(
        offsets_topic=flow.offsets_topic,
        offsets_partitions=len(described[flow.offsets_topic].partitions),
        map_topic=flow.offset_map_topic,
        map_partitions=len(described[flow.offset_map_topic].partitions),
        ledger_topic=flow.ledger_topic,
        connector_name=flow.connector_name,
        source_alias=flow.state_alias,
        quarantine_topic=aside,
        quarantine_max_bytes=limits.get(aside, DEFAULT_MAX_MESSAGE_BYTES),
        source_cluster_id=clusters.source.cluster_id() if ask_source else "",
        target_cluster_id=clusters.target.cluster_id(),
    )
