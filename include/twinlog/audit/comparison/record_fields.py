"""Decode a record's key, value and headers, and name what differs between two records.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from twinlog.audit.comparison.values import Excerpt
from twinlog.batches import varint
from twinlog.batches.header import BatchHeader
from twinlog.batches.record import fields_at, nullable_at, read_records
from twinlog.errors import FormatError
from twinlog.formats.ledger.audit import DifferenceKind

SHOWN_BYTES = 200


class RawRecord(NamedTuple):
    """One record: its offset on its side, its timestamp (ms) as a consumer sees it, and the encoded rest."""

    offset: int
    timestamp: int
    rest: bytes

    @property
    def content(self) -> tuple[int, bytes]:
        """Return all that a copy must keep."""
        return self.timestamp, self.rest


@dataclass(frozen=True, slots=True)
class Fields:
    """Tell what a consumer sees of a record beside offset and timestamp; headers are in order, names may repeat."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def records_of(header: BatchHeader, batch: memoryview) -> Iterator[RawRecord]:
    """Yield the records of a batch, copied out of it.  Raises FormatError if the batch is damaged."""
    for offset, timestamp, rest in read_records(header, batch):
        yield RawRecord(offset, timestamp, bytes(rest))


def key_of(rest: bytes) -> bytes | None:
    """Decode the key alone."""
    return nullable_at(rest, 0)[0]


def is_tombstone(rest: bytes) -> bool:
    """Say whether the value is null."""
    _, at = nullable_at(rest, 0)
    return varint.decode(rest, at)[0] < 0


def fields_of(rest: bytes) -> Fields:
    """Decode key, value and headers.  Raises FormatError if they do not end where the record ends."""
    key, value, headers, at = fields_at(rest)
    if at != len(rest):
        raise FormatError(f"record has {len(rest) - at} bytes behind its headers", code="bad-record")
    return Fields(key, value, tuple(headers))


def differing(left: RawRecord, right: RawRecord) -> tuple[DifferenceKind, ...]:
    """Name the fields that differ: key, value, headers, timestamp, in this order; () for equal records."""
    kinds = []
    if left.rest != right.rest:
        ours, theirs = fields_of(left.rest), fields_of(right.rest)
        kinds = [
            kind
            for kind, name in (
                (DifferenceKind.KEY, "key"),
                (DifferenceKind.VALUE, "value"),
                (DifferenceKind.HEADERS, "headers"),
            )
            if getattr(ours, name) != getattr(theirs, name)
        ]
    if left.timestamp != right.timestamp:
        kinds.append(DifferenceKind.TIMESTAMP)
    return tuple(kinds)


def excerpt(record: RawRecord) -> Excerpt:
    """Show a record: its key, its value and ten headers."""
    fields = fields_of(record.rest)
    return Excerpt(
        key=shown(fields.key),
        value=shown(fields.value),
        headers=tuple((shown(name) or "", shown(content)) for name, content in fields.headers[:10]),
        timestamp=record.timestamp,
    )


def shown(content: bytes | None) -> str | None:
    """Write bytes as JSON text if they are printable text, else as `0x...`; at most SHOWN_BYTES of them."""
    if content is None:
        return None
    head, more = content[:SHOWN_BYTES], len(content) - SHOWN_BYTES
    try:
        text = head.decode()
        written = json.dumps(text, ensure_ascii=False) if text.isprintable() else f"0x{head.hex()}"
    except UnicodeDecodeError:
        written = f"0x{head.hex()}"
    return written + (f" and {more} bytes more" if more > 0 else "")
