"""Consumer groups as a cluster describes them: plain frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from twinlog.cluster.values import TopicPartition


class GroupType(StrEnum):
    """Which protocol a group speaks (KIP-848, KIP-932, KIP-1071).

    `other` is a group that stores no offsets of records, such as Kafka Connect's workers.
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    OTHER = "other"

    @property
    def commits_offsets(self) -> bool:
        """Whether its progress is committed offsets that can be translated."""
        return self in {GroupType.CLASSIC, GroupType.CONSUMER}


class GroupState(StrEnum):
    """The state of a group; a group that does not exist is `dead`.

    `empty` means no members the broker knows of. A simple consumer (one that assigns its partitions itself) is not a
    member, and may run all the same.
    """

    EMPTY = "empty"
    STABLE = "stable"
    REBALANCING = "rebalancing"
    DEAD = "dead"
    UNKNOWN = "unknown"

    @property
    def active(self) -> bool:
        """Whether it has members, or may have."""
        return self not in {GroupState.EMPTY, GroupState.DEAD}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of a cluster; `simple` if its offsets are committed without ever joining it."""

    group: str
    type: GroupType
    state: GroupState
    simple: bool = False


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member; `instance_id` is set for static membership (KIP-345)."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with its members."""

    group: str
    type: GroupType
    state: GroupState
    members: tuple[GroupMember, ...] = ()


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset a group reads, with the text it stored beside it; `leader_epoch` is -1 if it has none."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class GroupPartition(NamedTuple):
    """One partition of a topic as one group reads it."""

    group: str
    topic: str
    partition: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition alone."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A position to commit, if the stored one is still `expected` (None: the group has none)."""

    offset: int
    expected: int | None
    metadata: str = ""


GROUP_ACTIVE = "group-active"
"""Code of the refusal to write offsets of a group that has members."""

OFFSET_MOVED = "offset-moved"
"""Code of the refusal to write an offset that is no longer the expected one."""
