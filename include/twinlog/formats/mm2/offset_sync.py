"""Encode MM2's offset sync (org.apache.kafka.connect.mirror.OffsetSync): the two offsets of one record."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.mm2.kafka_struct import StructReader, int32, int64, string


@dataclass(frozen=True, slots=True)
class OffsetSync:
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
