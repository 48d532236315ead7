"""Take records apart into key, value and headers by column, with numpy.

A record's rest is `key length varint | key | value length varint | value | headers`; a null key or value has length -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from twinlog.batches.columns import MAX_VARINT, Columns, Int64s, read_varints
from twinlog.batches.transform.header_columns import bad_record, require


def values_and_headers(records: Columns) -> tuple[Int64s, Int64s]:
    """Return the lengths of values, negative for null, and where the headers of each record begin.

    Raises FormatError for a record whose parts reach beyond its end.
    """
    data = np.frombuffer(records.data, np.uint8)
    try:
        key_sizes, keys = read_varints(data, records.starts, MAX_VARINT)
        value_sizes, values = read_varints(data, keys + np.maximum(key_sizes, 0), MAX_VARINT)
    except (IndexError, OverflowError):
        raise bad_record(int(records.offsets[0])) from None
    headers = values + np.maximum(value_sizes, 0)
    require(records, np.arange(len(records)), headers < records.ends)
    return value_sizes, headers


def with_rests(records: Columns, changed: Sequence[tuple[int, bytes]]) -> Columns:
    """Return the records with other ends at some indices: the new ends lie behind the data."""
    indices = np.array([index for index, _ in changed], np.int64)
    sizes = np.array([len(rest) for _, rest in changed], np.int64)
    data = memoryview(b"".join((records.data, *(rest for _, rest in changed))))
    starts, ends = records.starts.copy(), records.ends.copy()
    ends[indices] = len(records.data) + np.cumsum(sizes)
    starts[indices] = ends[indices] - sizes
    return Columns(data, records.offsets, records.timestamps, starts, ends, records.batches)
