"""Write a large ledger record in parts, and read it whole or not at all.

    each part   key ["part", id, number], value: a stretch of the record's value, compressed (zlib)
    the record  under its own key: {"version":2,"parts":{"id":..,"count":..,"bytes":..,"crc":..}}

Parts come before their record in the ledger's single partition, and in the same transaction if there is one.  A reader
that sees the record sees all parts; a reader that sees only some parts still sees the earlier record.  An id (the time
in ms, then a digest) belongs to one writing: parts are never replaced, and no two writers share parts.  Parts that no
record names are left over: their record was written again or forgotten, or their writer died before the record.

A release that does not know parts stops at version 2, and its error names the version.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from hashlib import sha256

from crc32c import crc32c

from twinlog.errors import FormatError
from twinlog.formats.mm2.connect_offset import json_bytes
from twinlog.jsonable import from_json

LARGEST_VALUE = 256 * 1024
"""The most bytes of a record's value in one part, uncompressed: a quarter of Kafka's default max.message.bytes."""

LEFT_OVER_MS = 3_600_000
"""From this age (ms) of a part on, no writer can still be about to write its record."""

KIND = "part"
_PART = b'["part",'
_SPLIT = b'{"version":2,"parts":'


def in_parts(key: bytes, value: bytes | None, now_ms: int) -> Iterator[tuple[bytes, bytes | None]]:
    """Yield the writes for a record, in order: the record, or a large one's parts and the record naming them."""
    if value is None or len(value) <= LARGEST_VALUE:
        yield key, value
        return
    packed = zlib.compress(value)
    name = f"{now_ms}-{sha256(key + value).hexdigest()[:16]}"
    starts = range(0, len(packed), LARGEST_VALUE)
    for number, start in enumerate(starts):
        yield json_bytes([KIND, name, number]), packed[start : start + LARGEST_VALUE]
    told = {"id": name, "count": len(starts), "bytes": len(value), "crc": crc32c(value)}
    yield key, _SPLIT + json_bytes(told) + b"}"


def is_part(key: bytes) -> bool:
    """Say whether a record is a part of another."""
    return key.startswith(_PART)


def is_split(value: bytes) -> bool:
    """Say whether a record's value names the parts that hold it."""
    return value.startswith(_SPLIT)


def part_keys(value: bytes) -> list[bytes]:
    """Return the keys of a record's parts, in order.  Raises FormatError."""
    told = _told(value)
    return [json_bytes([KIND, told["id"], number]) for number in range(told["count"])]


def joined(key: bytes, value: bytes, latest: Mapping[bytes, bytes | None]) -> bytes:
    """Join a record's value from the parts that `value` names; `latest` holds the ledger's values by key.

    Raises FormatError if a part is missing, or if the joined parts are not what was written.
    """
    told = _told(value)
    parts = [latest.get(name) for name in part_keys(value)]
    found = [part for part in parts if part is not None]
    if len(found) < len(parts):
        raise FormatError(
            f"ledger record {key.decode(errors='replace')} has {len(found)} of its {len(parts)} parts",
            hint="find out who deleted records of the ledger; nothing is done by half a record",
            bytes=value.hex(),
        )
    try:
        whole = zlib.decompress(b"".join(found), bufsize=told["bytes"] + 1)
    except zlib.error:
        whole = b""
    if (len(whole), crc32c(whole)) != (told["bytes"], told["crc"]):
        raise FormatError(
            f"the parts of ledger record {key.decode(errors='replace')} are not what was written",
            hint="find out who writes to the ledger; nothing is done by a damaged record",
            bytes=value.hex(),
        )
    return whole


def is_over(part: bytes, now_ms: int) -> bool:
    """Say whether the writing of a part has ended, well or not; also True for a part that twinlog did not write."""
    try:
        at_ms = int(from_json(part)[1].split("-")[0])
    except (ValueError, LookupError, AttributeError):
        return True
    return now_ms - at_ms > LEFT_OVER_MS


def _told(value: bytes) -> Mapping[str, int]:
    try:
        told = from_json(value)["parts"]
        good = isinstance(told["id"], str) and all(
            type(told[name]) is int and told[name] >= 0 for name in ("count", "bytes", "crc")
        )
    except (ValueError, LookupError, TypeError):
        good = False
    if not good:
        raise FormatError(
            "a ledger record does not name its parts as this release knows it", bytes=value.hex()
        )
    return dict(told)
