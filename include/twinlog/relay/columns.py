"""Many records at once: the varints of whole runs of batches, read and written column by column with numpy.

What has to be rewritten is rewritten here, for a fraction of a microsecond a record: merges of small batches, gaps,
splits, append times.  A record is `length varint | attributes int8 | timestampDelta varlong | offsetDelta varint | the
rest`; the rest (key, value, headers) stays where it is and is copied once, when the new batch is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from crc32c import crc32c

from twinlog.errors import FormatError
from twinlog.relay.arena import Arena
from twinlog.relay.batch import (
    CHECKED_FROM,
    CODEC_MASK,
    CRC_AT,
    HEADER,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_2,
    BatchHeader,
)
from twinlog.relay.codec import compress, decompress
from twinlog.relay.pieces import Int64s, copy_pieces
from twinlog.relay.stepping import MAX_VARINT, record_starts

_MAX_VARLONG: Final = 10

LARGEST_PREFIX: Final = 21
"""Length, attributes, timestamp and offset of a record, at their longest."""


HEADERS: Final = np.dtype({
    "names": list(BatchHeader._fields),
    "formats": [">i8", ">i4", ">i4", "i1", ">u4", ">i2", ">i4", ">i8", ">i8", ">i8", ">i2", ">i4", ">i4"],
})
"""`twinlog.relay.batch.HEADER` for numpy."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Records by column: upstream offsets, timestamps (ms, as a consumer sees them), places of their rests."""

    data: memoryview
    offsets: Int64s
    timestamps: Int64s
    starts: Int64s
    ends: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def sizes(self) -> Int64s:
        """Bytes of each record's rest."""
        return self.ends - self.starts

    def where(self, chosen: Any) -> Columns:
        """Leave out records, by a mask, or take some, by a slice."""
        return Columns(
            self.data, self.offsets[chosen], self.timestamps[chosen], self.starts[chosen], self.ends[chosen]
        )

    def stretches(self) -> tuple[tuple[int, int], ...]:
        """Fold the (ascending) upstream offsets into (first, length) stretches."""
        breaks = np.flatnonzero(np.diff(self.offsets) != 1) + 1
        firsts = np.concatenate(([0], breaks))
        lengths = np.diff(np.concatenate((firsts, [len(self)])))
        return tuple(zip(self.offsets[firsts].tolist(), lengths.tolist(), strict=True))


def headers(block: memoryview, starts: Sequence[int] | Int64s) -> Any:
    """Gather the headers of the batches at `starts` into one array, a field by its name in `BatchHeader`."""
    anywhere = np.ndarray((len(block) - HEADER_BYTES + 1,), f"V{HEADER_BYTES}", block, strides=(1,))
    return anywhere[starts].view(HEADERS)


def read_columns(block: memoryview, begins: Sequence[int], *, checked: bool = False) -> Columns:
    """Read the records of batches that share one codec, lie whole in `block`, and begin at `begins`.

    Under LogAppendTime every record has its batch's maxTimestamp, which is what a consumer sees.  Raises FormatError
    when a checksum does not fit (unless the caller has `checked` them), when a block does not hold exactly its
    records, or when offsets do not ascend.
    """
    first = np.array(begins, np.int64)
    heads = headers(block, first)
    bases = heads["base_offset"].astype(np.int64)
    behind = first + heads["batch_length"] + LOG_OVERHEAD
    if not checked:
        _check(block, first, behind, heads["crc"], bases)
    counts = heads["record_count"].astype(np.int64)
    data, starts, ends = _uncompressed(
        block, first + HEADER_BYTES, behind, int(heads["attributes"][0]) & CODEC_MASK
    )
    try:
        bytes_ = np.frombuffer(data, np.uint8)
        at = record_starts(data, bytes_, starts, ends, counts)
        length, body = _read_varints(bytes_, at, MAX_VARINT)
        time, behind = _read_varints(bytes_, body + 1, _MAX_VARLONG)
        number, rest = _read_varints(bytes_, behind, MAX_VARINT)
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
    return Columns(data, offsets, _timestamps(heads, counts, time), rest, end)


