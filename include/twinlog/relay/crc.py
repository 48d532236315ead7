"""CRC-32C of a batch whose header changed, without reading the batch.

A CRC is linear: crc(new) = crc(old) xor raw(old xor new), where `raw` is the CRC register started at zero.
Old and new differ only in the first bytes that the CRC covers, so the difference is followed by zeros, and
feeding n zero bytes into a register is a linear map that n's binary digits compose.

Two things follow.  Relabelling a batch costs the same whatever its size.  And the checksum its producer made
travels on: a batch damaged between the source's disk and the target's socket is refused by the target, where
a checksum computed anew would have blessed the damage.
"""

from __future__ import annotations

from crc32c import crc32c

_POLYNOMIAL = 0x82F63B78
"""Castagnoli, reflected (RFC 3720)."""

_MAX_LENGTH_BITS = 31


def _one_zero_byte(register: int) -> int:
    for _ in range(8):
        register = (register >> 1) ^ (_POLYNOMIAL if register & 1 else 0)
    return register


def _tables(images: list[int]) -> tuple[list[int], ...]:
    """Turn a linear map, given as the images of the 32 single bits, into one table per register byte."""
    result = []
    for byte in range(4):
        table = [0] * 256
        for value in range(1, 256):
            low = value & -value
            table[value] = table[value ^ low] ^ images[8 * byte + low.bit_length() - 1]
        result.append(table)
    return tuple(result)


def _apply(tables: tuple[list[int], ...], register: int) -> int:
    return (
        tables[0][register & 0xFF]
        ^ tables[1][register >> 8 & 0xFF]
        ^ tables[2][register >> 16 & 0xFF]
        ^ tables[3][register >> 24]
    )


def _powers() -> list[tuple[list[int], ...]]:
    """`_powers()[k]` appends 2**k zero bytes; each is the square of the one before."""
    images = [_one_zero_byte(1 << bit) for bit in range(32)]
    powers = [_tables(images)]
    for _ in range(_MAX_LENGTH_BITS - 1):
        images = [_apply(powers[-1], image) for image in images]
        powers.append(_tables(images))
    return powers


_APPEND_ZEROS = _powers()


def append_zeros(register: int, length: int) -> int:
    """Return the CRC register after `length` further zero bytes."""
    bit = 0
    while length:
        if length & 1:
            t0, t1, t2, t3 = _APPEND_ZEROS[bit]
            register = (
                t0[register & 0xFF]
                ^ t1[register >> 8 & 0xFF]
                ^ t2[register >> 16 & 0xFF]
                ^ t3[register >> 24]
            )
        length >>= 1
        bit += 1
    return register


def changed_head(crc: int, old_head: bytes, new_head: bytes, unchanged: int) -> int:
    """Return the CRC of (new_head + tail), given that of (old_head + tail).

    Heads are of equal length; `unchanged` is the length of the tail in bytes, which is not looked at.
    """
    return crc ^ append_zeros(crc32c(old_head) ^ crc32c(new_head), unchanged)
