"""Track the sequence of each partition's next batch, and its candidates after a leader has moved.

A request that was answered with "not the leader", "not enough replicas" and the like is over, but its batches may or
may not be in the log.  Their transaction is aborted.  The partition's next batch then tries the possible sequences,
from the last one downwards.  A sequence that is too high is refused (OUT_OF_ORDER) and not written.  A sequence that
is too low would be taken for a duplicate, but is never reached (docs/decisions/0005-leader-moves.md):

    two batches of 3 records were sent at sequences 10 and 13; candidates 10, 13, 16

    both are in the log           16 is accepted
    only the first is             16 is refused, 13 is accepted
    neither is                    16 and 13 are refused, 10 is accepted

Invariant S: per partition, sequences continue over the transactions of an epoch, also after an abort, so that no batch
is taken for a duplicate and silently dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.protocol.brokers import TopicPartition

_WRAP = 1 << 31
"""Sequences are int32; after the largest they continue at 0."""


class Sequences:
    """The next sequence of one writer, by partition; `used` holds them after earlier writes of this epoch."""

    def __init__(self, used: Mapping[TopicPartition, int] | None = None) -> None:
        self.next = dict(used or {})
        self._candidates: dict[TopicPartition, list[int]] = {}

    def take(self, partition: TopicPartition, records: int) -> int:
        """Return the sequence for a batch of `records` records, and advance behind it."""
        sequence = self.next.get(partition, 0)
        self.go_on_behind(partition, sequence, records)
        return sequence

    def go_on_behind(self, partition: TopicPartition, sequence: int, records: int) -> None:
        """Continue behind a batch of `records` records at `sequence`."""
        self.next[partition] = (sequence + records) % _WRAP

    def set_back(self, partition: TopicPartition, sequence: int) -> None:
        """Reuse `sequence` for the next batch: the batch at it was refused and not written."""
        self.next[partition] = sequence

    def found(self, partition: TopicPartition) -> None:
        """Note that a batch was written, so the guessed sequence was right."""
        self._candidates.pop(partition, None)

    def may_be_written(self, partition: TopicPartition, sequence: int, records: int) -> None:
        """Add candidates after a batch at `sequence` that may be in the log; continue behind it."""
        candidates = self._candidates.setdefault(partition, [])
        after = (sequence + records) % _WRAP
        candidates += [item for item in (sequence, after) if item not in candidates]
        self.next[partition] = candidates[-1]

    def guess_lower(self, partition: TopicPartition, sequence: int) -> bool:
        """Say whether `sequence`, refused as out of order, was a guess; if so, continue with the next lower guess."""
        candidates = self._candidates.get(partition, [])
        if candidates[-1:] != [sequence] or len(candidates) < 2:
            return False
        candidates.pop()
        self.next[partition] = candidates[-1]
        return True
