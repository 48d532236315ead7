"""Compress and decompress record batches in the five codecs, framed as Kafka's own clients frame them.

gzip, zstd: their ordinary streams.  lz4: frames of independent 64 KiB blocks, because Java's `Lz4BlockInputStream`
refuses dependent ones.  snappy: the xerial stream (magic, version, blocks with an int32 length) that snappy-java
writes; a raw snappy block, as some clients produce it, can be read too.

A few kilobytes can decompress to gigabytes, so one batch is never decompressed to more than MAX_DECOMPRESSED bytes.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from contextlib import suppress

import cramjam
import numpy as np

from twinlog.errors import FormatError

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4
NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
NUMBERS = {name: codec for codec, name in NAMES.items()}

MAX_DECOMPRESSED = 128 * 1024 * 1024
"""The most bytes that one batch may decompress to, if it has to be read: half of a worker's memory."""

_ZSTD_HARDEST = 19
_USUAL = 64 * 1024
_USUAL_RATIO = 16
_FULL = "whole buffer"
"""Part of cramjam's error message if the output does not fit into the buffer."""
_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
# The magic, version 1 with independent blocks, 64 KiB blocks, and the descriptor's checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_END = bytes(4)


def decompress(codec: int, block: memoryview) -> memoryview:
    """Return the decompressed records of a batch.

    Raises FormatError for an unknown codec, for a damaged block, and for a block of more than MAX_DECOMPRESSED bytes.
    """
    if codec == NONE:
        return block
    if codec not in NAMES:
        raise FormatError(f"unknown compression codec {codec} in a batch", code="bad-batch", codec=codec)
    try:
        if codec == SNAPPY:
            return memoryview(_unsnappy(block))
        return _inflate(_INTO[codec], block)
    except _FullError:
        why = f"it holds more than {MAX_DECOMPRESSED >> 20} MiB"
    except (cramjam.DecompressionError, struct.error) as error:
        why = str(error)
    raise FormatError(f"a {NAMES[codec]} batch cannot be decompressed: {why}", code="bad-batch")


_INTO = {
    GZIP: cramjam.gzip.decompress_into,
    LZ4: cramjam.lz4.decompress_into,
    ZSTD: cramjam.zstd.decompress_into,
}


def _inflate(into: Callable[[memoryview, memoryview], int], block: memoryview) -> memoryview:
    """Decompress into a buffer of the usual size; if that is too small into a larger one, then the largest allowed.

    The kernel provides memory pages only when they are written to, so the unused part of a buffer costs nothing.
    (Python would fill a bytearray with zeros, and so touch every page.)
    """
    usual = max(_USUAL, len(block) * _USUAL_RATIO)
    for size in (usual, usual * _USUAL_RATIO):
        if size < MAX_DECOMPRESSED:
            out = np.empty(size, np.uint8).data
            with suppress(_FullError):
                return out[: _into(into, block, out)]
    out = np.empty(MAX_DECOMPRESSED, np.uint8).data
    return out[: _into(into, block, out)]


class _FullError(Exception):
    """Report that the decompressed data does not fit into the buffer."""


def _into(into: Callable[[memoryview, memoryview], int], block: memoryview, out: memoryview) -> int:
    try:
        return into(block, out)
    except cramjam.DecompressionError as error:
        if _FULL in str(error):
            raise _FullError from None
        raise


def sound_lz4(frame: memoryview) -> memoryview:
    """Return an lz4 frame with a correct header checksum: Kafka before 0.10 computed it over the wrong bytes."""
    if bytes(frame[:6]) != _LZ4_HEADER[:6]:
        return frame
    return memoryview(_LZ4_HEADER + bytes(frame[7:]))


def compress(codec: int, records: bytes) -> bytes:
    """Compress a batch's records with `codec`, in a framing that every Kafka client can read."""
    match codec:
        case 0:
            return records
        case 1:
            return bytes(cramjam.gzip.compress(records))
        case 2:
            return _snappy(records)
        case 3:
            return _lz4(records)
        case 4:
            return bytes(cramjam.zstd.compress(records))
    raise FormatError(f"unknown compression codec {codec}", code="bad-batch", codec=codec)


def compress_hard(codec: int, records: bytes) -> bytes:
    """Compress with gzip's or zstd's highest level that needs reasonable memory (zstd's levels from 20 on do not)."""
    if codec == GZIP:
        return gzip.compress(records, 9, mtime=0)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(records, level=_ZSTD_HARDEST))
    return compress(codec, records)


def _unsnappy(block: memoryview) -> bytearray:
    if bytes(block[:8]) != _XERIAL_HEADER[:8]:
        return _unsnapped(block, 0)
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(block):
        (length,) = struct.unpack_from(">i", block, at)
        at += 4
        if not 0 <= length <= len(block) - at:
            raise struct.error(f"a piece claims {length} bytes")
        out += _unsnapped(block[at : at + length], len(out))
        at += length
    return out


def _unsnapped(piece: memoryview, before: int) -> bytearray:
    """Decompress one raw snappy block, if the length that it claims still fits; raise _FullError if not."""
    if before + cramjam.snappy.decompress_raw_len(piece) > MAX_DECOMPRESSED:
        raise _FullError
    return bytearray(cramjam.snappy.decompress_raw(piece))


def _snappy(records: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(records), _XERIAL_BLOCK):
        piece = bytes(cramjam.snappy.compress_raw(records[at : at + _XERIAL_BLOCK]))
        out += struct.pack(">i", len(piece)) + piece
    return bytes(out)


def _lz4(records: bytes) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for at in range(0, len(records), _LZ4_BLOCK):
        raw = records[at : at + _LZ4_BLOCK]
        piece = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        if len(piece) < len(raw):
            out += struct.pack("<I", len(piece)) + piece
        else:
            out += struct.pack("<I", len(raw) | _LZ4_STORED) + raw
    return bytes(out + _LZ4_END)
