"""Where the next batches of a lane will lie in the target's log, if nobody else writes to their partitions.

A lane knows where a partition ends from the answer to its last batch, and each of its transactions leaves one marker
in every partition that was added to it (KIP-98).  So the map of a transaction can be written right behind its data,
without waiting for the data's answers: these are compared before the commit, and a transaction that was not foreseen
rightly is given up (lane/copy/copy_transaction.py).

Invariant F: nothing is committed on foresight alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from twinlog.protocol.brokers import TopicPartition


class PredictedOffsets:
    """The end of each partition, as soon as it is known."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, int] = {}
        self._under_way: Counter[TopicPartition] = Counter()

    def sent(self, partition: TopicPartition, records: int) -> int | None:
        """Return the downstream offset that a batch of so many records will get; None where it cannot be known."""
        self._under_way[partition] += 1
        end = self._ends.get(partition)
        if end is not None:
            self._ends[partition] = end + records
        return end

    def acknowledged(self, partition: TopicPartition, end: int) -> None:
        """Note that a batch was written and ends at downstream offset `end` (exclusive)."""
        self._under_way[partition] -= 1
        if not self._under_way[partition]:
            self._ends[partition] = end

    def refused(self, partition: TopicPartition) -> None:
        """Note that a batch was refused; it may or may not be in the log."""
        self._under_way[partition] -= 1
        self._ends.pop(partition, None)

    def ended(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the transaction these were added to has come to its end: each gets a marker."""
        for partition in partitions:
            if partition in self._ends:
                self._ends[partition] += 1
