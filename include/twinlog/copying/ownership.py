"""Take a flow's fence to change its state outside of a copy: a running copy stops, and no other begins."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings, Guarantee
from twinlog.copying.mend.state import take_fence
from twinlog.copying.rounds import state_topics
from twinlog.errors import TransientError
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lane.fence.fence import Grant, init_writer, upkeep_id, write_fenced
from twinlog.lane.spec import StateTopics
from twinlog.lane.transaction import Writer
from twinlog.protocol.brokers import Brokers


@dataclass(frozen=True, slots=True)
class Held:
    """A fence that was taken; all state read from now on is what the last writer left."""

    flow: FlowSettings
    state: StateTopics
    grant: Grant
    target: Brokers
    upkeep: Writer | None

    @property
    def progress(self) -> dict[TopicPartition, int]:
        """Last copied upstream offsets, read behind the fence."""
        return {TopicPartition(*key): last for key, last in self.grant.progress.items()}

    def write(self, records: list[StateRecord]) -> None:
        """Commit records in one transaction; call this once per fence.

        Raises FencedError if another driver took the flow. Raises TransientError if records change the map and a map
        compaction (offset_sync/map_compaction.py) began since the fence: the map may differ from what was read.
        """
        if not records:
            return
        if all(it.topic != self.state.map_topic for it in records):
            write_fenced(self.target, self.grant.lanes[0], records)
            return
        if self._upkeep_came_between():
            raise TransientError(
                f"the offset map of {self.flow.name} was joined while it was to be changed",
                hint="the next cycle tries again",
                code="map-upkeep",
            )
        write_fenced(self.target, self.grant.lanes[0], records)
        end_upkeep(self.flow, self.target)

    def _upkeep_came_between(self) -> bool:
        """Say whether a map compaction initialised its id since the fence; this question fences it."""
        before, now = self.upkeep, end_upkeep(self.flow, self.target)
        if before is None or now is None:
            return False
        return (now.producer_id, now.producer_epoch) != (before.producer_id, before.producer_epoch + 1)


def end_upkeep(flow: FlowSettings, target: Brokers) -> Writer | None:
    """Fence a map compaction that is under way; return None for a flow without transactions, which has none."""
    if flow.copy.guarantee is not Guarantee.EXACTLY_ONCE:
        return None
    return init_writer(target, upkeep_id(flow.name), flow.copy.transaction_timeout_ms)


@contextmanager
def held(flow: FlowSettings, clusters: Clusters, why: str, run_id: str | None = None) -> Iterator[Held]:
    """Fence the flow, for `why`, as a run of its own or as `run_id`, and fence a compaction of its map.

    Raises as `take_fence`.
    """
    state = state_topics(flow, clusters)
    run_id = run_id or f"{why}-{uuid.uuid4().hex[:8]}"
    with Brokers(flow.target.connection) as target:
        grant = take_fence(flow, target, state, run_id=run_id, lanes=1)
        yield Held(flow, state, grant, target, end_upkeep(flow, target))
