"""Remember which followers of the client's rack leaders have named for reading (KIP-392).

A leader that knows a replica in the rack of a request answers with that replica's node id and no records.  What a
follower serves lies below its high watermark, so it is committed, and its own words on where the log begins or ends
are not believed: whatever it refuses, the leader is asked again.  As in Kafka's consumer a replica is read from for
five minutes (the default of metadata.max.age.ms), then the leader chooses anew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from twinlog.kafka_types import TopicPartition

CHOSEN_SECONDS: Final = 300.0
"""How long a replica is read from before its leader chooses anew."""

DOUBT_SECONDS: Final = 30.0
"""How long leaders serve everything themselves after a replica was lost or has refused something."""


@dataclass(slots=True)
class NearestReplicas:
    """The replicas of `rack` that leaders have named; of no use if `rack` is empty."""

    rack: str
    _chosen: dict[TopicPartition, tuple[int, float]] = field(default_factory=dict)
    _doubted_until: float = 0.0

    @property
    def asked_rack(self) -> str:
        """Return the rack to name in a request: none while replicas are in doubt, so that leaders name no other."""
        return self.rack if time.monotonic() >= self._doubted_until else ""

    def of(self, partition: TopicPartition) -> int | None:
        """Return the replica that was named for a partition, also if it is time to choose anew."""
        found = self._chosen.get(partition) if self._chosen else None
        return None if found is None else found[0]

    def outdated(self, partition: TopicPartition) -> bool:
        """Say whether the leader should be asked again where to read."""
        return time.monotonic() >= self._chosen[partition][1]

    def choose(self, partition: TopicPartition, node: int) -> None:
        """Note the replica that a leader has named."""
        self._chosen[partition] = node, time.monotonic() + CHOSEN_SECONDS

    def forget(self, partition: TopicPartition) -> None:
        """Go back to the leader of a partition: it is time to choose anew."""
        self._chosen.pop(partition, None)

    def doubt(self, partition: TopicPartition) -> None:
        """Go back to the leader of a partition that its replica refused to serve."""
        self.forget(partition)
        self._doubted_until = time.monotonic() + DOUBT_SECONDS

    def lose(self, node: int) -> bool:
        """Go back to the leaders of all partitions that were read from a node; say whether there were any."""
        lost = [it for it, (chosen, _) in self._chosen.items() if chosen == node]
        for it in lost:
            self.doubt(it)
        return bool(lost)
