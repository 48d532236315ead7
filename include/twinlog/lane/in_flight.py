"""The sequence of each partition's next batch, and which ones it may be when a leader has moved.

A request that was answered with "not the leader", "not enough replicas" and the like is over, but its batches may be
in the log or not.  Their transaction is given up, and the next batch of the partition tries the sequences that may be
next from the last one downwards: one that is too high is refused (OUT_OF_ORDER) and not written, and one that is too
low, which would be taken for a duplicate, is never reached (docs/decisions/0005-leader-moves.md).

Invariant S: per partition, sequences continue over the transactions of an epoch, also after an abort, so that no batch
is taken for a duplicate and silently dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.protocol.brokers import TopicPartition

_WRAP = 1 << 31
"""Sequences are int32 and go on from 0 behind the largest."""


class Sequences:
    """What one writer's batches begin at, by partition; `used` are those that this epoch used up before."""

    def __init__(self, used: Mapping[TopicPartition, int] | None = None) -> None:
        self.next = dict(used or {})
        self._candidates: dict[TopicPartition, list[int]] = {}

    def take(self, partition: TopicPartition, records: int) -> int:
        """Return the sequence for a batch of so many records; the next one begins behind it."""
        sequence = self.next.get(partition, 0)
        self.go_on_behind(partition, sequence, records)
        return sequence

    def go_on_behind(self, partition: TopicPartition, sequence: int, records: int) -> None:
        """The next batch begins behind one of so many records at `sequence`."""
        self.next[partition] = (sequence + records) % _WRAP

    def set_back(self, partition: TopicPartition, sequence: int) -> None:
        """The batch at `sequence` was refused and not written: the next one takes its place."""
        self.next[partition] = sequence

    def found(self, partition: TopicPartition) -> None:
        """A batch was written: what was guessed is right."""
        self._candidates.pop(partition, None)

    def may_be_written(self, partition: TopicPartition, sequence: int, records: int) -> None:
        """The batch at `sequence` is in the log or not: the next one is there or behind; go on with the later."""
        candidates = self._candidates.setdefault(partition, [])
        after = (sequence + records) % _WRAP
        candidates += [item for item in (sequence, after) if item not in candidates]
        self.next[partition] = candidates[-1]

    def guess_lower(self, partition: TopicPartition, sequence: int) -> bool:
        """Whether `sequence`, refused as out of order, was a guess; then the next one is the next lower guess."""
        candidates = self._candidates.get(partition, [])
        if candidates[-1:] != [sequence] or len(candidates) < 2:
            return False
        candidates.pop()
        self.next[partition] = candidates[-1]
        return True
