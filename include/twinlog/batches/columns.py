"""Read the records of many batches at once, their varints column by column, with numpy.

Records that have to be rewritten are read here and built in `twinlog.batches.build`, for a fraction of a
microsecond a record: merges of small batches, offset gaps, splits, append times. A record is `length varint |
attributes int8 | timestampDelta varlong | offsetDelta varint | the rest`. Where records begin is found by stepping from
length to length, the one part that is sequential (record scan). The rest (key, value, headers) stays where it is and is
copied once, when the new batch is built: thousands of pieces in a few array operations (gather copy).

Each piece is copied as two blocks whose size is the largest power of two that fits the piece: one from its beginning,
one up to its end. The two blocks overlap:

    piece of 11 bytes   0 1 2 3 4 5 6 7 8 9 10
    first block of 8    [-------------]
    second block of 8         [--------------]

The blocks of all pieces with the same power are items of one array, and numpy moves them in one operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from crc32c import crc32c

from twinlog.batches.codec import decompress
from twinlog.batches.header import (
    CHECKED_FROM,
    CODEC_MASK,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    BatchHeader,
)
from twinlog.batches.outgoing import Stretches
from twinlog.errors import FormatError

Int64s = Any
"""A one-dimensional array of int64."""

_LARGE = 4096
"""Pieces of this size or more (bytes) are copied one by one: copying them by array would copy them once more."""


def copy_pieces(source: memoryview, starts: Int64s, ends: Int64s, into: memoryview, at: Int64s) -> None:
    """Copy `source[starts[i]:ends[i]]` to `at[i]` in `into`, for all i.

    Raises IndexError if a piece lies beyond either buffer.
    """
    sizes = ends - starts
    powers = np.frexp(sizes.astype(np.float64))[1] - 1  # log2 of the largest block; -1 for no bytes
    for power in np.flatnonzero(np.bincount(powers + 1)) - 1:
        these = slice(None) if powers[0] == power and (powers == power).all() else powers == power
        if power < 0:
            continue
        from_, to, until = starts[these], at[these], sizes[these]
        if 1 << power < _LARGE:
            _copy_blocks(source, from_, into, to, until, 1 << int(power))
            continue
        for start, place, size in zip(from_.tolist(), to.tolist(), until.tolist(), strict=True):
            into[place : place + size] = source[start : start + size]


def _copy_blocks(
    source: memoryview, starts: Int64s, into: memoryview, at: Int64s, sizes: Int64s, block: int
) -> None:
    theirs, ours = _blocks(source, block), _blocks(into, block)
    ours[at] = theirs[starts]
    rest = sizes - block
    ours[at + rest] = theirs[starts + rest]


def _blocks(buffer: memoryview, size: int) -> Any:
    """Return a view of every block of `size` bytes in a buffer, indexed by the byte at which it begins."""
    return np.ndarray((max(len(buffer) - size + 1, 0),), f"V{size}", buffer, strides=(1,))


MAX_VARINT = 5

_LOW_HALF = tuple(2 + ((low & 0x7F) >> 1) for low in range(256))
"""By the first byte of a length of two bytes: its share of the step to the next record."""

_ABREAST = 32
"""Measured: with more records than this for each record of the largest batch, stepping abreast is quicker."""


def record_starts(data: memoryview, bytes_: Any, starts: Int64s, ends: Int64s, counts: Int64s) -> Int64s:
    """Return where each record begins, in batches of `counts` records that lie from `starts` to `ends` in `data`.

    `bytes_` is the same memory as an array.  The caller checks that the lengths are true.  Raises IndexError if a
    length leads beyond the data or a count is impossible, OverflowError if a length is not a varint.
    """
    if (counts < 1).any() or (counts > ends - starts).any():
        raise IndexError
    most = int(counts.max())
    if most == 1:
        return starts
    if int(counts.sum()) > most * _ABREAST:
        return _steps_abreast(data, bytes_, starts, counts, most)
    return np.array(_steps_one_by_one(data, starts, counts), np.int64)


def _steps_one_by_one(data: memoryview, starts: Int64s, counts: Int64s) -> list[int]:
    found: list[int] = []
    add, low_half = found.append, _LOW_HALF
    for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
        at = start
        for _ in range(count):
            add(at)
            low = data[at]
            if low < 0x80:
                at += 1 + (low >> 1)
                continue
            high = data[at + 1]
            at += low_half[low] + (high << 6) if high < 0x80 else _step(data, at)
    return found


def _steps_abreast(data: memoryview, bytes_: Any, starts: Int64s, counts: Int64s, most: int) -> Int64s:
    """Step through all batches at once: to the second record of each, then to the third, ..."""
    found = np.empty(int(counts.sum()), np.int64)
    at, place, left = starts, np.cumsum(counts) - counts, counts
    for _ in range(most):
        found[place] = at
        if left.min() == 1:
            going = left > 1
            at, place, left = at[going], place[going], left[going]
        low, high = bytes_[at].astype(np.int64), bytes_[at + 1].astype(np.int64)
        step = np.where(low < 0x80, 1 + (low >> 1), 2 + (low & 0x7F) // 2 + (high << 6))
        for index in np.flatnonzero((low & high) >= 0x80).tolist():
            step[index] = _step(data, int(at[index]))
        at, place, left = at + step, place + 1, left - 1
    return found


def _step(data: memoryview, at: int) -> int:
    value = 0
    for index in range(MAX_VARINT):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return index + 1 + (value >> 1)
    raise OverflowError


_MAX_VARLONG = 10

TOGETHER_BYTES = 16 << 20
"""The most uncompressed bytes of compressed batches that are read at once, unless one batch alone has more."""

HEADERS = np.dtype({
    "names": list(BatchHeader._fields),
    "formats": [">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4"],
})
"""The layout of `twinlog.batches.header.HEADER` as a numpy type."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Hold records by column: upstream offsets, timestamps (ms, as a consumer sees them), positions of their rests.

    `batches` is the number of batches from which the records were read, also after some were left out.
    """

    data: memoryview
    offsets: Int64s
    timestamps: Int64s
    starts: Int64s
    ends: Int64s
    batches: int

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def sizes(self) -> Int64s:
        """Return the size of each record's rest, in bytes."""
        return self.ends - self.starts

    def where(self, chosen: Any) -> Columns:
        """Return the records that a mask or a slice selects."""
        return Columns(
            self.data,
            self.offsets[chosen],
            self.timestamps[chosen],
            self.starts[chosen],
            self.ends[chosen],
            self.batches,
        )

    def one_by_one(self) -> Iterator[tuple[int, int, memoryview]]:
        """Yield the upstream offset, the timestamp and the rest of each record."""
        columns = (self.offsets, self.timestamps, self.starts, self.ends)
        for offset, timestamp, start, end in zip(*(column.tolist() for column in columns), strict=True):
            yield offset, timestamp, self.data[start:end]

    def stretches(self, firsts: Int64s) -> Iterator[Stretches]:
        """Fold the ascending upstream offsets of each piece that `firsts` begin."""
        breaks = np.flatnonzero(np.diff(self.offsets) != 1) + 1
        begins = np.union1d(firsts, breaks)
        lengths = np.diff(begins, append=len(self))
        edges = np.append(np.searchsorted(begins, firsts), len(begins)).tolist()
        return Stretches.cut(self.offsets[begins], lengths, edges)


