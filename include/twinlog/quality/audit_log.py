"""One side of an audit as it streams by: whole batches where that is enough, single records where it is not.  Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from twinlog.formats.ledger_audit import Unproved
from twinlog.quality.record_fields import RawRecord, records_of
from twinlog.relay.partition_reader import Batch, Item, Lost

WINDOW_BYTES = 4 << 20


class Side:
    """Batches and records of one side from `start` to `end`, in order; those outside are passed over."""

    def __init__(self, items: Iterable[Item], start: int, end: int) -> None:
        self._items = iter(items)
        self._start = start
        self._end = end
        self._batch: Batch | None = None
        self._records: deque[RawRecord] = deque()
        self.lost: list[Lost] = []
        self.gaps_inside = False

    def batch(self) -> Batch | None:
        """Return the next batch when none of it has been read and all of it is in the range, else None."""
        if self._records or not self._load():
            return None
        batch = self._batch
        assert batch is not None
        whole = batch.header.base_offset >= self._start and batch.header.next_offset <= self._end
        return batch if whole else None

    def take_batch(self) -> None:
        """Go behind the batch that `batch` returned."""
        self._batch = None

    def head(self) -> RawRecord | None:
        """Return the next record, None behind the last."""
        while not self._records:
            if not self._load():
                return None
            self._open()
        return self._records[0]

    def take(self) -> RawRecord:
        """Take the next record, which `head` has returned."""
        return self._records.popleft()

    def window(self, count: int) -> list[RawRecord]:
        """Return up to `count` next records without taking them; fewer at the end, or when they are large."""
        size = sum(len(record.rest) for record in self._records)
        while len(self._records) < count and size < WINDOW_BYTES and self._load():
            before = len(self._records)
            self._open()
            size += sum(len(self._records[index].rest) for index in range(before, len(self._records)))
        return [self._records[index] for index in range(min(count, len(self._records)))]

    def exhausted_behind(self, count: int) -> bool:
        """Whether there is nothing behind the next `count` records."""
        return len(self._records) <= count and not self._load()

    def lost_at(self, offset: int) -> Unproved | None:
        """Why there is nothing at `offset`, if that is known."""
        return next((it.reason for it in self.lost if it.start <= offset < it.end), None)

    def _load(self) -> bool:
        while self._batch is None:
            item = next(self._items, None)
            if item is None:
                return False
            if isinstance(item, Lost):
                self.lost.append(item)
            elif item.header.record_count and item.header.next_offset > self._start:
                if item.header.base_offset >= self._end:
                    return False
                self._batch = item
        return True

    def _open(self) -> None:
        assert self._batch is not None
        header, data = self._batch
        self.gaps_inside |= not header.dense
        inside = (it for it in records_of(header, data) if self._start <= it.offset < self._end)
        self._records.extend(inside)
        self._batch = None
