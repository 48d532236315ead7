"""Name what every package speaks of: a partition of a topic, a record in it, and what went wrong with one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic; equal to the plain tuple `(topic, partition)`."""

    topic: str
    partition: int


Positions = Mapping[TopicPartition, int]
"""One offset in each of some partitions: how far it was read or copied, or where something begins or ends."""


class OfPartition:
    """A value about one partition: its fields `topic` and `partition` together are its `topic_partition`."""

    __slots__ = ()
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition that this value is about."""
        return TopicPartition(self.topic, self.partition)


class SourceIncarnation(NamedTuple):
    """One partition of one incarnation (topic id) of a source topic."""

    topic: str
    topic_id: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, whatever its incarnation."""
        return TopicPartition(self.topic, self.partition)


class OfIncarnation(OfPartition):
    """A value about one partition of one incarnation of a source topic, which is its `life`."""

    __slots__ = ()
    topic_id: str

    @property
    def life(self) -> SourceIncarnation:
        """The incarnation that this value is about."""
        return SourceIncarnation(self.topic, self.topic_id, self.partition)


class ReadRecord(NamedTuple):
    """A record as read: its offset, its timestamp (ms, -1 without one), its partition (-1: not known), its headers.

    `value` is None for a tombstone.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    partition: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Issue:
    """Tell what went wrong with a topic ("": with the flow as a whole): a stable code, one line, and what to do."""

    code: str
    topic: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class PartitionIssue(Issue):
    """Tell what went wrong with one partition, or with a whole topic if `partition` is None."""

    partition: int | None = None

    @property
    def where(self) -> str:
        """The name of the partition or topic; "" for the flow as a whole."""
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"
