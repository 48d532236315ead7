"""Encode and decode Fetch v13: topics are named by id (KIP-516), so a recreated topic is never read as the old one.

Brokers from 3.1 on speak it; older brokers are asked by name (`twinlog.protocol.wire`).  Layout: the Kafka protocol's
FetchRequest.json and FetchResponse.json, v13, flexible (KIP-482).  A length is encoded as an unsigned varint of the
length plus one.  Every structure ends with tagged fields; twinlog sends none and skips those it receives.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping

from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.wire import (
    FETCH_HEAD,
    FETCHED_PARTITION,
    INT16,
    INT32,
    MIN_BYTES,
    Fetched,
    FetchPosition,
    FetchSession,
)

VERSION = 13
_ID_BYTES = 16
_PARTITION = struct.Struct(">iiqiqib")
_ABORTED = struct.Struct(">qqb")
_NO_TAGS = b"\x00"


def id_bytes(topic_id: str) -> bytes:
    """Return the 16 bytes of a topic id that is given as Kafka prints it."""
    return urlsafe_b64decode(topic_id + "==")


def fetch_request(
    positions: Iterable[FetchPosition],
    ids: Mapping[str, bytes],
    *,
    max_bytes: int,
    max_wait_ms: int,
    read_committed: bool,
    session: FetchSession,
    forgotten: Iterable[TopicPartition] = (),
    rack: str = "",
) -> bytes:
    """Return the body of a fetch request, behind the tagged fields that end the request header (v2)."""
    topics = grouped(
        (
            position.topic,
            _PARTITION.pack(position.partition, -1, position.offset, -1, -1, position.max_bytes, 0),
        )
        for position in positions
    )
    gone = grouped((topic, INT32.pack(partition)) for topic, partition in forgotten)
    isolation = int(read_committed)
    parts = [
        _NO_TAGS,
        FETCH_HEAD.pack(-1, max_wait_ms, MIN_BYTES, max_bytes, isolation, session.id, session.epoch),
    ]
    for by_topic in (topics, gone):
        parts.append(_count(len(by_topic)))
        for topic, partitions in by_topic.items():
            parts += (ids[topic], _count(len(partitions)), *partitions, _NO_TAGS)
    name = rack.encode()
    parts += (_count(len(name)), name, _NO_TAGS)
    return b"".join(parts)


def fetch_response(payload: memoryview, names: Mapping[bytes, str]) -> tuple[int, int, int, list[Fetched]]:
    """Cut an answer (behind its correlation id); return throttle (ms), error code, session id, and partitions."""
    at = _skip_tags(payload, 0)
    (throttle_ms,) = INT32.unpack_from(payload, at)
    error, session = INT16.unpack_from(payload, at + 4)[0], INT32.unpack_from(payload, at + 6)[0]
    topics, at = _read_count(payload, at + 10)
    result: list[Fetched] = []
    for _ in range(topics):
        topic = names[bytes(payload[at : at + _ID_BYTES])]
        partitions, at = _read_count(payload, at + _ID_BYTES)
        for _ in range(partitions):
            fetched, at = _read_partition(payload, at, topic)
            result.append(fetched)
        at = _skip_tags(payload, at)
    return throttle_ms, error, session, result


def _read_partition(payload: memoryview, at: int, topic: str) -> tuple[Fetched, int]:
    number, code, high_watermark, stable, _ = FETCHED_PARTITION.unpack_from(payload, at)
    count, at = _read_count(payload, at + FETCHED_PARTITION.size)
    aborted: list[tuple[int, int]] = []
    for _ in range(count):
        producer, first, tags = _ABORTED.unpack_from(payload, at)
        aborted.append((producer, first))
        at = at + _ABORTED.size if not tags else _skip_tags(payload, at + _ABORTED.size - 1)
    (preferred,) = INT32.unpack_from(payload, at)
    size, at = _read_count(payload, at + 4)
    block = payload[at : at + size]
    at = _skip_tags(payload, at + size)
    return Fetched(topic, number, code, high_watermark, stable, aborted, block, preferred), at


def _count(value: int) -> bytes:
    """Encode a compact length: the length plus one, so that 0 can mean null."""
    value += 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_count(payload: memoryview, at: int) -> tuple[int, int]:
    """Decode a compact length; null counts as empty."""
    value, at = _unsigned(payload, at)
    return max(value - 1, 0), at


def _unsigned(payload: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _skip_tags(payload: memoryview, at: int) -> int:
    count, at = _unsigned(payload, at)
    for _ in range(count):
        _, at = _unsigned(payload, at)
        size, at = _unsigned(payload, at)
        at += size
    return at