def headers(block: memoryview, starts: Sequence[int] | Int64s) -> Any:
    """Gather the headers of the batches at `starts` into one array, with fields named as in `BatchHeader`."""
    anywhere = np.ndarray((len(block) - HEADER_BYTES + 1,), f"V{HEADER_BYTES}", block, strides=(1,))
    return anywhere[starts].view(HEADERS)


def read_columns(block: memoryview, begins: Sequence[int], *, checked: bool = False) -> Columns:
    """Read the records of batches that share one codec, lie whole in `block`, and begin at `begins`.

    Of compressed batches it reads only the first ones: as many as TOGETHER_BYTES allow, and at least one;
    `Columns.batches` says how many.  Under LogAppendTime every record gets its batch's maxTimestamp, as consumers see.
    Raises FormatError if a checksum does not fit (unless the caller has `checked` them), if a block does not hold
    exactly its records, or if offsets do not ascend.
    """
    first = np.array(begins, np.int64)
    heads = headers(block, first)
    bases = heads["base_offset"].astype(np.int64)
    batch_ends = first + heads["batch_length"] + LOG_OVERHEAD
    if not checked:
        _check(block, first, batch_ends, heads["crc"], bases)
    data, starts, ends = _uncompressed(
        block, first + HEADER_BYTES, batch_ends, int(heads["attributes"][0]) & CODEC_MASK
    )
    heads, bases = heads[: len(starts)], bases[: len(starts)]
    counts = heads["record_count"].astype(np.int64)
    try:
        bytes_ = np.frombuffer(data, np.uint8)
        at = record_starts(data, bytes_, starts, ends, counts)
        length, body = read_varints(bytes_, at, MAX_VARINT)
        time, after_time = read_varints(bytes_, body + 1, _MAX_VARLONG)
        number, rest = read_varints(bytes_, after_time, MAX_VARINT)
    except (IndexError, OverflowError):
        raise _bad(bases[0], "ends inside a record") from None
    end = body + length
    following = np.append(at[1:], 0)
    lasts = np.cumsum(counts) - 1
    following[lasts] = ends
    if (end != following).any() or (rest > end).any():
        raise _bad(bases[0], "holds other records than its header says")
    offsets = np.repeat(bases, counts) + number
    beyond = (offsets[lasts] > bases + heads["last_offset_delta"]).any()
    if beyond or (number < 0).any() or (np.diff(offsets) <= 0).any():
        raise _bad(bases[0], "has offsets that do not ascend within it")
    return Columns(data, offsets, _timestamps(heads, counts, time), rest, end, len(heads))


