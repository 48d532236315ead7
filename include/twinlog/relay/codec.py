"""The five codecs of a record batch, framed as Kafka's own clients frame them.

gzip, zstd: their ordinary streams.  lz4: frames of independent 64 KiB blocks, because Java's
`Lz4BlockInputStream` refuses dependent ones.  snappy: the xerial stream (magic, version, blocks with an int32
length) that snappy-java writes; a raw snappy block, as some clients produce it, is read too.
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

from twinlog.errors import FormatError

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4
NAMES: Final = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 * 1024
# Magic, version 1 with independent blocks, 64 KiB blocks, and the descriptor's checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_END = bytes(4)


def decompress(codec: int, block: memoryview) -> memoryview:
    """Return the records of a batch uncompressed.  Raises FormatError for an unknown codec or damaged block."""
    try:
        match codec:
            case 0:
                return block
            case 1:
                return memoryview(bytes(cramjam.gzip.decompress(block)))
            case 2:
                return memoryview(_unsnappy(block))
            case 3:
                return memoryview(bytes(cramjam.lz4.decompress(block)))
            case 4:
                return memoryview(bytes(cramjam.zstd.decompress(block)))
    except (cramjam.DecompressionError, struct.error) as error:
        raise FormatError(
            f"a {NAMES[codec]} batch cannot be decompressed: {error}", code="bad-batch"
        ) from None
    raise FormatError(f"unknown compression codec {codec} in a batch", code="bad-batch", codec=codec)


def compress(codec: int, records: bytes) -> bytes:
    """Compress a batch's records with `codec`, so that every Kafka client can read them."""
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


def _unsnappy(block: memoryview) -> bytes:
    if bytes(block[:8]) != _XERIAL_HEADER[:8]:
        return bytes(cramjam.snappy.decompress_raw(block))
    out = bytearray()
    at = len(_XERIAL_HEADER)
    while at < len(block):
        (length,) = struct.unpack_from(">i", block, at)
        at += 4
        out += bytes(cramjam.snappy.decompress_raw(block[at : at + length]))
        at += length
    return bytes(out)


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
