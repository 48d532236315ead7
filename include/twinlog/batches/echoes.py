"""Echoes: records of the source that are themselves copies from the target.

With unchanged topic names and flows both ways, each flow finds on its source what the other wrote there.  Copied
back, a record would go round for ever.  Two things tell an echo, and neither is written into a record:

  the producer id of its batch    belongs to a lane of the other flow, which that flow's ledger says before the lane
                                  writes its first batch (lane/fence/fence.py); so a batch that is there can be judged;
                                  that ledger is found by cluster id (logs/reverse_ledgers.py)
  the other flow's offset map     for what others wrote for that flow before it was taken over from MirrorMaker 2

Invariant: a batch is an echo or not whenever it is looked at, because producer ids are never given twice.
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
    """The producer ids of the reverse flows' lanes, read again whenever an unknown one is met.  Single-threaded.

    `read` gives the latest committed records of the reverse flows' ledgers there are now, by key.
    """

    read: Callable[[], Mapping[bytes, bytes | None]]
    lane_ids: set[int] = field(default_factory=set)
    other_ids: set[int] = field(default_factory=set)

    def wrote(self, header: BatchHeader) -> bool:
        """Whether the other flow wrote this batch; its lanes only write in transactions.

        Raises TransientError when its ledger cannot be read: without it nothing may be copied.
        """
        if not header.transactional:
            return False
        writer = header.producer_id
        if writer not in self.lane_ids and writer not in self.other_ids:
            self._look()
            if writer not in self.lane_ids:
                self.other_ids.add(writer)
        return writer in self.lane_ids

    def _look(self) -> None:
        self.lane_ids |= lane_writers(self.read())


@dataclass(frozen=True, slots=True)
class LoopbackRecords:
    """What of one partition is an echo: batches by their writer, and upstream offsets [first, end) by the map."""

    writers: LaneWriters
    first: Any
    end: Any

    @classmethod
    def of(cls, writers: LaneWriters, spans: tuple[tuple[int, int], ...]) -> LoopbackRecords:
        """Take spans in ascending order."""
        columns = np.array(spans, dtype=np.int64).reshape(-1, 2)
        return cls(writers, columns[:, 0], columns[:, 1])

    def whole(self, header: BatchHeader) -> bool:
        """Whether every record of a batch is an echo."""
        if self.writers.wrote(header):
            return True
        row = int(np.searchsorted(self.first, header.base_offset, side="right")) - 1
        return row >= 0 and header.last_offset < int(self.end[row])

    def some(self, header: BatchHeader) -> bool:
        """Whether a batch holds offsets that the map says are echoes."""
        row = int(np.searchsorted(self.end, header.base_offset, side="right"))
        return row < len(self.first) and int(self.first[row]) <= header.last_offset

    def among(self, offsets: Any) -> Any:
        """Say for each of some upstream offsets whether the map says that it is an echo."""
        if not len(self.first):
            return np.zeros(len(offsets), bool)
        rows = np.searchsorted(self.first, offsets, side="right") - 1
        return (rows >= 0) & (offsets < self.end[rows])
