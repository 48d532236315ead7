"""Apply a chain of transforms (twinlog.transforms.chain) to records by column, and to whole batches.

Few records have more than a handful of combinations of header names, so what the chain makes of a combination is
worked out once and kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from twinlog.batches import varint
from twinlog.batches.codec import NONE
from twinlog.batches.columns import MAX_VARINT, Columns, read_varints
from twinlog.batches.header import HEADER_BYTES, BatchHeader, write_header, write_offsets
from twinlog.batches.record import Record, read_records
from twinlog.errors import FormatError
from twinlog.transforms.chain import Chain

_REMEMBERED: Final = 4096

Names = tuple[bytes, ...]


@dataclass(slots=True)
class Transform:
    """A chain as it is applied to encoded records.  Single-threaded."""

    chain: Chain
    _known: dict[tuple[bool, Names], tuple[int, ...] | None] = field(default_factory=dict)

    def columns(self, records: Columns) -> Columns:
        """Return what the chain makes of records.  Raises FormatError for a record that cannot be read."""
        if not len(records):
            return records
        values, headers = _layout(records)
        tombstones = (values < 0).tolist()
        kept = np.ones(len(records), bool)
        bare = {it: self._kept(it, ()) is not None for it in (False, True)}
        counts = np.frombuffer(records.data, np.uint8)[headers]
        changed: list[tuple[int, bytes]] = []
        bounds = zip(records.starts.tolist(), headers.tolist(), records.ends.tolist(), strict=True)
        for index, (start, at, end) in enumerate(bounds) if counts.any() else ():
            if not counts[index]:
                continue
            head = records.data[start:at]
            rest = self._headers(tombstones[index], records.data[at:end], int(records.offsets[index]))
            if rest is None:
                kept[index] = False
            elif rest is not _SAME:
                changed.append((index, b"".join((head, rest))))
        plain = counts == 0
        kept[plain] = np.where(values < 0, bare[True], bare[False])[plain]
        records = _replaced(records, changed) if changed else records
        return records if kept.all() else records.where(kept)

    def rest(self, rest: memoryview, offset: int) -> memoryview | None:
        """Return what the chain makes of one record's end: the same object if it stays, None if it is dropped."""
        key, at = varint.decode(rest, 0)
        value, at = varint.decode(rest, at + max(key, 0))
        at += max(value, 0)
        if at >= len(rest):
            raise _bad(offset)
        made = self._headers(value < 0, rest[at:], offset)
        if made is None or made is _SAME:
            return None if made is None else rest
        return memoryview(b"".join((rest[:at], made)))

    def batch(self, header: BatchHeader, batch: memoryview) -> list[memoryview] | None:
        """Return batches with what the chain makes of a batch, at the same offsets; None if it changes nothing.

        Of a dense batch they are dense; a batch with offset gaps stays one with gaps.
        """
        read = list(read_records(header, batch))
        made = [
            (record, rest) for record in read if (rest := self.rest(record.rest, record.offset)) is not None
        ]
        if len(made) == len(read) and all(rest is record.rest for record, rest in made):
            return None
        records = [Record(record.offset, record.timestamp, rest) for record, rest in made]
        if not records:
            return []
        if not header.dense:
            return [_placed(records, header.base_offset, header.last_offset_delta)]
        return [_placed(stretch, stretch[0].offset, len(stretch) - 1) for stretch in _stretches(records)]

    def _headers(self, tombstone: bool, block: memoryview, offset: int) -> bytes | None:
        """Return what stays of encoded headers; _SAME if all of them stay, None if the record is dropped."""
        names, places = _named(block, offset)
        kept = self._kept(tombstone, names)
        if kept is None:
            return None
        if len(kept) == len(names):
            return _SAME
        return varint.encode(len(kept)) + b"".join(block[slice(*places[index])] for index in kept)

    def _kept(self, tombstone: bool, names: Names) -> tuple[int, ...] | None:
        found = self._known.get((tombstone, names), _UNKNOWN)
        if found is _UNKNOWN:
            texts = [str(name, "utf-8", "replace") for name in names]
            found = self.chain.kept(tombstone, texts)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[tombstone, names] = found
        return found


_SAME: Final = b"same"
_UNKNOWN: Final = (-1,)


def _layout(records: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the length of each value (negative: null), and where the headers of each record begin."""
    data = np.frombuffer(records.data, np.uint8)
    try:
        keys, at = read_varints(data, records.starts, MAX_VARINT)
        values, at = read_varints(data, at + np.maximum(keys, 0), MAX_VARINT)
        at = at + np.maximum(values, 0)
    except (IndexError, OverflowError):
        raise _bad(int(records.offsets[0])) from None
    beyond = np.flatnonzero(at >= records.ends)
    if len(beyond):
        raise _bad(int(records.offsets[beyond[0]]))
    return values, at


def _named(block: memoryview, offset: int) -> tuple[Names, list[tuple[int, int]]]:
    """Return the names of encoded headers, and where each header lies.  Raises FormatError if they cannot be read."""
    try:
        count, at = varint.decode(block, 0)
        names, places = [], []
        for _ in range(count):
            start = at
            size, at = varint.decode(block, at)
            names.append(bytes(block[at : at + size]))
            value, at = varint.decode(block, at + size)
            at += max(value, 0)
            places.append((start, at))
    except (IndexError, FormatError):
        raise _bad(offset) from None
    if at != len(block) or count < 0:
        raise _bad(offset)
    return tuple(names), places


def _replaced(records: Columns, changed: list[tuple[int, bytes]]) -> Columns:
    """Return the records with other ends at some indices: the new ends lie behind the data."""
    indices = np.array([index for index, _ in changed], np.int64)
    sizes = np.array([len(rest) for _, rest in changed], np.int64)
    data = memoryview(b"".join((records.data, *(rest for _, rest in changed))))
    starts, ends = records.starts.copy(), records.ends.copy()
    ends[indices] = len(records.data) + np.cumsum(sizes)
    starts[indices] = ends[indices] - sizes
    return Columns(data, records.offsets, records.timestamps, starts, ends, records.batches)


def _stretches(records: list[Record]) -> Iterator[list[Record]]:
    """Cut records into stretches whose offsets follow one another."""
    first = 0
    for index in range(1, len(records) + 1):
        if index == len(records) or records[index].offset != records[index - 1].offset + 1:
            yield records[first:index]
            first = index


def _placed(records: list[Record], base: int, last_delta: int) -> memoryview:
    """Build an uncompressed batch of records at their own offsets, from `base` to `base + last_delta`."""
    earliest = records[0].timestamp
    parts: list[bytes | memoryview] = [bytes(HEADER_BYTES)]
    for offset, timestamp, rest in records:
        time, number = varint.encode(timestamp - earliest), varint.encode(offset - base)
        parts += (varint.encode(1 + len(time) + len(number) + len(rest)), b"\x00", time, number, rest)
    batch = memoryview(bytearray(b"".join(parts)))
    latest = max(record.timestamp for record in records)
    write_header(batch, NONE, len(records), earliest, latest)
    write_offsets(batch, base, last_delta)
    return batch


def _bad(offset: int) -> FormatError:
    return FormatError(f"record at upstream offset {offset} cannot be read", code="bad-record", offset=offset)
