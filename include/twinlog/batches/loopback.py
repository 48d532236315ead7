"""Tell loopback records: records of the source that are themselves copies from the target.

With unchanged topic names and flows both ways, each flow finds on its source the records that the reverse flow wrote
there.  If they were copied back, they would circulate for ever.  Two things tell a loopback record; neither is
written into the record:

  the producer id of its batch    belongs to a lane of the reverse flow.  That flow's ledger names the id before the
                                  lane writes its first batch (lane/fence/fence.py), so every batch in the log can be
                                  judged.  The ledger is found by cluster id (logs/reverse_ledgers.py)
  the reverse flow's offset map   for records that others wrote for that flow before it was migrated from
                                  MirrorMaker 2

Invariant: the answer for a batch is the same at any time, because a producer id is never given out twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinlog.batches.header import BatchHeader
from twinlog.formats.ledger.reading import lane_writers


@dataclass(slots=True)
class LaneWriters:
    """Hold the producer ids of the reverse flows' lanes, and read them again at each unknown id.  Single-threaded.

    `read` returns the latest committed records, by key, of all ledgers of reverse flows that exist now.
    """

    read: Callable[[], Mapping[bytes, bytes | None]]
    lane_ids: set[int] = field(default_factory=set)
    other_ids: set[int] = field(default_factory=set)

    def wrote(self, header: BatchHeader) -> bool:
        """Say whether the reverse flow wrote this batch; its lanes write only in transactions.

        Raises TransientError if the reverse flow's ledger cannot be read: without the ledger nothing may be copied.
        """
        if not header.transactional:
            return False
        writer = header.producer_id
        if writer not in self.lane_ids and writer not in self.other_ids:
            self.lane_ids |= lane_writers(self.read())
            if writer not in self.lane_ids:
                self.other_ids.add(writer)
        return writer in self.lane_ids


@dataclass(frozen=True, slots=True)
class LoopbackRecords:
    """Tell the loopback records of one partition: batches by producer, upstream offsets [first, end) by the map."""

    writers: LaneWriters
    first: Any
    end: Any

    @classmethod
    def of(cls, writers: LaneWriters, spans: tuple[tuple[int, int], ...]) -> LoopbackRecords:
        """Build from spans in ascending order."""
        columns = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return cls(writers, columns[:, 0], columns[:, 1])

    def whole(self, header: BatchHeader) -> bool:
        """Say whether every record of a batch is a loopback record."""
        if self.writers.wrote(header):
            return True
        row = int(np.searchsorted(self.first, header.base_offset, side="right")) - 1
        return row >= 0 and header.last_offset < int(self.end[row])

    def some(self, header: BatchHeader) -> bool:
        """Say whether a batch holds upstream offsets that are loopback records by the map."""
        row = int(np.searchsorted(self.end, header.base_offset, side="right"))
        return row < len(self.first) and int(self.first[row]) <= header.last_offset

    def among(self, offsets: Any) -> Any:
        """Return a mask of the upstream offsets that are loopback records by the map."""
        if not len(self.first):
            return np.zeros(len(offsets), bool)
        rows = np.searchsorted(self.first, offsets, side="right") - 1
        return (rows >= 0) & (offsets < self.end[rows])
