"""Apply a chain (twinlog.transforms.chain) to records by column, and to whole batches.

Few records have more than a handful of combinations of header names, so what Connect's transforms make of a
combination is worked out once and kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from twinlog.batches import varint
from twinlog.batches.codec import NONE
from twinlog.batches.columns import Columns
from twinlog.batches.header import BatchHeader, headed, rewrite
from twinlog.batches.record import Record, read_records, stretches
from twinlog.batches.transform.fields import values_and_headers, with_rests
from twinlog.batches.transform.header_columns import Headers, bad_record, read_headers, without_one
from twinlog.errors import FormatError
from twinlog.transforms.chain import Chain, Filter, HasHeaderKey, RecordIsTombstone

_REMEMBERED = 4096

Names = tuple[bytes, ...]


@dataclass(slots=True)
class Transform:
    """A chain as it is applied to encoded records.  Single-threaded."""

    chain: Chain
    _names: tuple[bytes, ...] = ()
    _known: dict[tuple[bool, Names], tuple[int, ...] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = tuple(name.encode() for name in self.chain.header_names)

    def columns(self, records: Columns) -> Columns:
        """Return what the chain leaves of records, in order.  Raises FormatError for one that cannot be read."""
        if not len(records):
            return records
        value_sizes, at = values_and_headers(records)
        headers = read_headers(records, at, self._names)
        kept, removed = self._judged(value_sizes < 0, headers)
        gone = sum(
            (headers.times[name] * mask for name, mask in removed.items()), np.zeros(len(records), np.int64)
        )
        one_by_one = np.union1d(headers.others, np.flatnonzero(kept & (gone > 1)))
        changed: list[tuple[int, bytes]] = []
        for index in one_by_one.tolist():
            start, end = int(records.starts[index]), int(records.ends[index])
            offset, rest = int(records.offsets[index]), records.data[start:end]
            made = self.rest(rest, offset)
            kept[index] = made is not None
            if made is not None and made is not rest:
                changed.append((index, bytes(made)))
        gone[one_by_one] = 0
        rows = np.flatnonzero(kept & (gone == 1))
        if len(rows):
            begins, ends = _places(headers, removed, rows)
            records = without_one(records, rows, at[rows], begins, ends)
        records = with_rests(records, changed) if changed else records
        return records if kept.all() else records.where(kept)

    def _judged(self, tombstones: Any, headers: Headers) -> tuple[Any, dict[bytes, Any]]:
        """Return which records stay, and for each name from which of them its headers are removed."""
        there = {name: times > 0 for name, times in headers.times.items()}
        kept, removed = np.ones(len(tombstones), bool), dict[bytes, Any]()
        for step in self.chain.steps:
            match step.predicate:
                case RecordIsTombstone():
                    holds = tombstones
                case HasHeaderKey(name):
                    holds = there[name.encode()]
                case _:
                    holds = np.ones(len(tombstones), bool)
            applies = (holds ^ (step.negate and step.predicate is not None)) & kept
            if isinstance(step.transform, Filter):
                kept &= ~applies
                continue
            for gone in map(str.encode, step.transform.names):
                removed[gone] = removed.get(gone, False) | (applies & there[gone])
                there[gone] = there[gone] & ~applies
        return kept, removed

    def rest(self, rest: memoryview, offset: int) -> memoryview | None:
        """Return what the chain makes of one record's end: the same object if it stays, None if it is dropped."""
        key, at = varint.decode(rest, 0)
        value, at = varint.decode(rest, at + max(key, 0))
        at += max(value, 0)
        if at >= len(rest):
            raise bad_record(offset)
        made = self._headers(value < 0, rest[at:], offset)
        if made is None or made is _SAME:
            return None if made is None else rest
        return memoryview(b"".join((rest[:at], made)))

    def batch(self, header: BatchHeader, batch: memoryview) -> list[memoryview] | None:
        """Return batches with what the chain leaves of a batch, at the same offsets; None if that is all of it.

        Of a dense batch they are dense; a batch with offset gaps stays one with gaps.
        """
        read = list(read_records(header, batch))
        made = [
            (record, rest) for record in read if (rest := self.rest(record.rest, record.offset)) is not None
        ]
        if len(made) == len(read) and all(rest is record.rest for record, rest in made):
            return None
        if not made:
            return []
        records = [Record(record.offset, record.timestamp, rest) for record, rest in made]
        if not header.dense:
            return [_placed(records, header.base_offset, header.last_offset_delta)]
        return [_placed(stretch, stretch[0].offset, len(stretch) - 1) for stretch in stretches(records)]

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
            texts = [str(name, "utf-8", "surrogateescape") for name in names]
            found = self.chain.kept(tombstone, texts)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[tombstone, names] = found
        return found


_SAME = b"same"
_UNKNOWN = (-1,)


def _places(headers: Headers, removed: Mapping[bytes, Any], rows: Any) -> tuple[Any, Any]:
    """Return from where to where the one header that is removed lies, in each of these records."""
    begins, ends = np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    for name, mask in removed.items():
        here = mask[rows]
        begins[here], ends[here] = headers.begins[name][rows[here]], headers.ends[name][rows[here]]
    return begins, ends


def _named(block: memoryview, offset: int) -> tuple[Names, list[tuple[int, int]]]:
    """Return the names of encoded headers, and where each header lies.  Raises FormatError if they cannot be read."""
    try:
        count, at = varint.decode(block, 0)
        names, places = [], []
        for _ in range(count):
            start = at
            size, at = varint.decode(block, at)
            if size < 0:
                raise bad_record(offset)
            names.append(bytes(block[at : at + size]))
            value, at = varint.decode(block, at + size)
            at += max(value, 0)
            places.append((start, at))
    except (IndexError, FormatError):
        raise bad_record(offset) from None
    if at != len(block) or count < 0:
        raise bad_record(offset)
    return tuple(names), places


def _placed(records: Sequence[Record], base: int, last_delta: int) -> memoryview:
    """Build an uncompressed batch of records at their own offsets, from `base` to `base + last_delta`."""
    earliest = records[0].timestamp
    parts: list[bytes | memoryview] = []
    for offset, timestamp, rest in records:
        time, number = varint.encode(timestamp - earliest), varint.encode(offset - base)
        parts += (varint.encode(1 + len(time) + len(number) + len(rest)), b"\x00", time, number, rest)
    latest = max(record.timestamp for record in records)
    batch = headed(b"".join(parts), NONE, len(records), earliest, latest)
    rewrite(batch, base_offset=base, last_offset_delta=last_delta)
    return batch
