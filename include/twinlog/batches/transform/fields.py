"""Take records apart into key, value and headers by column, and give them other values, with numpy.

A record's rest is `key length varint | key | value length varint | value | headers`; a null key or value has length -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.build import varint_bytes, write_varints, zigzag
from twinlog.batches.columns import MAX_VARINT, Columns, Int64s, read_varints
from twinlog.batches.transform.header_columns import bad_record


@dataclass(frozen=True, slots=True)
class Fields:
    """Tell where keys, values and headers lie; the length of a null key or value is negative."""

    keys: Int64s
    key_sizes: Int64s
    value_lengths: Int64s
    values: Int64s
    value_sizes: Int64s
    headers: Int64s

    @classmethod
    def of(cls, records: Columns) -> Fields:
        """Find the fields of records.  Raises FormatError for a record whose parts reach beyond its end."""
        data = np.frombuffer(records.data, np.uint8)
        try:
            key_sizes, keys = read_varints(data, records.starts, MAX_VARINT)
            value_lengths = keys + np.maximum(key_sizes, 0)
            value_sizes, values = read_varints(data, value_lengths, MAX_VARINT)
            headers = values + np.maximum(value_sizes, 0)
        except (IndexError, OverflowError):
            raise bad_record(int(records.offsets[0])) from None
        beyond = np.flatnonzero(headers >= records.ends)
        if len(beyond):
            raise bad_record(int(records.offsets[beyond[0]]))
        return cls(keys, key_sizes, value_lengths, values, value_sizes, headers)


def with_rests(records: Columns, changed: Sequence[tuple[int, bytes]]) -> Columns:
    """Return the records with other ends at some indices: the new ends lie behind the data."""
    indices = np.array([index for index, _ in changed], np.int64)
    sizes = np.array([len(rest) for _, rest in changed], np.int64)
    data = memoryview(b"".join((records.data, *(rest for _, rest in changed))))
    starts, ends = records.starts.copy(), records.ends.copy()
    ends[indices] = len(records.data) + np.cumsum(sizes)
    starts[indices] = ends[indices] - sizes
    return Columns(data, records.offsets, records.timestamps, starts, ends, records.batches)


def with_values(records: Columns, fields: Fields, rows: Sequence[int], values: Sequence[bytes]) -> Columns:
    """Return the records with other values, none of them null, in some rows; the others stay as they lie."""
    data, starts, ends, lengths, headers = (
        records.data,
        *(it[rows].tolist() for it in (records.starts, records.ends, fields.value_lengths, fields.headers)),
    )
    sizes = np.fromiter(map(len, values), np.int64, len(values))
    encoded = zigzag(sizes)
    length_bytes = varint_bytes(encoded)
    written = bytearray(int(length_bytes.sum()))
    write_varints(
        np.frombuffer(written, np.uint8), np.cumsum(length_bytes) - length_bytes, encoded, length_bytes
    )
    kept = b"" if len(rows) == len(records) else data
    parts: list[Any] = [kept]
    at = 0
    for start, end, length, header, size, value in zip(
        starts, ends, lengths, headers, length_bytes.tolist(), values, strict=True
    ):
        parts += (data[start:length], written[at : at + size], value, data[header:end])
        at += size
    new_sizes = (
        fields.value_lengths[rows]
        - records.starts[rows]
        + length_bytes
        + sizes
        + records.ends[rows]
        - fields.headers[rows]
    )
    new_starts, new_ends = records.starts.copy(), records.ends.copy()
    new_ends[rows] = len(kept) + np.cumsum(new_sizes)
    new_starts[rows] = new_ends[rows] - new_sizes
    return Columns(
        memoryview(b"".join(parts)),
        records.offsets,
        records.timestamps,
        new_starts,
        new_ends,
        records.batches,
    )
