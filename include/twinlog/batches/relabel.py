"""Relabel a batch: give it a new producer and a new CRC-32C without changing, or even reading, its records.

A CRC is linear: crc(new) = crc(old) xor raw(old xor new), where `raw` is the CRC register started at zero.
Old and new differ only in the first bytes that the CRC covers, so zeros follow the difference:

    old xor new   [changed head][0 0 0 ... 0]   n zero bytes for the unchanged tail

Feeding n zero bytes into a register is a linear map, composed of the maps of n's digits.

So relabelling a batch costs the same whatever its size, and the producer's own checksum stays in effect: if a batch is
damaged between the source's disk and the target's socket, the target refuses it. A checksum computed anew would hide
the damage.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
from crc32c import crc32c

from twinlog.batches.header import CHECKED_FROM, CODEC_MASK, CRC_AT, HEADER_BYTES, TRANSACTIONAL, BatchHeader

_POLYNOMIAL = 0x82F63B78
"""The Castagnoli polynomial, reflected (RFC 3720)."""

_INVERTED = 0xFFFFFFFF
"""A checksum is its register inverted; `crc32c` inverts its input and its output."""

_READ_BITS = 12

_READ = (1 << _READ_BITS) - 1

_ZEROS = memoryview(bytes(_READ))
"""This few zero bytes are read more quickly than mapped."""

_DIGIT_BITS = 6

_DIGIT = (1 << _DIGIT_BITS) - 1
"""Mapped lengths are taken one base-64 digit at a time: one step for batches of up to 256 KiB."""

_SINGLE_BITS: Any = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))

_Map = tuple[list[int], list[int], list[int], list[int]]
"""A linear map of the register, as one table for each byte of the register."""


def append_zeros(register: int, length: int) -> int:
    """Return the CRC register after `length` further zero bytes."""
    few = length & _READ
    if few:
        register = crc32c(_ZEROS[:few], register ^ _INVERTED) ^ _INVERTED
    more, place = length >> _READ_BITS, _READ_BITS
    while more:
        digit = more & _DIGIT
        if digit:
            t0, t1, t2, t3 = _zeros(digit << place)
            register = (
                t0[register & 0xFF]
                ^ t1[register >> 8 & 0xFF]
                ^ t2[register >> 16 & 0xFF]
                ^ t3[register >> 24]
            )
        more >>= _DIGIT_BITS
        place += _DIGIT_BITS
    return register


def changed_head(crc: int, old_head: bytes | memoryview, new_head: bytes | memoryview, unchanged: int) -> int:
    """Return the CRC of (new_head + tail), given the CRC of (old_head + tail).

    The heads have equal length.  `unchanged` is the length of the tail in bytes; the tail itself is not read.
    """
    return crc ^ append_zeros(crc32c(old_head) ^ crc32c(new_head), unchanged)


@functools.cache
def _zeros(length: int) -> _Map:
    """Return the map that appends `length` zero bytes.

    Maps are made when first needed and kept, 40 KB each.  Lengths are below 2**31, so there are at most 256 maps, and
    usually 64.
    """
    registers = _SINGLE_BITS
    for bit in range(length.bit_length()):
        if length >> bit & 1:
            registers = _applied(_doubled(bit), registers)
    first, second, third, fourth = _tables(registers).tolist()
    return first, second, third, fourth


@functools.cache
def _doubled(times: int) -> Any:
    """Return the map that appends 2**times zero bytes, as one array."""
    if not times:
        return _tables(np.array([_one_zero_byte(1 << bit) for bit in range(32)], np.uint32))
    half = _doubled(times - 1)
    return _tables(_applied(half, _applied(half, _SINGLE_BITS)))


def _one_zero_byte(register: int) -> int:
    for _ in range(8):
        register = (register >> 1) ^ (_POLYNOMIAL if register & 1 else 0)
    return register


def _tables(images: Any) -> Any:
    """Turn a linear map, given as the images of the 32 single bits, into a table for each byte of a register."""
    tables = np.zeros((4, 256), np.uint32)
    for bit in range(8):
        tables[:, 1 << bit : 2 << bit] = tables[:, : 1 << bit] ^ images.reshape(4, 8)[:, bit, None]
    return tables


def _applied(tables: Any, registers: Any) -> Any:
    """Apply a map to many registers."""
    bytes_ = registers.astype("<u4").view(np.uint8).reshape(-1, 4)
    return np.bitwise_xor.reduce(tables[np.arange(4), bytes_], axis=1)


_FRONT = struct.Struct(">qiibI")

_CHECKED = struct.Struct(">hiqqqhii")

_CRC = struct.Struct(">I")

_NO_EPOCH = -1


def relabel(
    batch: memoryview,
    header: BatchHeader,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
) -> memoryview:
    """Rewrite the header of `batch` in place for (`producer_id`, `producer_epoch`, `sequence`); return `batch`.

    Base offset becomes 0 and the leader epoch -1, as a produce request requires; of the attributes only the codec
    stays, and the batch becomes part of a transaction.  Use only for batches that are dense, CreateTime, and sent
    whole: all others are read and built anew (`twinlog.batches.cutter`).  `batch` must be writable and its CRC right.
    A batch may be relabelled again if `header` is the one that it had first.
    """
    (old_crc,) = _CRC.unpack_from(batch, CRC_AT)
    attributes = header.attributes & CODEC_MASK | TRANSACTIONAL
    new_head = _CHECKED.pack(
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        sequence,
        header.record_count,
    )
    head = batch[CHECKED_FROM:HEADER_BYTES]
    crc = changed_head(old_crc, head, new_head, len(batch) - HEADER_BYTES)
    _FRONT.pack_into(batch, 0, 0, header.batch_length, _NO_EPOCH, header.magic, crc)
    head[:] = new_head
    return batch
