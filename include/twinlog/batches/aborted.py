"""Which batches a read_committed consumer never sees: those of aborted transactions, and markers.  Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from twinlog.batches.header import BatchHeader
from twinlog.batches.record import read_records


@dataclass(slots=True)
class AbortedTransactions:
    """The aborted transactions a fetch reported: (producer id, first upstream offset), applied in offset order.

    Built anew for each fetched block, as brokers repeat the list with every fetch that overlaps it; state kept
    over fetches would be wrong after a seek.  Source: KIP-98, "Fetching only committed data".
    """

    pending: list[tuple[int, int]]
    active: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, reported: Collection[tuple[int, int]]) -> AbortedTransactions:
        """Take (producer id, first offset) pairs in any order."""
        return cls(sorted(reported, key=lambda item: item[1], reverse=True))

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether `header`'s batch belongs to an aborted transaction.  Call once per batch, in offset order."""
        while self.pending and self.pending[-1][1] <= header.last_offset:
            self.active.add(self.pending.pop()[0])
        if header.control:
            if header.producer_id in self.active and is_abort_marker(header, batch):
                self.active.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self.active


def is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    """Whether a control batch is an ABORT marker: its key is int16 version, int16 type (0 abort, 1 commit)."""
    for record in read_records(header, batch):
        # key length varint (one byte: 8), version, type
        return bytes(record.rest[3:5]) == b"\x00\x00"
    return False
