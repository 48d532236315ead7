"""Taking a flow's fence to change its state outside of a copy: whoever was copying stops, nobody else begins."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.values import TopicPartition
from twinlog.config.settings import FlowSettings, Guarantee
from twinlog.relay.brokers import Brokers
from twinlog.relay.fence import Grant, init_writer, upkeep_id
from twinlog.relay.gate_lane import write_fenced
from twinlog.relay.spec import StateTopics
from twinlog.relay.state_records import StateRecord
from twinlog.steps.copy_round import state_topics
from twinlog.steps.lost_state import granted


@dataclass(frozen=True, slots=True)
class Held:
    """A fence that was passed; everything read from now on is what the last writer left."""

    flow: FlowSettings
    state: StateTopics
    grant: Grant
    target: Brokers

    @property
    def progress(self) -> dict[TopicPartition, int]:
        """Last copied upstream offsets, read behind the fence."""
        return {TopicPartition(*key): last for key, last in self.grant.progress.items()}

    def write(self, records: list[StateRecord]) -> None:
        """Commit records in one transaction; once per fence.  Raises FencedError when somebody else took the flow."""
        if not records:
            return
        write_fenced(self.target, self.grant.lanes[0], records)
        if any(it.topic == self.state.map_topic for it in records):
            self.end_upkeep()

    def end_upkeep(self) -> None:
        """Let an upkeep of the map fail that is under way: it would write what it has read, and that is changed."""
        if self.flow.copy.guarantee is Guarantee.EXACTLY_ONCE:
            init_writer(self.target, upkeep_id(self.flow.name), self.flow.copy.transaction_timeout_ms)


@contextmanager
def held(flow: FlowSettings, clusters: Clusters, why: str, run_id: str | None = None) -> Iterator[Held]:
    """Fence the flow, for `why`, as a run of its own or as `run_id`, and end an upkeep of its map.

    Raises as `granted`.
    """
    state = state_topics(flow, clusters)
    run_id = run_id or f"{why}-{uuid.uuid4().hex[:8]}"
    with Brokers(flow.target.connection) as target:
        fence = Held(flow, state, granted(flow, target, state, run_id=run_id, lanes=1), target)
        fence.end_upkeep()
        yield fence
