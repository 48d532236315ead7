"""Encode MM2's checkpoint (org.apache.kafka.connect.mirror.Checkpoint): a group's position in target offsets."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.mm2.kafka_struct import StructReader, int16, int32, int64, string

VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
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
