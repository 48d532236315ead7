"""List groups of every type, as plain frozen values: confluent-kafka leaves out those of protocols it does not know."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from twinlog.errors import TransientError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import UNSETTLED, Brokers
from twinlog.protocol.errors import error_for
from twinlog.protocol.socket.connection import Connection


class GroupType(StrEnum):
    """Name which protocol a group speaks (KIP-848, KIP-932, KIP-1071).

    A streams group keeps where it reads its input as committed offsets; a share group keeps a start offset, and a state
    of each record behind it.
    `connect` are Kafka Connect's workers, MirrorMaker 2's too; like `other` groups they store no offsets of records.
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    CONNECT = "connect"
    OTHER = "other"

    @property
    def commits_offsets(self) -> bool:
        """Say whether its progress is committed offsets that can be translated."""
        return self.placed and self is not GroupType.SHARE

    @property
    def placed(self) -> bool:
        """Say whether it can be placed on another cluster: by committed offsets, or by start offsets."""
        return self not in {GroupType.CONNECT, GroupType.OTHER}


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
        """Say whether it has members, or may have."""
        return self not in {GroupState.EMPTY, GroupState.DEAD}


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of a cluster."""

    group: str
    type: GroupType
    state: GroupState


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group with the ids of its members, and the partitions that they have been given."""

    group: str
    type: GroupType
    state: GroupState
    members: tuple[str, ...] = ()
    assigned: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset a group reads, with the text it stored beside it; `leader_epoch` is -1 if it has none."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1

    @property
    def known(self) -> bool:
        """Say whether there is one: a share group that has acknowledged nothing has none yet."""
        return self.offset >= 0


@dataclass(frozen=True, slots=True)
class ShareStart(CommittedOffset):
    """Where a share group starts in a partition: all before `offset` is acknowledged, and some of what follows may be.

    `offset` is -1 before the group's first acknowledgement.  `lag` counts the records from `offset` on that are not
    acknowledged; -1 if it is not told.
    """

    lag: int = -1

    def acknowledged(self, end: int) -> int:
        """Return how many records from `offset` to the log's `end` are acknowledged, at most."""
        return max(0, end - self.offset - max(0, self.lag))


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


# Kafka's names of states (GroupState.java) that are neither empty, dead nor stable mean a rebalance.
_STATES = {"Empty": GroupState.EMPTY, "Dead": GroupState.DEAD, "Stable": GroupState.STABLE}
_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


_KEPT_IN = "__consumer_offsets"


def list_groups(brokers: Brokers) -> tuple[GroupListing, ...]:
    """List the groups this user may see, of every type, sorted by name.

    The state is `unknown` on brokers before 2.6, the type is `classic` on brokers before 3.8. Raises ClusterRefused,
    TransientError; this too if a partition of Kafka's topic of groups has no leader, for nobody lists its groups.
    """
    alias = brokers.settings.alias

    def listed(connection: Connection) -> list[Any]:
        answer = connection.call(kafka_python.LIST_GROUPS, states_filter=[], types_filter=[])
        if answer.error_code:
            raise error_for(answer.error_code, "the question for its groups", alias)
        return answer.groups  # type: ignore[no-any-return]

    found = {
        it.group_id: GroupListing(
            it.group_id,
            _type(getattr(it, "group_type", None), it.protocol_type),
            state_of(getattr(it, "group_state", None)),
        )
        for groups in brokers.of_all(listed)
        for it in groups
    }
    kept = brokers.metadata([_KEPT_IN])[_KEPT_IN]
    if not all(kept.is_led(partition) for partition in kept.leaders):
        raise TransientError(
            f"not all groups of {alias} can be listed: a partition of {_KEPT_IN} has no leader",
            hint="check that its brokers run",
            code=UNSETTLED,
            cluster=alias,
        )
    return tuple(found[name] for name in sorted(found))


def _type(group_type: str | None, protocol: str) -> GroupType:
    kind = (group_type or "classic").lower()
    if kind == "classic" and protocol not in {"", "consumer"}:
        return GroupType.CONNECT if protocol == "connect" else GroupType.OTHER
    return GroupType(kind) if kind in set(GroupType) else GroupType.OTHER


def state_of(name: str | None) -> GroupState:
    """Return the state that a broker names."""
    if name in _REBALANCING:
        return GroupState.REBALANCING
    return _STATES.get(name or "", GroupState.UNKNOWN)