def build_columns(records: Columns, codec: int, arena: Arena) -> memoryview:
    """Build one dense CreateTime batch of `records` (at least one), with base offset 0 and no producer.

    An uncompressed batch lies in the `arena`: it is valid until that is reset.
    The result is writable: `twinlog.relay.relabel` gives it its producer and sequence when it is sent.
    """
    count, base = len(records), int(records.timestamps[0])
    time, number = _zigzag(records.timestamps - base), np.arange(0, 2 * count, 2, dtype=np.uint64)
    time_bytes, number_bytes = _varint_bytes(time), _varint_bytes(number)
    sizes = records.sizes
    length = (1 + time_bytes + number_bytes + sizes).astype(np.uint64) * np.uint64(2)
    length_bytes = _varint_bytes(length)
    prefix = length_bytes + 1 + time_bytes + number_bytes
    behind = np.cumsum(prefix + sizes)
    view = arena.allocate(HEADER_BYTES + int(behind[-1]))
    out: Any = np.frombuffer(view, np.uint8)
    at = HEADER_BYTES + behind - sizes - prefix
    _write_varints(out, at, length, length_bytes)
    out[at + length_bytes] = 0
    _write_varints(out, at + length_bytes + 1, time, time_bytes)
    _write_varints(out, at + length_bytes + 1 + time_bytes, number, number_bytes)
    copy_pieces(records.data, records.starts, records.ends, view, at + prefix)
    if codec:
        body = compress(codec, bytes(view[HEADER_BYTES:]))
        view = memoryview(bytearray(HEADER_BYTES + len(body)))
        view[HEADER_BYTES:] = body
    latest = int(records.timestamps.max())
    HEADER.pack_into(
        view,
        0,
        0,
        len(view) - LOG_OVERHEAD,
        -1,
        MAGIC_2,
        0,
        codec,
        count - 1,
        base,
        latest,
        -1,
        -1,
        -1,
        count,
    )
    view[CRC_AT:CHECKED_FROM] = crc32c(view[CHECKED_FROM:]).to_bytes(4, "big")
    return view


def _check(block: memoryview, begins: Int64s, ends: Int64s, sums: Any, bases: Int64s) -> None:
    """What is read is checked: the new batch will have a checksum of its own, which would bless any damage."""
    bad = damaged(block, begins, ends, sums)
    if len(bad):
        raise _bad(bases[bad[0]], "does not fit its checksum", "corrupt-batch")


def damaged(block: memoryview, begins: Int64s, ends: Int64s, sums: Any) -> Int64s:
    """Which of the batches that lie from `begins` to `ends` do not fit their checksums."""
    bounds = zip((begins + CHECKED_FROM).tolist(), ends.tolist(), strict=True)
    found = np.array([crc32c(block[start:end]) for start, end in bounds], np.uint32)
    return np.flatnonzero(found != sums)


def _bad(offset: int, what: str, code: str = "bad-record") -> FormatError:
    return FormatError(f"batch at upstream offset {offset} {what}", code=code, offset=int(offset))


def _uncompressed(
    block: memoryview, starts: Int64s, ends: Int64s, codec: int
) -> tuple[memoryview, Int64s, Int64s]:
    """Return where the records are: in the block itself, or behind one another in new memory."""
    if not codec:
        return block, starts, ends
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    parts = [decompress(codec, block[start:end]) for start, end in bounds]
    ends = np.cumsum(np.fromiter(map(len, parts), np.int64, len(parts)))
    data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    return data, np.concatenate(([0], ends[:-1])), ends


def _timestamps(heads: Any, counts: Int64s, deltas: Int64s) -> Int64s:
    times = np.repeat(heads["base_timestamp"].astype(np.int64), counts) + deltas
    append_time = heads["attributes"] & LOG_APPEND_TIME != 0
    if append_time.any():
        latest = np.repeat(heads["max_timestamp"].astype(np.int64), counts)
        times = np.where(np.repeat(append_time, counts), latest, times)
    return times


def _read_varints(data: Any, at: Int64s, most: int) -> tuple[Int64s, Int64s]:
    """Decode a zigzag varint at each position; return the values and the positions behind them.

    Raises IndexError when one lies beyond the data, OverflowError when one is longer than `most` bytes.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    behind = at + 1
    going = np.flatnonzero(byte & 0x80)
    shift = 7
    while len(going):
        if shift >= 7 * most:
            raise OverflowError
        byte = data[behind[going]]
        value[going] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        behind[going] += 1
        going = going[byte >= 0x80]
        shift += 7
    return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64), behind


def _zigzag(values: Int64s) -> Any:
    return ((values << 1) ^ (values >> 63)).astype(np.uint64)


def _varint_bytes(values: Any) -> Int64s:
    """How many bytes each value takes."""
    sizes = np.ones(len(values), np.int64)
    shift, most = 7, int(values.max())
    while most >> shift:
        sizes += values >= np.uint64(1 << shift)
        shift += 7
    return sizes


def _write_varints(out: Any, at: Int64s, values: Any, sizes: Int64s) -> None:
    """Write each value at its place in `out`."""
    for index in range(int(sizes.max())):
        longer = sizes > index
        more = np.where(sizes > index + 1, 0x80, 0).astype(np.uint8)
        byte = (values >> np.uint64(7 * index) & np.uint64(0x7F)).astype(np.uint8) | more
        if longer.all():
            out[at + index] = byte
        else:
            out[at[longer] + index] = byte[longer]
