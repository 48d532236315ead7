"""One partition's log of a fake cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.batches.record import Headers
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.cluster.values import PartitionOffsets
from twinlog.kafka_types import ReadRecord
from twinlog.protocol.leader_epochs import EpochEnd


@dataclass(slots=True)
class FakeLog:
    """Records by offset, where the log begins and ends, and how many at its end lie behind an open transaction.

    `held_by` is that transaction, as brokers would tell it.

    `epochs` are (leader epoch, first offset)s; a log that was told none knows any epoch it is asked for.
    """

    records: list[ReadRecord] = field(default_factory=list)
    start: int = 0
    end: int = 0
    undecided: int = 0
    held_by: OpenTransaction | None = None
    epochs: list[tuple[int, int]] = field(default_factory=list)

    def append(self, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> int:
        """Add one record and return its offset."""
        self.records.append(ReadRecord(self.end, timestamp, key, value, headers=headers))
        self.end += 1
        return self.end - 1

    def delete_before(self, offset: int) -> None:
        """Move the log start, as retention does."""
        self.start = offset
        self.records = [record for record in self.records if record.offset >= offset]

    def offsets(self) -> PartitionOffsets:
        """Return log start, stable end, end."""
        return PartitionOffsets(self.start, self.end - self.undecided, self.end)

    def read_from(self, start: int, *, read_committed: bool) -> tuple[ReadRecord, ...]:
        """Return the records from `start` on that a consumer of that isolation level can reach."""
        end = self.offsets().readable_end(read_committed=read_committed)
        return tuple(record for record in self.records if start <= record.offset < end)

    def size(self) -> int:
        """Bytes of keys and values."""
        return sum(len(it.key or b"") + len(it.value or b"") for it in self.records)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Say where an epoch ended: the last one up to it that is known; -1 for one that has not begun."""
        known = self.epochs or [(epoch, 0)]
        if epoch > known[-1][0]:
            return EpochEnd(-1, -1)
        ends = [*(first for _, first in known[1:]), self.end]
        at = [EpochEnd(it, end) for (it, _), end in zip(known, ends, strict=True) if it <= epoch]
        return at[-1] if at else EpochEnd(epoch, known[0][1])
