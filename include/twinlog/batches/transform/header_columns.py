"""Find headers by their names in many records at once, with numpy.

A record's rest ends in `count varint | (name length varint | name | value length varint | value)*`.  The first header
of all records is read at once, then the second of those that have one, and so on.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from twinlog.batches.columns import MAX_VARINT, Columns, Int64s, copy_pieces, read_varints
from twinlog.errors import FormatError

MOST = 32
"""Records with more headers are left to be read one by one; up to here a count is one byte."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Tell, for each name, how often each record has it, and where the last header of that name lies, from and to.

    `others` are the indices of the records with more than MOST headers: nothing is told of them.
    """

    times: Mapping[bytes, Any]
    begins: Mapping[bytes, Int64s]
    ends: Mapping[bytes, Int64s]
    others: Int64s


def read_headers(records: Columns, at: Int64s, names: Collection[bytes]) -> Headers:
    """Find the headers with one of `names`; the headers of each record begin `at`, with their count.

    Raises FormatError if the headers of a record do not end where the record ends.
    """
    times, begins, ends = ({name: np.zeros(len(records), np.int64) for name in names} for _ in range(3))
    found = Headers(times, begins, ends, np.empty(0, np.int64))
    data = np.frombuffer(records.data, np.uint8)
    try:
        counts, here = read_varints(data, at, MAX_VARINT)
        require(records, np.arange(len(records)), (counts >= 0) & ((counts > 0) | (here == records.ends)))
        rows = np.flatnonzero((counts > 0) & (counts <= MOST))
        here = here[rows]
        for number in range(1, MOST + 1):
            if not len(rows):
                break
            here = _one_header(records, data, rows, here, found)
            last = counts[rows] == number
            require(records, rows[last], here[last] == records.ends[rows[last]])
            rows, here = rows[~last], here[~last]
    except (IndexError, OverflowError):
        raise bad_record(int(records.offsets[0])) from None
    return Headers(times, begins, ends, np.flatnonzero(counts > MOST))


def _one_header(records: Columns, data: Any, rows: Int64s, begin: Int64s, found: Headers) -> Int64s:
    """Read one header of each of these records, which begins there; return where it ends."""
    sizes, name = read_varints(data, begin, MAX_VARINT)
    require(records, rows, (sizes >= 0) & (name + sizes < records.ends[rows]))
    values, behind = read_varints(data, name + sizes, MAX_VARINT)
    end = behind + np.maximum(values, 0)
    require(records, rows, end <= records.ends[rows])
    for wanted, times in found.times.items():
        like = np.flatnonzero(sizes == len(wanted))
        text = data[name[like][:, None] + np.arange(len(wanted))]
        these = like[(text == np.frombuffer(wanted, np.uint8)).all(axis=1)]
        times[rows[these]] += 1
        found.begins[wanted][rows[these]] = begin[these]
        found.ends[wanted][rows[these]] = end[these]
    return end


def without_one(records: Columns, rows: Int64s, at: Int64s, begins: Int64s, ends: Int64s) -> Columns:
    """Return the records without one header in each of `rows`; it lies from `begins` to `ends`, the count `at`."""
    from_, to = records.starts[rows], records.ends[rows]
    sizes = to - from_ - (ends - begins)
    before = (
        0 if len(rows) == len(records) else len(records.data)
    )  # records that stay as they are keep their bytes
    data = memoryview(bytearray(before + int(sizes.sum())))
    data[:before] = records.data[:before]
    new_starts = before + np.cumsum(sizes) - sizes
    copy_pieces(records.data, from_, begins, data, new_starts)
    copy_pieces(records.data, ends, to, data, new_starts + (begins - from_))
    np.frombuffer(data, np.uint8)[new_starts + (at - from_)] -= 2  # one less, in zigzag
    starts, stops = records.starts.copy(), records.ends.copy()
    starts[rows], stops[rows] = new_starts, new_starts + sizes
    return Columns(data, records.offsets, records.timestamps, starts, stops, records.batches)


def require(records: Columns, rows: Int64s, holds: Any) -> None:
    """Raise FormatError for the first of the records at `rows` of which a mask says no."""
    wrong = np.flatnonzero(~holds)
    if len(wrong):
        raise bad_record(int(records.offsets[rows[wrong[0]]]))


def bad_record(offset: int) -> FormatError:
    """Return the error for a record whose parts are not where their lengths say."""
    return FormatError(f"record at upstream offset {offset} cannot be read", code="bad-record", offset=offset)
