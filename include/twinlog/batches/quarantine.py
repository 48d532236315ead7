"""Write records that the target cannot hold to the quarantine topic, with their origin, so that they are not lost.

They go to `mm2-quarantine.<source>.internal` (named so that neither MM2 nor twinlog replicates it), in the data's
transaction.  Key, value and headers stay unchanged.  Behind the record's own headers stand

    twinlog.topic, twinlog.partition, twinlog.offset    the record's origin (upstream)
    twinlog.topic.id                                    the topic's incarnation
    twinlog.timestamp                                   its timestamp (ms); the written record has the present time
    twinlog.reason                                      why the target refused it
    twinlog.part                                        "1/3" if the value had to be split: join the parts in order

A value too large for one record is split, not cut off: nothing is lost.  Its key and own headers go with the first
part.  A record whose key and headers alone are too large cannot be quarantined, and ends its partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinlog.batches.build import LARGEST_PREFIX
from twinlog.batches.header import HEADER_BYTES
from twinlog.batches.outgoing import Outgoing, Stretches
from twinlog.batches.record import Headers, Record, build_batch, key_value_headers, record_rest
from twinlog.errors import FormatError

_ORIGIN = (
    "twinlog.topic",
    "twinlog.topic.id",
    "twinlog.partition",
    "twinlog.offset",
    "twinlog.timestamp",
    "twinlog.reason",
)
_PART = "twinlog.part"

_ROOM = HEADER_BYTES + LARGEST_PREFIX + 2 * 5 + 5 + 32
"""Bytes of a batch of one record, apart from key, value and headers but including the header `twinlog.part`."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One record that the target cannot hold, and its origin."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    timestamp_ms: int
    rest: bytes
    reason: str


def parts(record: Captured, max_message_bytes: int) -> Iterator[memoryview]:
    """Write a record as ends of records (key, value, headers), each small enough for a batch of its own.

    Raises FormatError if its key and headers alone are too large.
    """
    key, value, headers = key_value_headers(memoryview(record.rest))
    origin = _origin(record)
    whole = record_rest(key, value, (*headers, *origin))
    if len(whole) + _ROOM <= max_message_bytes:
        yield whole
        return
    room = max_message_bytes - _ROOM - len(record_rest(key, None, (*headers, *origin)))
    if room <= 0 or value is None:
        raise FormatError(
            f"{record.topic}-{record.partition} at upstream offset {record.offset}: key and headers alone do not fit"
            f" a record of {max_message_bytes} bytes",
            code="quarantine",
            offset=record.offset,
        )
    count = -(-len(value) // room)
    for number in range(count):
        part = (_PART, b"%d/%d" % (number + 1, count))
        piece = value[number * room : (number + 1) * room]
        first = number == 0
        yield record_rest(key if first else None, piece, (*(headers if first else ()), *origin, part))


def batches(records: Iterable[Captured], max_message_bytes: int, now_ms: int) -> Iterator[Outgoing]:
    """Build a batch for each record, or for each part of a split record, in order."""
    for record in records:
        for rest in parts(record, max_message_bytes):
            yield Outgoing.built(build_batch([Record(0, now_ms, rest)], 0), Stretches(0, [0, 0, 1]))


def _origin(it: Captured) -> Headers:
    values = (it.topic, it.topic_id, it.partition, it.offset, it.timestamp_ms, it.reason)
    return tuple((name, str(value).encode()) for name, value in zip(_ORIGIN, values, strict=True))
