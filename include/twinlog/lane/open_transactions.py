"""Check, after a sign of doubt, that the target's partitions hold a lane's records and the ends of its transactions.

A target may lose commit markers (lane/hanging.py), and with an unclean election also the last records of a log.

Invariant E: a partition is added to a transaction only if every earlier transaction of its lane has an end in it.
Checking before each transaction would double its requests, so the check is made only after a sign: a leader refused,
closed its connection or could not be reached; the coordinator was lost or moved; or a transaction took unusually long
to complete.  Before a lane's first transaction the driver has checked (copying/mend/copies.py).

Invariant T: a partition is not added if its log ends before a record that was acknowledged in it.  Otherwise the next
records would take the offsets of lost ones.
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
    """The partitions that one producer has written to, and those of them that have to be checked.  Single-threaded.

    `reached` is the last known end of each partition's log (downstream, exclusive).
    """

    brokers: Brokers
    producer_id: int
    reached: dict[TopicPartition, int] = field(default_factory=dict)
    _known: set[TopicPartition] = field(default_factory=set)
    _doubted: set[TopicPartition] = field(default_factory=set)

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions that were added to a transaction."""
        self._known.update(partitions)

    def doubt(self) -> None:
        """Note a sign of doubt: check every partition that was ever added, before it is added again."""
        self._doubted |= self._known

    def unseen(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Check those of `partitions` that are in doubt; return the ones without a leader to ask.

        Partitions without a leader stay in doubt.  So do partitions that, by the broker that was asked, no longer
        exist: AddPartitions decides about them.  Raises TransientError (`lost-marker`) for a transaction that stays
        open, (`lost-tail`) for a log that has become shorter, and ClusterRefused as `find_hanging`.
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
        """Return those of `partitions` that have not been checked since the last sign."""
        return frozenset(self._doubted.intersection(partitions))
