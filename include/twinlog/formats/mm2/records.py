"""Encode MM2's offset syncs, checkpoints and heartbeats (org.apache.kafka.connect.mirror)."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.mm2.kafka_struct import StructReader, int16, int32, int64, string
from twinlog.kafka_types import OfPartition


@dataclass(frozen=True, slots=True)
class OffsetSync(OfPartition):
    """The record at `upstream_offset` of the source was written at `downstream_offset` of the target.

    `topic` is the source's name.  MM2 gives this record no version.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        """Encode the key: STRING topic, INT32 partition."""
        return string(self.topic) + int32(self.partition)

    def value(self) -> bytes:
        """Encode the value: INT64 upstream, INT64 downstream."""
        return int64(self.upstream_offset) + int64(self.downstream_offset)

    @classmethod
    def parse(cls, key: bytes, value: bytes) -> OffsetSync:
        """Decode a record; raises FormatError for malformed bytes."""
        keys, values = StructReader(key, "offset sync key"), StructReader(value, "offset sync value")
        return cls(keys.string(), keys.int32(), values.int64(), values.int64())


VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint(OfPartition):
    """`group` committed `upstream_offset` on the source; on the target that is `downstream_offset`.

    `topic` is the target's name.  `metadata` is the committed text, empty if there is none.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        """Encode the key: STRING group, STRING topic, INT32 partition."""
        return string(self.group) + string(self.topic) + int32(self.partition)

    def value(self) -> bytes:
        """Encode the value: INT16 version 0, INT64 upstream, INT64 downstream, STRING metadata."""
        offsets = int64(self.upstream_offset) + int64(self.downstream_offset)
        return int16(VERSION) + offsets + string(self.metadata)

    @classmethod
    def parse(cls, key: bytes, value: bytes) -> Checkpoint:
        """Decode a record; raises FormatError for malformed bytes or another version."""
        keys, values = StructReader(key, "checkpoint key"), StructReader(value, "checkpoint value")
        values.version(VERSION)
        return cls(
            keys.string(), keys.string(), keys.int32(), values.int64(), values.int64(), values.string()
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The flow `source_alias`->`target_alias` was alive at `timestamp_ms` (epoch ms)."""

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def key(self) -> bytes:
        """Encode the key: STRING source alias, STRING target alias."""
        return string(self.source_alias) + string(self.target_alias)

    def value(self) -> bytes:
        """Encode the value: INT16 version 0, INT64 timestamp."""
        return int16(VERSION) + int64(self.timestamp_ms)

    @classmethod
    def parse(cls, key: bytes, value: bytes) -> Heartbeat:
        """Decode a record; raises FormatError for malformed bytes or another version."""
        keys, values = StructReader(key, "heartbeat key"), StructReader(value, "heartbeat value")
        values.version(VERSION)
        return cls(keys.string(), keys.string(), values.int64())
