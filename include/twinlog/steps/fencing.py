"""Taking a flow's fence to change its state outside of a copy: whoever was copying stops, nobody else begins."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.values import TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.relay.brokers import Brokers
from twinlog.relay.fence import Grant
from twinlog.relay.gate_lane import write_fenced
from twinlog.relay.spec import StateTopics
from twinlog.relay.state_records import StateRecord
from twinlog.steps.copy_round import state_topics
from twinlog.steps.lost_state import granted


@dataclass(frozen=True, slots=True)
class Held:
    """A fence that was passed; everything read from now on is what the last writer left."""

    state: StateTopics
    grant: Grant
    target: Brokers

    @property
    def progress(self) -> dict[TopicPartition, int]:
        """Last copied upstream offsets, read behind the fence."""
        return {TopicPartition(*key): last for key, last in self.grant.progress.items()}

    def write(self, records: list[StateRecord]) -> None:
        """Commit records in one transaction; once per fence.  Raises FencedError when somebody else took the flow."""
        if records:
            write_fenced(self.target, self.grant.lanes[0], records)


@contextmanager
def held(flow: FlowSettings, clusters: Clusters, why: str, run_id: str | None = None) -> Iterator[Held]:
    """Fence the flow, for `why`, as a run of its own or as `run_id`.

    Raises as `granted`.
    """
    state = state_topics(flow, clusters)
    run_id = run_id or f"{why}-{uuid.uuid4().hex[:8]}"
    with Brokers(flow.target.connection) as target:
        yield Held(state, granted(flow, target, state, run_id=run_id, lanes=1), target)
