"""Copy many pieces of one buffer to places in another, thousands in a few array operations (gather copy).

Each piece is copied as two blocks whose size is the largest power of two that fits the piece: one from its beginning,
one up to its end.  The two blocks overlap:

    piece of 11 bytes   0 1 2 3 4 5 6 7 8 9 10
    first block of 8    [-------------]
    second block of 8         [--------------]

The blocks of all pieces with the same power are items of one array, and numpy moves them in one operation.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

Int64s = Any
"""A one-dimensional array of int64."""

_LARGE: Final = 4096
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
