"""Whether the partitions of the target hold what a lane wrote, ends of transactions too: where in doubt, it looks.

A target may lose such ends (lane/hanging.py), and with an unclean election the last records as well.

Invariant E: a partition becomes part of a transaction only when every earlier one of its lane has an end in it.  Asking
before each would double the questions of a transaction, so it is asked when there was a sign: a leader refused, closed
its connection or could not be reached, the coordinator was lost or moved, or a transaction took unusually long to be
complete.  Before a lane's first transaction the driver has looked (copying/mend/copies.py).

Invariant T: nor does one that ends before what was acknowledged in it: its next records would lie where others lay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from twinlog.errors import TransientError
from twinlog.lane.hanging import wait_until_ended
from twinlog.protocol.brokers import Brokers, TopicPartition

_PATIENCE_SECONDS = 5.0
"""How long markers may be on their way."""


@dataclass(slots=True)
class Ends:
    """What one producer has written to, and which of it has to be looked at.  Single-threaded.

    `reached` is where each partition's log ended when it was last heard of (downstream, exclusive).
    """

    brokers: Brokers
    producer_id: int
    reached: dict[TopicPartition, int] = field(default_factory=dict)
    _known: set[TopicPartition] = field(default_factory=set)
    _doubted: set[TopicPartition] = field(default_factory=set)

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Take note of partitions that became part of a transaction."""
        self._known.update(partitions)

    def doubt(self) -> None:
        """There was a sign: look at everything that was ever added, before it is added again."""
        self._doubted |= self._known

    def unseen(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Look at those of `partitions` that are doubted; return the ones without a leader to ask.

        Those stay doubted, and so does what no longer exists, by the broker that was asked: AddPartitions has the say.
        Raises TransientError (`lost-marker`) for a transaction that stays open, (`lost-tail`) for a log that became
        shorter, and ClusterRefused as `find_hanging`.
        """
        doubted = self.doubted(partitions)
        if not doubted:
            return doubted
        try:
            seen = wait_until_ended(self.brokers, doubted, {self.producer_id}, _PATIENCE_SECONDS)
        except TransientError:
            return doubted
        for (topic, partition), it in seen.open.items():
            raise TransientError(
                f"{topic}-{partition} lacks the end of a transaction that began at {it.first_offset}",
                code="lost-marker",
            )
        for (topic, partition), end in seen.ends.items():
            if end < (reached := self.reached.get((topic, partition), 0)):
                raise TransientError(
                    f"{topic}-{partition} ended at offset {reached}, and ends at {end} now: records were lost",
                    code="lost-tail",
                )
        self._doubted -= doubted - seen.leaderless - seen.gone
        return seen.leaderless

    def doubted(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of `partitions` that have not been seen since the last sign."""
        return frozenset(self._doubted.intersection(partitions))