def _check(block: memoryview, begins: Int64s, ends: Int64s, sums: Any, bases: Int64s) -> None:
    """Check the checksums of batches to be read: the rebuilt batch gets a new one, which would hide any damage."""
    bad = damaged(block, begins, ends, sums)
    if len(bad):
        raise _bad(bases[bad[0]], "does not fit its checksum", "corrupt-batch")


def damaged(block: memoryview, begins: Int64s, ends: Int64s, sums: Any) -> Int64s:
    """Return the indices of the batches, lying from `begins` to `ends`, that do not fit their checksums."""
    bounds = zip((begins + CHECKED_FROM).tolist(), ends.tolist(), strict=True)
    found = np.array([crc32c(block[start:end]) for start, end in bounds], np.uint32)
    return np.flatnonzero(found != sums)


def _bad(offset: int, what: str, code: str = "bad-record") -> FormatError:
    return FormatError(f"batch at upstream offset {offset} {what}", code=code, offset=int(offset))


def _uncompressed(
    block: memoryview, starts: Int64s, ends: Int64s, codec: int
) -> tuple[memoryview, Int64s, Int64s]:
    """Return the records' memory and bounds: the block, or the first batches decompressed one behind another."""
    if not codec:
        return block, starts, ends
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    parts = _together(decompress(codec, block[start:end]) for start, end in bounds)
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    return data, np.concatenate(([0], ends[:-1])), ends


def _together(parts: Iterable[memoryview]) -> list[memoryview]:
    """Take parts as long as their total is small enough.  A part that is too much is decompressed again next time."""
    taken: list[memoryview] = []
    left = TOGETHER_BYTES
    for part in parts:
        left -= len(part)
        if left < 0 and taken:
            break
        taken.append(part)
        if left <= 0:
            break
    return taken


def _timestamps(heads: Any, counts: Int64s, deltas: Int64s) -> Int64s:
    times = np.repeat(heads["base_timestamp"].astype(np.int64), counts) + deltas
    append_time = heads["attributes"] & LOG_APPEND_TIME != 0
    if append_time.any():
        latest = np.repeat(heads["max_timestamp"].astype(np.int64), counts)
        times = np.where(np.repeat(append_time, counts), latest, times)
    return times


def read_varints(data: Any, at: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """Decode a zigzag varint at each position; return the values and the positions behind them.

    Raises IndexError if a varint reaches beyond the data, OverflowError if one is longer than `most` bytes.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    going = np.flatnonzero(byte & 0x80)
    shift = 7
    while len(going):
        if shift >= 7 * most:
            raise OverflowError
        byte = data[after[going]]
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[going] += 1
        going = going[byte >= 0x80]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), after
