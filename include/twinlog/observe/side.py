"""Read one side of a partition as chunks of records, forwards, and again from any place.  Pure.

The last chunks are kept, so that records that were just passed can be looked up without reading them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from twinlog.batches.columns import Columns, Int64s, read_columns
from twinlog.batches.header import CODEC_MASK, LOG_APPEND_TIME
from twinlog.logs.partition_reader import Block, Item, Lost
from twinlog.observe.likeness import prints
from twinlog.observe.values import Stretch

PIECE_BYTES = 1 << 20
"""Bytes of batches, as they lie, that are read at once if they are more than one."""

KEPT_BYTES = 16 << 20
KEPT_CHUNKS = 3
"""Chunks that are kept however large they are: at least what lies on both sides of the place that is looked at."""

AHEAD_CHUNKS = 4
AHEAD_RECORDS = 256
"""What counts as around a place is at least so much behind it, unless it takes half of what is kept."""

NOTHING_BEHIND = 1 << 63

BACK = 4096
"""Offsets before a place that are read again if nothing before it is kept."""


Log = Callable[[int], Iterator[Item]]
"""Yields the batches of one side of a partition from an offset on, up to an end that was fixed before, many times.

It yields a `Lost` for what can no longer be read.
"""


@dataclass(slots=True, eq=False)
class Chunk:
    """Records that were read at once: those of offsets [begin, end), at least one.

    Under `append_time` the timestamps are the broker's own.
    """

    begin: int
    columns: Columns
    append_time: bool
    _prints: dict[int, tuple[Int64s, Int64s]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """Return the offset behind the last record."""
        return int(self.columns.offsets[-1]) + 1

    @property
    def bytes(self) -> int:
        """Return about how much memory it takes."""
        return len(self.columns.data) + 64 * len(self.columns)

    def prints(self, ignored: int) -> Int64s:
        """Return a fingerprint of each record without the `ignored` fields, 0 if nothing is left that tells it."""
        return self.index(ignored)[0]

    def index(self, ignored: int) -> tuple[Int64s, Int64s]:
        """Return the fingerprints, and the order that sorts them."""
        if ignored not in self._prints:
            made = prints(self.columns, ignored)
            self._prints = {ignored: (made, np.argsort(made, kind="stable"))}
        return self._prints[ignored]


class Place(NamedTuple):
    """A record: its chunk and its row there."""

    chunk: Chunk
    row: int

    @property
    def offset(self) -> int:
        """Return the record's offset."""
        return int(self.chunk.columns.offsets[self.row])

    @property
    def raw(self) -> tuple[int, bytes]:
        """Return the record's timestamp, and its key, value and headers as encoded."""
        columns = self.chunk.columns
        start, end = int(columns.starts[self.row]), int(columns.ends[self.row])
        return int(columns.timestamps[self.row]), bytes(columns.data[start:end])


