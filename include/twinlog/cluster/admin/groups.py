"""List and describe consumer groups, and the groups of Kafka Connect's workers, as plain frozen values.

Groups are listed over our own connections: confluent-kafka leaves out groups of protocols it does not know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import ConsumerGroupDescription

from twinlog.cluster.session import REQUEST_SECONDS, Asked, Session, describe_cluster
from twinlog.cluster.values import Answers
from twinlog.errors import ClusterRefused, TransientError
from twinlog.formats.mm2.connect_offset import parse_assignment
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import AUTHORIZATION, COORDINATOR_MOVED, Code, error_for
from twinlog.protocol.retry import until


class GroupType(StrEnum):
    """Name which protocol a group speaks (KIP-848, KIP-932, KIP-1071).

    A streams group keeps where it reads its input as committed offsets; a share group keeps a start offset, and a state
    of each record behind it.
    `other` is a group that stores no offsets of records, such as Kafka Connect's workers.
    """

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"
    OTHER = "other"

    @property
    def commits_offsets(self) -> bool:
        """Say whether its progress is committed offsets that can be translated."""
        return self.placed and self is not GroupType.SHARE

    @property
    def placed(self) -> bool:
        """Say whether it can be placed on another cluster: by committed offsets, or by start offsets."""
        return self is not GroupType.OTHER


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


def list_groups(brokers: Brokers) -> tuple[GroupListing, ...]:
    """List the groups this user may see, of every type, sorted by name.

    The state is `unknown` on brokers before 2.6, the type is `classic` on brokers before 3.8. Raises ClusterRefused,
    TransientError.
    """
    found: dict[str, GroupListing] = {}
    for connection in brokers.all_brokers():
        answer = connection.call(kafka_python.LIST_GROUPS, states_filter=[], types_filter=[])
        if answer.error_code:
            raise error_for(answer.error_code, "the question for its groups", brokers.settings.alias)
        for group in answer.groups:
            kind = _type(getattr(group, "group_type", None), group.protocol_type)
            found[group.group_id] = GroupListing(
                group.group_id, kind, _state(getattr(group, "group_state", None))
            )
    return tuple(found[name] for name in sorted(found))


def _type(group_type: str | None, protocol: str) -> GroupType:
    kind = (group_type or "classic").lower()
    if kind == "classic" and protocol not in {"", "consumer"}:
        return GroupType.OTHER
    return GroupType(kind) if kind in set(GroupType) else GroupType.OTHER


def _state(name: str | None) -> GroupState:
    if name in _REBALANCING:
        return GroupState.REBALANCING
    return _STATES.get(name or "", GroupState.UNKNOWN)


def lists_every_group(session: Session) -> bool:
    """Say whether the brokers list every group to this user: they do if it may DESCRIBE the cluster (KafkaApis)."""
    return "DESCRIBE" in describe_cluster(session, operations=True).operations


def describe_groups(session: Session, names: Iterable[str]) -> Answers[str, GroupDescription]:
    """Describe classic and consumer groups with their members; one that does not exist is `dead`."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return Answers({})
    answers = session.answers(
        lambda admin: admin.describe_consumer_groups(wanted, request_timeout=REQUEST_SECONDS),
        lambda name: Asked.about(session.alias, "describe", f"group {name}", "DESCRIBE"),
    )
    missing = {
        name
        for name, error in answers.refused.items()
        if error.data.get("kafka_code") == Code.GROUP_ID_NOT_FOUND
    }
    absent = {name: GroupDescription(name, GroupType.CLASSIC, GroupState.DEAD) for name in missing}
    return Answers(
        {name: _description(it) for name, it in answers.found.items()} | absent,
        {name: error for name, error in answers.refused.items() if name not in missing},
    )


_DESCRIBED_STATES = {
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
    ConsumerGroupState.DEAD: GroupState.DEAD,
    ConsumerGroupState.STABLE: GroupState.STABLE,
    ConsumerGroupState.UNKNOWN: GroupState.UNKNOWN,
}


def _description(it: ConsumerGroupDescription) -> GroupDescription:
    return GroupDescription(
        it.group_id,
        GroupType.CONSUMER if it.type is ConsumerGroupType.CONSUMER else GroupType.CLASSIC,
        _DESCRIBED_STATES.get(it.state, GroupState.REBALANCING),
        tuple(member.member_id for member in it.members),
        frozenset(
            TopicPartition(at.topic, at.partition)
            for member in it.members
            for at in member.assignment.topic_partitions
        ),
    )


WORKERS_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ConnectWorkers:
    """`members` workers are in the group; `tasks` counts the tasks of each connector they know of."""

    members: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)


def connect_workers(brokers: Brokers, group: str) -> ConnectWorkers:
    """Read what a worker group runs; no members if it does not exist, or if all its workers have stopped.

    Raises ClusterRefused if the group may not be described, FormatError for a group that is not Connect's.
    """
    alias = brokers.settings.alias
    code, described = _described_group(brokers, group)
    if code == Code.GROUP_ID_NOT_FOUND:
        return ConnectWorkers()
    if code in AUTHORIZATION:
        raise ClusterRefused(
            f"{alias} does not allow this user to describe group {group}, so nobody can say whether its workers run",
            hint=f"grant DESCRIBE on group {group}",
            code="unauthorised",
            cluster=alias,
            group=group,
        )
    if code:
        raise error_for(code, f"the question who is in group {group}", alias)
    tasks: Counter[str] = Counter()
    for member in described.members:
        tasks.update(parse_assignment(bytes(member.member_assignment or b"")))
    return ConnectWorkers(len(described.members), dict(tasks))


def _described_group(brokers: Brokers, group: str) -> tuple[int, Any]:
    """Ask the group's coordinator, again while it is changing; return the error code and the answer."""

    def ask() -> tuple[int, Any] | None:
        connections, failed = brokers.group_coordinators([group])
        if group in failed:
            return None if failed[group] in COORDINATOR_MOVED else (failed[group], None)
        answer = connections[group].call(
            kafka_python.DESCRIBE_GROUPS, groups=[group], include_authorized_operations=False
        )
        code = int(answer.groups[0].error_code)
        return None if code in COORDINATOR_MOVED else (code, answer.groups[0])

    def give_up() -> TransientError:
        return TransientError(
            f"group {group} on {brokers.settings.alias} has no coordinator",
            hint="try again",
            code="unsettled",
        )

    return until(ask, give_up, seconds=WORKERS_SECONDS, first_seconds=0.05)
