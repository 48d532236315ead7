"""Say to which topic of the target a record is routed, and to which of its partitions.  Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from twinlog.formats.mm2.connect_offset import murmur2

TOPIC_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,249}")
"""The names that Kafka takes for topics (org.apache.kafka.common.internals.Topic)."""


class Partitioner(StrEnum):
    """Name how the partition of a routed record is chosen.

    `key`: as Kafka's default partitioner does for a key; a record without a key by the number of its source partition.
    `same`: the partition with the number of its source partition.
    """

    KEY = "key"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Route:
    """A topic of the target that records are routed to; its name is never changed by the replication policy."""

    to: str
    partitioner: Partitioner

    def place(self, key: bytes | None, source_partition: int) -> int:
        """Return the number whose remainder by the topic's partition count is the partition.

        For a key it is Kafka's: murmur2 of its bytes, without the sign (BuiltInPartitioner.partitionForKey, Utils).
        """
        if self.partitioner is Partitioner.KEY and key is not None:
            return murmur2(key) & 0x7FFFFFFF
        return source_partition

    def places(self, source_partition: int, partitions: int) -> range:
        """Return the partitions, of so many, that the records of a source partition may get."""
        if self.partitioner is Partitioner.KEY:
            return range(partitions)
        return range(source_partition, source_partition + 1)

    def reaches(self, source_partition: int, partitions: int) -> bool:
        """Say whether the records of a source partition have a place in a topic of so many partitions."""
        return self.partitioner is Partitioner.KEY or source_partition < partitions
