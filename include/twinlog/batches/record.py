"""Read records one by one from a batch, and write records into one.

Used for few records (`few`), for message formats v0 and v1 (`twinlog.protocol.legacy`) and for the records that
twinlog itself writes.  Larger numbers of records go through `columns` and `building`.

A record is `length varint | attributes int8 | timestampDelta varlong | offsetDelta varint | the rest`.  The rest
(key, value, headers) is carried as a slice and never inspected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from twinlog.batches import varint
from twinlog.batches.codec import compress, decompress
from twinlog.batches.header import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, headed
from twinlog.errors import FormatError

_RECORD_ATTRIBUTES = b"\x00"
_ENCODED = varint.encode

Headers = tuple[tuple[str, bytes | None], ...]
"""Headers of a record, in order."""


class Record(NamedTuple):
    """One record: upstream offset, timestamp (ms) as a consumer sees it, and key, value and headers as encoded."""

    offset: int
    timestamp: int
    rest: memoryview


def read_records(header: BatchHeader, batch: memoryview) -> Iterator[Record]:
    """Yield the records of a batch.

    Under LogAppendTime every record has the batch's maxTimestamp, as a consumer sees it.  Raises FormatError if the
    block does not hold exactly `header.record_count` records.
    """
    block = decompress(header.codec, batch[HEADER_BYTES:])
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    at, end, decode = 0, len(block), varint.decode
    for _ in range(header.record_count):
        length, start = decode(block, at)
        at = start + length
        if length < 1 or at > end:
            raise FormatError(
                f"record block of the batch at upstream offset {base_offset} ends inside a record",
                code="bad-record",
                offset=base_offset,
            )
        delta, here = decode(block, start + 1)
        offset_delta, here = decode(block, here)
        timestamp = base_timestamp + delta if append_time is None else append_time
        yield Record(base_offset + offset_delta, timestamp, block[here:at])
    if at != end:
        raise FormatError(
            f"batch at upstream offset {base_offset} has {end - at} bytes behind its last record",
            code="bad-record",
            offset=base_offset,
        )


def build_batch(records: Sequence[Record], codec: int) -> memoryview:
    """Build one dense CreateTime batch of `records` (at least one), with base offset 0 and no producer.

    The result is writable: `twinlog.batches.relabel` gives it its producer and sequence when it is sent.
    """
    base = records[0].timestamp
    latest = max(record.timestamp for record in records)
    parts: list[bytes | memoryview] = []
    for delta, (_, timestamp, rest) in enumerate(records):
        time, number = _ENCODED(timestamp - base), _ENCODED(delta)
        parts += (_ENCODED(1 + len(time) + len(number) + len(rest)), _RECORD_ATTRIBUTES, time, number, rest)
    return headed(compress(codec, b"".join(parts)), codec, len(records), base, latest)


def stretches(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """Cut records into stretches whose offsets follow one another."""
    first = 0
    for index in range(1, len(records) + 1):
        if index == len(records) or records[index].offset != records[index - 1].offset + 1:
            yield records[first:index]
            first = index


def record_rest(key: bytes | None, value: bytes | None, headers: Headers = ()) -> memoryview:
    """Encode key, value and headers as the end of a record, for records that twinlog itself writes."""
    return memoryview(_nullable(key) + _nullable(value) + _ENCODED(len(headers)) + _headers(headers))


def key_and_value(record: Record) -> tuple[bytes | None, bytes | None]:
    """Decode key and value of a record, for twinlog's own topics only."""
    key, at = nullable_at(record.rest, 0)
    value, _ = nullable_at(record.rest, at)
    return key, value


def key_value_headers(rest: memoryview) -> tuple[bytes | None, bytes | None, Headers]:
    """Decode the end of a record.  Raises FormatError if it is malformed."""
    key, value, headers, _ = fields_at(rest)
    return key, value, tuple((str(name, "utf-8", "backslashreplace"), content) for name, content in headers)


def fields_at(
    rest: memoryview | bytes,
) -> tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]], int]:
    """Return key, value and headers of a record's end, names as bytes, and where they end.

    Raises FormatError if a field does not fit.
    """
    key, at = nullable_at(rest, 0)
    value, at = nullable_at(rest, at)
    count, at = varint.decode(rest, at)
    headers = []
    for _ in range(count):
        name, at = nullable_at(rest, at)
        content, at = nullable_at(rest, at)
        headers.append((name or b"", content))
    return key, value, headers, at


def nullable_at(block: memoryview | bytes, at: int) -> tuple[bytes | None, int]:
    """Return the bytes behind their length at `at`, None for a null, and where they end.

    Raises FormatError if the block ends before.
    """
    length, at = varint.decode(block, at)
    if length < 0:
        return None, at
    if at + length > len(block):
        raise FormatError("record ends inside one of its fields", code="bad-record")
    return bytes(block[at : at + length]), at + length


def _headers(headers: Headers) -> bytes:
    return b"".join(_nullable(name.encode()) + _nullable(content) for name, content in headers)


def _nullable(content: bytes | None) -> bytes:
    return _ENCODED(-1) if content is None else _ENCODED(len(content)) + content
