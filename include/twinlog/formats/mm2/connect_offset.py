"""Encode Connect's stored source offsets, from which MM2, and so twinlog, resumes (OffsetStorageWriter, MirrorUtils).

Keys are JSON without blanks, in the order that MM2's Java maps happen to have: Connect compares keys as bytes, so a
key with another order of fields is another key.  Nothing is escaped.  A key's partition is the one that Java's default
partitioner chooses: a topic that both MM2 and twinlog write must be partitioned alike, or a key's newest value could
be in two places.  Our own records carry headers, which Connect ignores (KafkaOffsetBackingStore takes key and
value); formats/lane_counts.py has the other:

    twinlog.copy.end    the end of the copy when the offset was stored: the downstream offset behind its last record

The assignment of a Connect worker, as its group keeps it (ConnectProtocol, IncrementalCooperativeConnectProtocol in
org.apache.kafka.connect.runtime.distributed):

    INT16 version, INT16 error, STRING leader, STRING leader URL, INT64 config offset,
    ARRAY of (STRING connector, ARRAY of INT32 task); later versions add fields behind it

Task -1 is the connector itself, which also runs while it has no tasks (a stopped connector, KIP-875).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twinlog.errors import FormatError
from twinlog.formats.mm2.kafka_struct import StructReader
from twinlog.jsonable import from_json
from twinlog.kafka_types import OfPartition

CONNECTOR_ITSELF = -1


def parse_assignment(data: bytes) -> Mapping[str, int]:
    """Count the tasks of each connector that a worker runs; empty if the worker was assigned nothing.

    Raises FormatError for bytes that are not an assignment.
    """
    if not data:
        return {}
    reader = StructReader(data, "Connect assignment")
    reader.int16()
    reader.int16()
    reader.string()
    reader.string()
    reader.int64()
    tasks: dict[str, int] = {}
    for _ in range(max(0, reader.int32())):
        name = reader.string()
        numbers = [reader.int32() for _ in range(max(0, reader.int32()))]
        tasks[name] = tasks.get(name, 0) + sum(number != CONNECTOR_ITSELF for number in numbers)
    return tasks


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def json_bytes(value: Any) -> bytes:
    """Encode a value, byte for byte as Connect's converter does."""
    return _ENCODER.encode(value).encode()


def parsed_json(data: bytes, what: str) -> Any:
    """Parse JSON.  Raises FormatError, which names `what`, if it is not JSON."""
    try:
        return from_json(data)
    except ValueError:  # base class of both JSON's and Unicode's errors
        raise FormatError(f"{what} is not JSON", bytes=data.hex()) from None


@dataclass(frozen=True, slots=True)
class SourceOffsetKey(OfPartition):
    """The key of a source partition's progress: `cluster` is the source's alias, `topic` the source's name."""

    connector_name: str
    cluster: str
    partition: int
    topic: str

    def encode(self) -> bytes:
        """Encode the key, byte for byte as MirrorSourceConnector's."""
        fields = {"cluster": self.cluster, "partition": self.partition, "topic": self.topic}
        return json_bytes([self.connector_name, fields])


COPY_END = "twinlog.copy.end"
"""Name of the header with the end of the copy."""


def source_offset_key(connector_name: str, cluster: str, partition: int, topic: str) -> bytes:
    """Return the key bytes of one source partition's progress."""
    return SourceOffsetKey(connector_name, cluster, partition, topic).encode()


def offset_value(offset: int) -> bytes:
    """Return the value bytes: for a source partition, with the upstream offset of the last record copied."""
    return json_bytes({"offset": offset})


def parse_offset_key(key: bytes) -> SourceOffsetKey:
    """Decode a source partition's key of the offsets topic, with its fields in any order.

    For Connect only the exact bytes count: a key whose `encode()` differs from `key` is another key to it.  Raises
    FormatError for any other key.  MM2's two other kinds, of checkpoints and heartbeats, hold offset 0 and are never
    read again.
    """
    match parsed_json(key, "Connect offset key"):
        case [
            str(name),
            {"cluster": str(cluster), "partition": int(partition), "topic": str(topic), **rest},
        ] if not rest and _is_partition(partition):
            return SourceOffsetKey(name, cluster, partition, topic)
    raise FormatError("Connect offset key is none of MirrorMaker's for a partition", bytes=key.hex())


def parse_source_key(key: bytes, connector_name: str, cluster: str) -> SourceOffsetKey | None:
    """Decode a key if it is that connector's progress of that source, byte for byte; None for any other key.

    The topic is Connect's: other connectors may share it, and a key that Connect would not take for MM2's is not ours.
    """
    try:
        parsed = parse_offset_key(key)
    except FormatError:
        return None
    ours = (parsed.connector_name, parsed.cluster) == (connector_name, cluster)
    return parsed if ours and parsed.encode() == key else None


def parse_offset_value(value: bytes | None) -> int | None:
    """Decode the stored offset; None if none is stored (a tombstone, no offset, or a negative one, as in MM2).

    Raises FormatError for anything but a JSON object with a whole number.
    """
    if value is None:
        return None
    match parsed_json(value, "Connect offset value"):
        case None:
            return None
        case dict(fields) if (offset := fields.get("offset")) is None:
            return None
        case {"offset": int(offset)} if not isinstance(offset, bool):
            return offset if offset >= 0 else None
    raise FormatError("Connect offset value holds no whole number", bytes=value.hex())


def copy_end_header(end: int | None) -> tuple[tuple[str, bytes | None], ...]:
    """Return the headers of a stored offset with the copy's end at downstream offset `end`; none if it is unknown."""
    return () if end is None else ((COPY_END, b"%d" % end),)


def parse_copy_end(headers: Iterable[tuple[str, bytes | None]]) -> int | None:
    """Read the end of the copy; None if no header tells it, as in the offsets that MM2 has stored.

    Raises FormatError for a header that holds no whole number.
    """
    for name, content in headers:
        if name == COPY_END:
            if content is None or not (content.isascii() and content.isdigit()):
                raise FormatError(f"header {COPY_END} holds no whole number", bytes=(content or b"").hex())
            return int(content)
    return None


def _is_partition(number: int) -> bool:
    return not isinstance(number, bool) and 0 <= number < 1 << 31


_M = 0x5BD1E995
_SEED = 0x9747B28C
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Hash as org.apache.kafka.common.utils.Utils.murmur2 does; return a signed 32-bit number."""
    whole = len(data) & ~3
    hashed = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        word = (word ^ word >> 24) * _M & _MASK
        hashed = (hashed * _M & _MASK) ^ word
    if len(data) > whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    hashed = (hashed ^ hashed >> 13) * _M & _MASK
    hashed ^= hashed >> 15
    return hashed - (1 << 32) if hashed >> 31 else hashed


def partition_for(key: bytes, partitions: int) -> int:
    """Return the partition, of `partitions`, that Java's producer chooses for `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
