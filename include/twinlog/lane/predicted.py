"""Predict where the next batches of a lane will lie in the target's log, if no other producer writes there.

A lane knows the end of a partition from the answer to its last batch, and each of its transactions adds one marker to
every partition that was added to it (KIP-98):

    known end 70 | batch of 5: 70-74 | marker: 75 | batch of 3 of the next transaction: 76-78

So the map of a transaction can be written right behind its data, before the data's answers arrive.  The answers are
compared with the prediction before the commit; if a prediction was wrong, the transaction is aborted
(lane/copy/copy_transaction.py).

Invariant F: no transaction is committed on a prediction alone.
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
        """Return the downstream offset that a batch of `records` records will get; None if it is unknown."""
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
        """Note that the transaction of these partitions has ended: each gets a marker."""
        for partition in partitions:
            if partition in self._ends:
                self._ends[partition] += 1