class Side:
    """The chunks of one side around the place that is looked at.

    `lost` tells of what could not be read: by its end, its start and the offset of the first record behind it.
    """

    def __init__(self, log: Log, start: int) -> None:
        self.chunks: deque[Chunk] = deque()
        self.lost: dict[int, Stretch] = {}
        self.records = 0
        self._log = log
        self._begin = self._next = self._counted = start
        self._alone = True  # nothing before the place was read
        self._ahead: Iterator[Chunk] | None = None

    def at(self, offset: int) -> Place | None:
        """Return the first record at or after an offset; None behind the end."""
        if not self._begin <= offset <= self._next + BACK:
            self._restart(offset)
            self._alone = True
        while True:
            for chunk in reversed(self.chunks):
                if chunk.begin <= offset or chunk is self.chunks[0]:
                    row = int(np.searchsorted(chunk.columns.offsets, offset))
                    if row < len(chunk.columns):
                        return Place(chunk, row)
                    break
            if not self.more():
                return None

    def more(self) -> bool:
        """Read another chunk behind those that are kept; return False at the end."""
        if self._ahead is None:
            self._ahead = self.scan(self._next)
        chunk = next(self._ahead, None)
        if chunk is None:
            return False
        self.chunks.append(chunk)
        self.records += int((chunk.columns.offsets >= self._counted).sum())
        self._next = chunk.end
        self._counted = max(self._counted, chunk.end)
        while len(self.chunks) > KEPT_CHUNKS and sum(it.bytes for it in self.chunks) > KEPT_BYTES:
            self.chunks.popleft()
            self._begin = self.chunks[0].begin
        return True

    def around(self, offset: int) -> list[Chunk]:
        """Return the chunks that are kept around an offset: some before it, and enough behind it."""
        if self._alone and offset < self._begin + BACK:
            self._restart(max(0, offset - BACK))
        self._alone = False
        self.at(offset)
        while self._short_of(offset) and self.more():
            pass
        return list(self.chunks)

    def _short_of(self, offset: int) -> bool:
        ahead = [chunk for chunk in self.chunks if chunk.begin > offset]
        few = len(ahead) < AHEAD_CHUNKS or sum(len(chunk.columns) for chunk in ahead) < AHEAD_RECORDS
        return few and sum(chunk.bytes for chunk in ahead) < KEPT_BYTES // 2

    def scan(self, start: int) -> Iterator[Chunk]:
        """Read from `start` on, and keep nothing."""
        position, lost = start, -1
        for item in self._log(start):
            if isinstance(item, Lost):
                lost = max(position, item.end)
                began = min(item.start, self.lost.get(lost, (item.start, 0))[0])
                self.lost[lost] = began, NOTHING_BEHIND
                position = lost
                continue
            for columns, append_time in _columns(item):
                wanted = columns.offsets >= position
                chosen = columns if wanted.all() else columns.where(wanted)
                if len(chosen):
                    chunk = Chunk(position, chosen, append_time)
                    if lost == position:
                        self.lost[lost] = self.lost[lost][0], int(chosen.offsets[0])
                    position = chunk.end
                    yield chunk

    def forget_ahead(self) -> None:
        """Read anew from the last chunk on, for the log was read elsewhere."""
        self._ahead = None

    def stretches(self, start: int, end: int) -> Iterator[Int64s]:
        """Yield the offsets of the records in [start, end), chunk by chunk."""
        while start < end and (place := self.at(start)) is not None:
            offsets = place.chunk.columns.offsets[place.row :]
            inside = offsets[: int(np.searchsorted(offsets, end))]
            if not len(inside):
                return
            yield inside
            start = place.chunk.end

    def lost_within(self, start: int, end: int) -> bool:
        """Say whether something between two offsets could not be read, or right before the record at `end`."""
        return any(
            began < end and (lost > start or behind >= end) for lost, (began, behind) in self.lost.items()
        )

    def _restart(self, offset: int) -> None:
        self.chunks.clear()
        self._begin = self._next = offset
        self._ahead = None


def _columns(block: Block) -> Iterator[tuple[Columns, bool]]:
    """Read the records of a block, piece by piece: batches that share an encoding and a kind of timestamps."""
    kinds: Any = block.heads["attributes"] & (CODEC_MASK | LOG_APPEND_TIME)
    begins = np.array([*block.begins, len(block.data)], np.int64)
    at = 0
    while at < len(block):
        full = int(np.searchsorted(begins, begins[at] + PIECE_BYTES, side="right")) - 1
        other = np.flatnonzero(kinds[at:] != kinds[at])
        end = min(max(full, at + 1), at + int(other[0]) if len(other) else len(block))
        # The block's own memory is used again.
        data = memoryview(bytes(block.data[begins[at] : begins[end]]))
        columns = read_columns(data, (begins[at:end] - begins[at]).tolist(), checked=True)
        yield columns, bool(kinds[at] & LOG_APPEND_TIME)
        at += columns.batches
