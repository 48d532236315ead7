"""One side of an audit as it streams by: whole batches where that is enough, single records where it is not.  Pure."""

from __future__ import annotations

import itertools
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
        self._batches: deque[Batch] = deque()
        self._records: deque[RawRecord] = deque()
        self.lost: list[Lost] = []
        self.gaps_inside = False

    def batch(self) -> Batch | None:
        """Return the next batch when none of it has been read and all of it is in the range, else None."""
        if self._records or not self._load():
            return None
        return self._whole(self._batches[0])

    def batch_behind(self, count: int) -> Batch | None:
        """Return the batch behind the next `count` whole ones, None when there is no whole one of the same codec."""
        while len(self._batches) <= count:
            # What was shown before must stay when another item is asked for.
            last = self._batches[-1]
            self._batches[-1] = Batch(last.header, memoryview(bytes(last.data)))
            if not self._read():
                return None
        batch = self._whole(self._batches[count])
        same = batch is not None and batch.header.codec == self._batches[0].header.codec
        return batch if same else None

    def next_batches(self, count: int) -> list[Batch]:
        """Return the next `count` batches, which were returned before."""
        return list(itertools.islice(self._batches, count))

    def take_batches(self, count: int) -> None:
        """Go behind the next `count` batches, which were returned whole."""
        for _ in range(count):
            self._batches.popleft()

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

    def _whole(self, batch: Batch) -> Batch | None:
        header = batch.header
        return batch if header.base_offset >= self._start and header.next_offset <= self._end else None

    def _load(self) -> bool:
        return bool(self._batches) or self._read()

    def _read(self) -> bool:
        """Read one more batch that reaches into the range."""
        for item in self._items:
            if isinstance(item, Lost):
                self.lost.append(item)
            elif item.header.record_count and item.header.next_offset > self._start:
                if item.header.base_offset >= self._end:
                    return False
                self._batches.append(item)
                return True
        return False

    def _open(self) -> None:
        header, data = self._batches.popleft()
        self.gaps_inside |= not header.dense
        inside = (it for it in records_of(header, data) if self._start <= it.offset < self._end)
        self._records.extend(inside)
