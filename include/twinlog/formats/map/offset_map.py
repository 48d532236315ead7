"""Encode the offset map's records: a segment of one partition's map, delta-coded.

    key    byte version, STRING topic, STRING topic id, INT32 partition, INT64 first upstream offset
    value  byte version, uvarint end - first, uvarint number of extents, then for each extent
           uvarint upstream offsets skipped since the last extent, uvarint downstream offsets skipped (for the first
           extent: its downstream offset), uvarint length

uvarint is base 128, least significant group first.  Small alternating extents take three bytes each.  The number of
extents comes first, so that a truncated value cannot pass for a shorter segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twinlog.errors import FormatError
from twinlog.formats.mm2.kafka_struct import StructReader, int32, int64, string
from twinlog.kafka_types import OfIncarnation
from twinlog.offsets.segments import Column, MapSegment, SegmentTable

VERSION = 1
_VERSION_BYTE = bytes([VERSION])
_HEAD_NUMBERS = 3
_MOST_BYTES = 9


@dataclass(frozen=True, slots=True)
class MapKey(OfIncarnation):
    """The key of a segment; `topic` and `topic_id` (as Kafka prints it) are the source's."""

    topic: str
    topic_id: str
    partition: int
    first_upstream: int


def encode_map_key(key: MapKey) -> bytes:
    """Encode the key of a segment."""
    names = string(key.topic) + string(key.topic_id)
    return bytes([VERSION]) + names + int32(key.partition) + int64(key.first_upstream)


def decode_map_key(data: bytes) -> MapKey:
    """Decode the key of a segment; raises FormatError for malformed bytes or another version."""
    _check_version(data, "offset map key")
    reader = StructReader(data[1:], "offset map key")
    key = MapKey(reader.string(), reader.string(), reader.int32(), reader.int64())
    if reader.position != len(reader.data):
        raise reader.error("goes on after its last field")
    return key


@dataclass(frozen=True, slots=True)
class SegmentDraft:
    """A growing segment: its extents are already encoded, so that adding one does not encode the others again.

    `upstream` and `downstream` are the ends of its last extent.
    """

    first_upstream: int
    upstream: int
    downstream: int = 0
    count: int = 0
    runs: bytes = b""

    @classmethod
    def begin(cls, first_upstream: int) -> SegmentDraft:
        """Begin a segment that has no extents yet."""
        return cls(first_upstream, first_upstream)

    def extended(self, numbers: Sequence[int]) -> SegmentDraft:
        """Add extents behind the last: three numbers for each, which are written as they are.

        Raises FormatError for an extent that is not behind the one before it on either side, or is empty.
        """
        skipped, jumped, lengths = numbers[::3], numbers[1::3], numbers[2::3]
        if min(numbers, default=0) < 0 or min(lengths, default=1) < 1:
            raise FormatError("map segment has extents out of order", piece=self.first_upstream)
        length = sum(lengths)
        return SegmentDraft(
            self.first_upstream,
            self.upstream + sum(skipped) + length,
            self.downstream + sum(jumped) + length,
            self.count + len(lengths),
            # The first extent tells how far away it is: its numbers may be large when all others are small.
            self.runs + _written(numbers[:3]) + _written(numbers[3:]),
        )

    def value(self, end_upstream: int) -> bytes:
        """Encode the value of the segment that covers upstream offsets up to `end_upstream`."""
        return _VERSION_BYTE + _written([end_upstream - self.first_upstream, self.count]) + self.runs


def encode_segment(piece: MapSegment) -> bytes:
    """Encode the value of a segment."""
    upstream, downstream = piece.first_upstream, 0
    numbers: list[int] = []
    for run in piece.runs:
        numbers += (run.upstream - upstream, run.downstream - downstream, run.length)
        upstream, downstream = run.upstream_end, run.downstream_end
    return SegmentDraft.begin(piece.first_upstream).extended(numbers).value(piece.end_upstream)


def decode_segment(key: MapKey, value: bytes) -> MapSegment:
    """Decode the value stored under `key`; raises FormatError for malformed bytes or another version."""
    return decode_segments([key.first_upstream], [value]).piece(0)


