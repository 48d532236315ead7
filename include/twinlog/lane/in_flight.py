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

Predict where the next batches of a lane will lie in the target's log, if no other producer writes there.

A lane knows the end of a partition from the answer to its last batch, and each of its transactions adds one marker to
every partition that was added to it (KIP-98):

    known end 70 | batch of 5: 70-74 | marker: 75 | batch of 3 of the next transaction: 76-78

So the map of a transaction can be written right behind its data, before the data's answers arrive.  The answers are
compared with the prediction before the commit; if a prediction was wrong, the transaction is aborted
(lane/copy/copy_transaction.py).

Invariant F: no transaction is committed on a prediction alone.

Hold the results of the batches that a lane has sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.batches.outgoing import Outgoing
from twinlog.kafka_types import TopicPartition

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


@dataclass(slots=True)
class Written:
    """One batch that the target has acknowledged, with the downstream offset of its first record.

    Values made for each batch are not frozen: creating a frozen one takes three times as long.
    """

    partition: TopicPartition
    outgoing: Outgoing
    base_offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """One batch, or one partition, that the target did not take; the transaction has to be aborted.

    `outgoing` is None if even the partition could not be added to the transaction.  With `resend` the target will take
    it once its leader is found again, otherwise never.
    """

    partition: TopicPartition
    code: int
    message: str
    outgoing: Outgoing | None = None
    record_errors: tuple[tuple[int, str], ...] = ()
    resend: bool = False
