"""Questions to a cluster and its answers: plain frozen values, without the client library."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

from twinlog.errors import TwinlogError

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

NO_SUCH_TOPIC = "unknown-topic"
"""Code of the refusal for a topic that does not exist, or that this user may not see."""


@dataclass(frozen=True, slots=True)
class Answers(Generic[K, V]):
    """The answers to a request about many items: each item is in `found` or in `refused`, never in both.

    One refusal does not stop the rest; `require` is for callers that need every item.
    """

    found: Mapping[K, V]
    refused: Mapping[K, TwinlogError] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Iterable[Answers[K, V]]) -> Answers[K, V]:
        """Return the answers of several requests about different items."""
        found: dict[K, V] = {}
        refused: dict[K, TwinlogError] = {}
        for part in parts:
            found |= part.found
            refused |= part.refused
        return cls(found, refused)

    @property
    def absent(self) -> frozenset[K]:
        """Return the items that do not exist; those that are hidden, or do not answer, may."""
        return frozenset(item for item, error in self.refused.items() if error.code == NO_SUCH_TOPIC)

    def existing(self) -> Mapping[K, V]:
        """Return the values of what exists.

        Raises the first refusal of an item that may exist.
        """
        for item in self.refused.keys() - self.absent:
            raise self.refused[item]
        return self.found

    def require(self) -> Mapping[K, V]:
        """Return all values.

        Raises the first refusal, if there is one.
        """
        for error in self.refused.values():
            raise error
        return self.found


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """One partition as metadata shows it; `leader` is -1 without one, `in_sync` are the replicas that keep up."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One incarnation of a topic; `topic_id` identifies it, in base64 as Kafka's tools print it.

    `operations` are the ACL operations this user may do on it (`ALTER`, `WRITE`, ...).
    """

    name: str
    topic_id: str
    partitions: tuple[PartitionDescription, ...]
    operations: frozenset[str] = frozenset()

    @property
    def replication_factor(self) -> int:
        """Replicas of the first partition; 0 for a topic without partitions."""
        return len(self.partitions[0].replicas) if self.partitions else 0

    @property
    def led(self) -> bool:
        """Say whether every partition has a leader, so that it can be written to."""
        return bool(self.partitions) and all(partition.leader >= 0 for partition in self.partitions)


class ConfigSource(StrEnum):
    """The origin of a topic's configuration value (Kafka protocol, DescribeConfigs `config_source`)."""

    UNKNOWN = "unknown"
    TOPIC = "topic"
    DYNAMIC_BROKER = "dynamic-broker"
    DYNAMIC_DEFAULT_BROKER = "dynamic-default-broker"
    STATIC_BROKER = "static-broker"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One configuration entry of a topic; `value` is None if it is sensitive or not set."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


Configs = Mapping[str, ConfigValue]
"""A topic's configuration entries by name."""


def value_of(configs: Configs, name: str) -> str | None:
    """Return the value of one of a topic's configuration entries; None if it is not set, or not there."""
    return configs[name].value if name in configs else None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created; `replication_factor` -1 leaves it to the broker's default.

    `lowered_factor` is used instead if the cluster refuses so many replicas; 0 for none. Only the cluster knows how
    many it can hold: brokers that are down for the moment count, and are not described.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    lowered_factor: int = 0

    @property
    def lowered(self) -> NewTopic | None:
        """The same topic with fewer replicas; None if only the wanted factor is acceptable."""
        if not 0 < self.lowered_factor < self.replication_factor:
            return None
        return replace(self, replication_factor=self.lowered_factor, lowered_factor=0)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """A partition's log, as offsets: [`log_start`, `end`), of which [`log_start`, `stable_end`) is decided.

    `stable_end` is the last stable offset: a read_committed consumer can read up to it.
    """

    log_start: int
    stable_end: int
    end: int

    def readable_end(self, *, read_committed: bool) -> int:
        """Return where a consumer of that isolation level comes to the end."""
        return self.stable_end if read_committed else self.end


@dataclass(frozen=True, slots=True)
class InternalRecord:
    """A record for one of our own topics; `timestamp` in ms, None for the time of sending."""

    key: bytes
    value: bytes | None
    partition: int = 0
    timestamp: int | None = None
