"""Name what every package speaks of: a partition of a topic."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class TopicPartition(NamedTuple):
    """One partition of one topic; equal to the plain tuple `(topic, partition)`."""

    topic: str
    partition: int


class _Named(Protocol):
    """A value with the names of a topic and of a partition."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


class OfPartition:
    """A value about one partition: its fields `topic` and `partition` together are its `topic_partition`."""

    __slots__ = ()

    @property
    def topic_partition(self: _Named) -> TopicPartition:
        """The partition that this value is about."""
        return TopicPartition(self.topic, self.partition)
