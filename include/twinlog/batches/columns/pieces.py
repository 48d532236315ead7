"""Copy many pieces of one buffer to places in another, thousands in a few array operations.

A piece is copied as two blocks of the largest power of two that it holds: one from its beginning, one up to its end.
They overlap, and of all pieces whose size has the same power the blocks are items of one array, which numpy moves in
one operation.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Int64s = Any
"""A one-dimensional array of int64."""

_LARGE: Final = 4096
"""Pieces from this size on (bytes) are copied one by one: an array of them would be a copy more."""


def copy_pieces(source: memoryview, starts: Int64s, ends: Int64s, into: memoryview, at: Int64s) -> None:
    """Copy `source[starts[i]:ends[i]]` to `at[i]` in `into`, for all i.

    Raises IndexError for a piece that lies beyond either buffer.
    """
    sizes = ends - starts
    powers = np.frexp(sizes.astype(np.float64))[1] - 1  # of the largest power of two within; -1 for nothing
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
    """Every block of `size` bytes in a buffer, by where it begins."""
    return np.ndarray((max(len(buffer) - size + 1, 0),), f"V{size}", buffer, strides=(1,))