def decode_segments(firsts: Sequence[int] | Column, values: Sequence[bytes]) -> SegmentTable:
    """Decode many values at once, each stored under a key with the first upstream offset given.

    A million extents take about 0.1 s.  Raises FormatError if one value is malformed or has another version.
    """
    first = np.asarray(firsts, dtype=np.int64)
    numbers, at = _numbers_of(values)
    size, count = numbers[at + 1], numbers[at + 2]
    is_run = np.ones(len(numbers), dtype=bool)
    is_run[at] = is_run[at + 1] = is_run[at + 2] = False
    skipped, jumped, length = numbers[is_run].reshape(-1, 3).T
    run_start = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(count)))
    upstream_ends = _within(first, skipped, length, run_start)
    downstream_ends = _within(np.zeros_like(first), jumped, length, run_start)
    last = np.maximum(run_start[1:] - 1, 0)
    reached = np.where(count > 0, upstream_ends[last], first) if len(length) else first
    end = first + size
    if (length < 1).any() or (first < 0).any() or (reached > end).any() or (end < first).any():
        raise _wrong(values, "does not hold its runs")
    return SegmentTable(first, end, run_start, upstream_ends - length, downstream_ends - length, length)


def _numbers_of(values: Sequence[bytes]) -> tuple[Column, Column]:
    """Return all numbers of many values, and where each value begins among them: version, size, count, extents."""
    for value in values:
        if value[:1] != _VERSION_BYTE:
            _check_version(value, "map segment")
    data = np.frombuffer(b"".join(values), dtype=np.uint8)
    last_bytes = data < 0x80
    value_end = np.cumsum([len(value) for value in values], dtype=np.int64)
    if not last_bytes[value_end - 1].all():
        raise _wrong(values, "ends in the middle of a number")
    numbers = _numbers(data, np.flatnonzero(last_bytes), values)
    behind = np.cumsum(last_bytes, dtype=np.int64)[value_end - 1]
    many = np.diff(behind, prepend=0)
    if (many < _HEAD_NUMBERS).any():
        raise _wrong(values, "ends in the middle of a number")
    at, written = behind - many, many - _HEAD_NUMBERS
    # Compared by division: a wrong count times three might overflow.
    if (written % 3 != 0).any() or (written // 3 != numbers[at + 2]).any():
        raise _wrong(values, "goes on after its last run, or ends in the middle of a number")
    return numbers, at


def _numbers(data: npt.NDArray[np.uint8], ends: Column, values: Sequence[bytes]) -> Column:
    """Decode every base-128 number, one byte position at a time."""
    starts = np.concatenate((np.zeros(min(1, len(ends)), dtype=np.int64), ends[:-1] + 1))
    size = ends - starts + 1
    if (size > _MOST_BYTES).any():
        raise _wrong(values, "has a number beyond 63 bits")
    numbers = (data[starts] & 0x7F).astype(np.int64)
    longer = np.flatnonzero(size > 1)
    for place in range(1, int(size.max(initial=0))):
        longer = longer[size[longer] > place]
        numbers[longer] |= (data[starts[longer] + place] & 0x7F).astype(np.int64) << (7 * place)
    return numbers


def _within(start: Column, skipped: Column, length: Column, run_start: Column) -> Column:
    """Add up where each extent ends, from its segment's start on.

    Sums beyond 63 bits become negative the first time that happens.
    """
    step = skipped + length
    total = np.cumsum(step)
    before = np.concatenate((np.zeros(1, dtype=np.int64), total))[run_start[:-1]]
    ends: Column = total + np.repeat(start - before, np.diff(run_start))
    if (step < 0).any() or (ends < 0).any():
        raise FormatError("map segment has a number beyond 63 bits")
    return ends


def _wrong(values: Sequence[bytes], why: str) -> FormatError:
    """Return the error for the one faulty value, found by decoding them one by one."""
    if len(values) > 1:
        for value in values:
            try:
                decode_segments([0], [value])
            except FormatError as error:
                return error
    return FormatError(f"map segment {why}", bytes=b"".join(values)[:4096].hex())


def _check_version(data: bytes, what: str) -> None:
    if not data:
        raise FormatError(f"{what} is empty")
    if data[0] != VERSION:
        raise FormatError(f"{what} has version {data[0]}; only version {VERSION} is known", bytes=data.hex())


def _written(numbers: Sequence[int]) -> bytes:
    if max(numbers, default=0) <= 0x7F:
        return bytes(numbers)
    data = bytearray()
    for number in numbers:
        left = number
        while left > 0x7F:
            data.append(left & 0x7F | 0x80)
            left >>= 7
        data.append(left)
    return bytes(data)
