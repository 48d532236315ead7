"""MM2's checkpoint (org.apache.kafka.connect.mirror.Checkpoint): where a group stands, in target offsets."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.mm2.kafka_struct import StructReader, int16, int32, int64, string

VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`group` committed `upstream_offset` on the source; on the target that is `downstream_offset`.

    `topic` is the target's name.  `metadata` is the committed text, empty for none.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        """STRING group, STRING topic, INT32 partition."""
        return string(self.group) + string(self.topic) + int32(self.partition)

    def value(self) -> bytes:
        """INT16 version 0, INT64 upstream, INT64 downstream, STRING metadata."""
        offsets = int64(self.upstream_offset) + int64(self.downstream_offset)
        return int16(VERSION) + offsets + string(self.metadata)

    @classmethod
    def parse(cls, key: bytes, value: bytes) -> Checkpoint:
        """Read a record back; raises FormatError for bytes that are not one, or of another version."""
        keys, values = StructReader(key, "checkpoint key"), StructReader(value, "checkpoint value")
        values.version(VERSION)
        return cls(
            keys.string(), keys.string(), keys.int32(), values.int64(), values.int64(), values.string()
        )
