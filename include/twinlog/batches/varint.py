"""Encode and decode zigzag varints of the record format (org.apache.kafka.common.utils.ByteUtils)."""

from __future__ import annotations

from twinlog.errors import FormatError

_SMALL = tuple(bytes([value]) for value in range(128))


def encode(value: int) -> bytes:
    """Encode a signed integer of up to 64 bits."""
    zigzag = (value << 1) if value >= 0 else ((-value << 1) - 1)
    if zigzag < 0x80:
        return _SMALL[zigzag]
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def decode(buffer: bytes | memoryview, at: int) -> tuple[int, int]:
    """Decode a varint at `at`; return its value and the position behind it.  Raises FormatError if it is cut off."""
    shift = value = 0
    try:
        while True:
            byte = buffer[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1), at
            shift += 7
            if shift > 63:
                raise FormatError("varint of more than 10 bytes in a record", code="bad-record")
    except IndexError:
        raise FormatError("record block ends inside a varint", code="bad-record") from None
