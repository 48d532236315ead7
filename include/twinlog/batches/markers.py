"""Find the batches that a read_committed consumer never sees: aborted transactions' batches, and markers.  Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from twinlog.batches.header import BatchHeader
from twinlog.batches.record import read_records

EVER = 1 << 62
"""An offset beyond all others."""


@dataclass(slots=True)
class AbortedTransactions:
    """Track the aborted transactions that a fetch reported, as (producer id, first upstream offset), in offset order.

    Build a new one for each fetched block: brokers repeat the list with every fetch that overlaps it, and state kept
    across fetches would be wrong after a seek.  Source: KIP-98, "Fetching only committed data".
    """

    pending: list[tuple[int, int]]
    active: set[int] = field(default_factory=set)

    @property
    def clear_until(self) -> int:
        """Return the upstream offset below which nothing more is hidden; -1 while a transaction's batches are."""
        if self.active:
            return -1
        return self.pending[-1][1] if self.pending else EVER

    @classmethod
    def of(cls, reported: Collection[tuple[int, int]]) -> AbortedTransactions:
        """Build the state from (producer id, first offset) pairs in any order."""
        return cls(sorted(reported, key=lambda item: item[1], reverse=True))

    def hides(self, header: BatchHeader, batch: memoryview) -> bool:
        """Say whether `header`'s batch is a marker or aborted.  Call once per batch, in offset order."""
        while self.pending and self.pending[-1][1] <= header.last_offset:
            self.active.add(self.pending.pop()[0])
        if header.control:
            if header.producer_id in self.active and is_abort_marker(header, batch):
                self.active.discard(header.producer_id)
            return True
        return header.transactional and header.producer_id in self.active


def is_abort_marker(header: BatchHeader, batch: memoryview) -> bool:
    """Say whether a control batch is an ABORT marker: its key is int16 version, int16 type (0 abort, 1 commit)."""
    for record in read_records(header, batch):
        # The key begins with its length varint (one byte: 8); version and type follow.
        return bytes(record.rest[3:5]) == b"\x00\x00"
    return False
