"""CRC-32C of a batch whose header changed, without reading the batch.

A CRC is linear: crc(new) = crc(old) xor raw(old xor new), where `raw` is the CRC register started at zero.
Old and new differ only in the first bytes that the CRC covers, so the difference is followed by zeros, and
feeding n zero bytes into a register is a linear map that the digits of n compose.

Two things follow.  Relabelling a batch costs the same whatever its size.  And the checksum its producer made
travels on: a batch damaged between the source's disk and the target's socket is refused by the target, where
a checksum computed anew would have blessed the damage.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from crc32c import crc32c

_POLYNOMIAL = 0x82F63B78
"""Castagnoli, reflected (RFC 3720)."""

_DIGITS = 8
"""Lengths are below 2**31: eight digits of base 16."""

_Map = tuple[list[int], list[int], list[int], list[int]]
"""A linear map of the register, as one table for each of its bytes."""


def _one_zero_byte(register: int) -> int:
    for _ in range(8):
        register = (register >> 1) ^ (_POLYNOMIAL if register & 1 else 0)
    return register


def _as_map(images: Any) -> _Map:
    """Turn a linear map, given as the images of the 32 single bits, into tables."""
    tables = np.zeros((4, 256), np.uint32)
    for bit in range(8):
        tables[:, 1 << bit : 2 << bit] = tables[:, : 1 << bit] ^ images.reshape(4, 8)[:, bit, None]
    first, second, third, fourth = tables.tolist()
    return first, second, third, fourth


def _applied(tables: _Map, registers: Any) -> Any:
    """Apply a map to many registers."""
    bytes_ = registers.astype("<u4").view(np.uint8).reshape(-1, 4)
    arrays = np.array(tables, np.uint32)
    return np.bitwise_xor.reduce(arrays[np.arange(4), bytes_], axis=1)


def _append_zeros() -> list[list[_Map]]:
    """`_append_zeros()[k][d]` appends d * 16**k zero bytes."""
    single = np.array([_one_zero_byte(1 << bit) for bit in range(32)], np.uint32)
    unchanged = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    result = []
    for _ in range(_DIGITS):
        step, images, maps = _as_map(single), single, [_as_map(unchanged)]
        for _ in range(1, 16):
            maps.append(_as_map(images))
            images = _applied(step, images)
        single = images
        result.append(maps)
    return result


_APPEND_ZEROS = _append_zeros()


def append_zeros(register: int, length: int) -> int:
    """Return the CRC register after `length` further zero bytes."""
    place = 0
    while length:
        digit = length & 15
        if digit:
            t0, t1, t2, t3 = _APPEND_ZEROS[place][digit]
            register = (
                t0[register & 0xFF]
                ^ t1[register >> 8 & 0xFF]
                ^ t2[register >> 16 & 0xFF]
                ^ t3[register >> 24]
            )
        length >>= 4
        place += 1
    return register


def changed_head(crc: int, old_head: bytes, new_head: bytes, unchanged: int) -> int:
    """Return the CRC of (new_head + tail), given that of (old_head + tail).

    Heads are of equal length; `unchanged` is the length of the tail in bytes, which is not looked at.
    """
    return crc ^ append_zeros(crc32c(old_head) ^ crc32c(new_head), unchanged)
