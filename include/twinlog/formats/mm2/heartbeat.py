"""Encode MM2's heartbeat (org.apache.kafka.connect.mirror.Heartbeat): the time at which a flow was alive."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.mm2.kafka_struct import StructReader, int16, int64, string

VERSION = 0


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
