"""One side of an audit, read as a stream.  Pure.

Whole batches if that is enough, columns of records if the batches were cut otherwise, single records if something is
not equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from twinlog.audit.comparison.record_fields import RawRecord, records_of
from twinlog.batches.columns import Columns, Int64s, read_columns
from twinlog.batches.header import CODEC_MASK
from twinlog.errors import FormatError
from twinlog.formats.ledger.audit import Unproved
from twinlog.logs.partition_reader import Batch, Block, Item, Lost

WINDOW_BYTES = 4 << 20
OPENED = 256
"""Records that are taken out of columns at once, to be compared singly."""

_NOTHING: Int64s = np.empty(0, np.int64)


class Side:
    """Batches and records of one side from `start` to `end`, in order; others are passed over.

    Next come the single records in `_records`, then the columns in `_rows`, then the block's batches from `_at` to
    `_until`.
    """

    def __init__(self, items: Iterable[Item], start: int, end: int) -> None:
        self._items = iter(items)
        self._start = start
        self._end = end
        self._block: Block | None = None
        self._at = self._until = 0
        self._ends = _NOTHING
        self._rows: Columns | None = None
        self._rows_dense = True
        self._records: deque[RawRecord] = deque()
        self.lost: list[Lost] = []
        self.gaps_inside = False

    def batch(self) -> Batch | None:
        """Return the next batch if none of it has been read and all of it is in the range, else None."""
        if self._records or self._rows is not None or not self._load():
            return None
        batch = self._next()
        inside = batch.header.base_offset >= self._start and batch.header.next_offset <= self._end
        return batch if inside else None

    def take_batch(self) -> None:
        """Go past the next batch, which was returned."""
        self._at += 1

    def ends(self) -> Int64s:
        """Return the record counts up to the end of each batch that can be read by columns; empty if none can.

        Of a batch that was partly taken by columns, the rest counts as one batch.
        """
        if self._rows is not None:
            return np.array([len(self._rows)])
        if self._records or not self._load():
            return _NOTHING
        read = self._ends[self._at - 1] if self._at else 0
        return self._ends[self._at : self._at + self._by_columns()] - read

    def columns(self, count: int) -> Columns | None:
        """Read the next `count` records, which `ends` has announced, without taking them; None if that fails.

        It also fails if they exceed the limit of bytes decompressed at once; the records read so far come next.
        """
        if self._rows is None and not self._read_columns(count):
            return None
        if self._rows is None or len(self._rows) < count:
            return None
        return self._rows.where(slice(0, count))

    def take(self, count: int = 1) -> None:
        """Take the next records, which `columns` or `head` have returned."""
        if self._records:
            self._records.popleft()
        elif self._rows is not None:
            left = self._rows.where(slice(count, None))
            self._rows = left if len(left) else None

    def head(self) -> RawRecord | None:
        """Return the next record, None at the end."""
        while not self._records:
            if not self._open():
                return None
        return self._records[0]

    def window(self, count: int) -> list[RawRecord]:
        """Return up to `count` next records without taking them; fewer at the end, or if they are large."""
        size = sum(len(record.rest) for record in self._records)
        while len(self._records) < count and size < WINDOW_BYTES:
            before = len(self._records)
            if not self._open():
                break
            size += sum(len(self._records[index].rest) for index in range(before, len(self._records)))
        return [self._records[index] for index in range(min(count, len(self._records)))]

    def exhausted_behind(self, count: int) -> bool:
        """Say whether nothing follows the next `count` records."""
        return len(self._records) <= count and self._rows is None and not self._load()

    def lost_at(self, offset: int) -> Unproved | None:
        """Return the reason why there is no record at `offset`, if it is known."""
        return next((it.reason for it in self.lost if it.start <= offset < it.end), None)

    def _next(self) -> Batch:
        assert self._block is not None
        return self._block.batch(self._at)

    def _load(self) -> bool:
        return self._at < self._until or self._read()

    def _read(self) -> bool:
        """Read the next block that reaches into the range; return False if there is none."""
        for item in self._items:
            if isinstance(item, Lost):
                self.lost.append(item)
                continue
            first = int(np.searchsorted(item.nexts, self._start, side="right"))
            behind = int(np.searchsorted(item.bases, self._end, side="left"))
            if first < behind:
                self._block, self._at, self._until = item, first, behind
                self._ends = np.cumsum(item.heads["record_count"].astype(np.int64))
                return True
            if behind < len(item):
                return False
        return False

    def _by_columns(self) -> int:
        """Return how many batches, from the next one on, lie wholly in the range and share its codec."""
        assert self._block is not None
        rest = slice(self._at, self._until)
        codecs = self._block.heads["attributes"][rest] & CODEC_MASK
        outside = self._block.bases[rest] < self._start
        outside |= self._block.nexts[rest] > self._end
        others = np.flatnonzero(outside | (codecs != codecs[0]))
        return int(others[0]) if len(others) else self._until - self._at

    def _read_columns(self, count: int) -> bool:
        """Read as many batches as hold `count` records, or as are decompressed at once; return False if that fails."""
        block = self._block
        assert block is not None
        read = int(self._ends[self._at - 1]) if self._at else 0
        behind = int(np.searchsorted(self._ends, read + count, side="left")) + 1
        try:
            self._rows = read_columns(block.data, block.begins[self._at : behind], checked=True)
        except FormatError:
            return False
        behind = self._at + self._rows.batches
        heads = block.heads[self._at : behind]
        self._rows_dense = bool((heads["record_count"] == heads["last_offset_delta"] + 1).all())
        self._at = behind
        return True

    def _open(self) -> bool:
        """Make single records of what comes next, of columns or of a batch; return False at the end."""
        if self._rows is not None:
            some = self._rows.where(slice(0, OPENED))
            self.gaps_inside |= not self._rows_dense
            places = zip(some.offsets.tolist(), some.timestamps.tolist(), _rests(some), strict=True)
            self.take(len(some))
            self._records.extend(RawRecord(*place) for place in places)
            return True
        if not self._load():
            return False
        header, data = self._next()
        self._at += 1
        self.gaps_inside |= not header.dense
        inside = (record for record in records_of(header, data) if self._start <= record.offset < self._end)
        self._records.extend(inside)
        return True


def _rests(records: Columns) -> list[bytes]:
    bounds = zip(records.starts.tolist(), records.ends.tolist(), strict=True)
    return [bytes(records.data[start:end]) for start, end in bounds]
