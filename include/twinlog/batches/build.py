"""Build batches of many records at once, in memory that is reused; `twinlog.batches.columns` reads them.

All batches of a group are laid out together: each array operation has a fixed cost, and with only a few hundred
records per batch that cost would exceed the cost of the records. The memory of the batches built from one fetch answer
serves the next answer but one: the system provides fresh memory page by page, and clears each page first, which costs
more than writing to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.codec import compress
from twinlog.batches.columns import Columns, Int64s, copy_pieces
from twinlog.batches.header import HEADER_BYTES, headed, write_header
from twinlog.batches.memory import reserve

MOST_BYTES = 16 << 20
"""The size of each half of an arena; a batch that does not fit gets memory of its own."""


@dataclass(slots=True)
class Arena:
    """Hand out buffers that stay valid until `reset` has been called twice.

    The batches of one answer may still be on their way to the target while the next answer is cut.
    Both halves are reserved when they are first needed.
    """

    _memory: memoryview | None = None
    _other: memoryview | None = None
    _used: int = 0

    def allocate(self, size: int) -> memoryview:
        """Return a writable buffer of `size` bytes with undefined content."""
        start = self._used
        self._used += size
        if self._used > MOST_BYTES:
            return reserve(size)
        if self._memory is None:
            self._memory = reserve(MOST_BYTES)
        return self._memory[start : self._used]

    def give_back(self, size: int) -> None:
        """Take back the last `size` bytes of the buffer handed out last."""
        self._used -= size

    def reset(self) -> None:
        """Take back the buffers that were handed out before the previous reset."""
        self._memory, self._other = self._other, self._memory
        self._used = 0


LARGEST_PREFIX = 21
"""The most bytes that length, attributes, timestamp and offset of a record can take."""

PIECES_AT_ONCE = 8
"""The number of batches that are laid out together; it bounds the memory of the layout."""


def pieces(records: Columns, limit: int) -> Iterator[tuple[Columns, Int64s]]:
    """Cut records into pieces of at most `limit` bytes, but of at least one record each.

    Yields a few pieces at a time: their records, and the index at which each piece begins.
    """
    ends = np.cumsum(records.sizes + LARGEST_PREFIX)
    firsts: list[int] = []
    start = done = 0
    while start < len(records):
        firsts.append(start)
        start = max(int(np.searchsorted(ends, done + limit, "right")), start + 1)
        done = int(ends[start - 1])
    for index in range(0, len(firsts), PIECES_AT_ONCE):
        group, following = firsts[index : index + PIECES_AT_ONCE], firsts[index + PIECES_AT_ONCE :]
        end = following[0] if following else len(records)
        yield records.where(slice(group[0], end)), np.array(group, np.int64) - group[0]


def build_batches(records: Columns, firsts: Int64s, codec: int, arena: Arena) -> list[memoryview]:
    """Build a dense CreateTime batch from each piece of `records`, with base offset 0 and no producer.

    `firsts` are the indices at which pieces begin; the first one is 0, and no piece is empty.  Uncompressed batches
    lie in `arena` and are valid until that is reset twice.  The results are writable: `twinlog.batches.relabel`
    gives them producer and sequence when they are sent.  Offset deltas number the records of each piece from 0; gaps
    close:

        upstream offsets   7  8 11 | 12 15        firsts = 0, 3
        offset deltas      0  1  2 |  0  1
    """
    counts = np.diff(firsts, append=len(records))
    bases = records.timestamps[firsts]
    numbers = np.arange(len(records)) - np.repeat(firsts, counts)
    time, number = zigzag(records.timestamps - np.repeat(bases, counts)), zigzag(numbers)
    time_bytes, number_bytes = varint_bytes(time), varint_bytes(number)
    sizes = records.sizes
    length = zigzag(1 + time_bytes + number_bytes + sizes)
    length_bytes = varint_bytes(length)
    prefix = length_bytes + 1 + time_bytes + number_bytes
    heads = HEADER_BYTES * np.arange(1, len(firsts) + 1)
    record_ends = np.cumsum(prefix + sizes) + np.repeat(heads, counts)
    view = arena.allocate(int(record_ends[-1]))
    out: Any = np.frombuffer(view, np.uint8)
    at = record_ends - sizes - prefix
    write_varints(out, at, length, length_bytes)
    out[at + length_bytes] = 0
    write_varints(out, at + length_bytes + 1, time, time_bytes)
    write_varints(out, at + length_bytes + 1 + time_bytes, number, number_bytes)
    copy_pieces(records.data, records.starts, records.ends, view, at + prefix)
    latest = np.maximum.reduceat(records.timestamps, firsts)
    ends = record_ends[firsts + counts - 1]
    built = []
    start = 0
    for end, count, base, last in zip(*(it.tolist() for it in (ends, counts, bases, latest)), strict=True):
        built.append(_headed(view[start:end], codec, count, base, last))
        start = end
    return built


def _headed(batch: memoryview, codec: int, count: int, base: int, latest: int) -> memoryview:
    """Compress the records behind the space for the header, and write the header."""
    if codec:
        return headed(compress(codec, bytes(batch[HEADER_BYTES:])), codec, count, base, latest)
    write_header(batch, codec, count, base, latest)
    return batch


def zigzag(values: Int64s) -> Any:
    """Return the unsigned numbers that stand for signed ones in varints."""
    return ((values << 1) ^ (values >> 63)).astype(np.uint64)


def varint_bytes(values: Any) -> Int64s:
    """Return the number of bytes that the varint of each value takes."""
    sizes = np.ones(len(values), np.int64)
    shift, most = 7, int(values.max())
    while most >> shift:
        sizes += values >= np.uint64(1 << shift)
        shift += 7
    return sizes


def write_varints(out: Any, at: Int64s, values: Any, sizes: Int64s) -> None:
    """Write the varint of each value at its position in `out`."""
    for index in range(int(sizes.max())):
        longer = sizes > index
        more = np.where(sizes > index + 1, 0x80, 0).astype(np.uint8)
        byte = (values >> np.uint64(7 * index) & np.uint64(0x7F)).astype(np.uint8) | more
        if longer.all():
            out[at + index] = byte
        else:
            out[at[longer] + index] = byte[longer]
