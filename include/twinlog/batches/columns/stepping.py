"""Find where records begin, by stepping from length to length: the one part of reading that is sequential."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from twinlog.batches.columns.pieces import Int64s

MAX_VARINT: Final = 5

_LOW_HALF: Final = tuple(2 + ((low & 0x7F) >> 1) for low in range(256))
"""By the first byte of a length of two bytes: its share of the step to the next record."""

_ABREAST: Final = 32
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
