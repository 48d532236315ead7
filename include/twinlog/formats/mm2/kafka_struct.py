"""Encode and decode Kafka's Structs as MM2 uses them: big-endian integers, strings with an int16 byte length.

Readers ignore bytes after the last field, as Kafka's do.
"""

from __future__ import annotations

import struct

from twinlog.errors import FormatError

_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
MAX_STRING_BYTES = 32767


def string(text: str) -> bytes:
    """Encode a STRING.  Raises FormatError beyond 32767 bytes of UTF-8."""
    data = text.encode()
    if len(data) > MAX_STRING_BYTES:
        raise FormatError(f"a string of {len(data)} bytes does not fit; the limit is {MAX_STRING_BYTES}")
    return int16(len(data)) + data


def int16(number: int) -> bytes:
    """Encode an INT16.  Raises FormatError if it does not fit."""
    return _pack(_INT16, number)


def int32(number: int) -> bytes:
    """Encode an INT32.  Raises FormatError if it does not fit."""
    return _pack(_INT32, number)


def int64(number: int) -> bytes:
    """Encode an INT64.  Raises FormatError if it does not fit."""
    return _pack(_INT64, number)


class StructReader:
    """Read one field after another; raises FormatError, naming `what` is read, if the bytes do not hold it."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data = data
        self.what = what
        self.position = 0

    def string(self) -> str:
        """Read a STRING."""
        length = self.int16()
        if length < 0:
            raise self.error(f"has a string of length {length}")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise self.error("has a string that is not UTF-8") from None

    def int16(self) -> int:
        """Read an INT16."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read an INT32."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read an INT64."""
        return self._number(_INT64)

    def version(self, known: int) -> None:
        """Read a version (INT16).  Raises FormatError, with the version, for any but the `known` one."""
        version = self.int16()
        if version != known:
            raise self.error(f"has version {version}; only version {known} is known")

    def error(self, why: str) -> FormatError:
        """Return the error for these bytes."""
        return FormatError(f"{self.what} {why}", position=self.position, bytes=self.data.hex())

    def _number(self, codec: struct.Struct) -> int:
        number: int = codec.unpack(self._take(codec.size))[0]
        return number

    def _take(self, size: int) -> bytes:
        taken = self.data[self.position : self.position + size]
        if len(taken) < size:
            raise self.error(f"ends after {len(self.data)} bytes, in the middle of a field")
        self.position += size
        return taken


def _pack(codec: struct.Struct, number: int) -> bytes:
    try:
        return codec.pack(number)
    except struct.error:
        raise FormatError(f"{number} does not fit into {codec.size} bytes") from None
