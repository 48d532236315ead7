"""Describe groups with their members, and what the workers of a Kafka Connect group run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlog.cluster.admin.acls import operations
from twinlog.cluster.admin.group_offsets import GONE, by_coordinator
from twinlog.cluster.admin.groups import GroupDescription, GroupState, GroupType, state_of
from twinlog.cluster.values import Answers
from twinlog.errors import FormatError, TwinlogError
from twinlog.formats.mm2.connect_offset import parse_assignment
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.socket.connection import Connection


def describe_groups(brokers: Brokers, names: Iterable[str]) -> Answers[str, GroupDescription]:
    """Describe classic and consumer groups with their members; one that does not exist is `dead`."""
    answers = with_rights(brokers, names)
    return Answers({name: it for name, (it, _) in answers.found.items()}, answers.refused)


def with_rights(
    brokers: Brokers, names: Iterable[str]
) -> Answers[str, tuple[GroupDescription, frozenset[str]]]:
    """Describe groups, each with the operations that this user may do on it."""
    found: dict[str, tuple[GroupDescription, frozenset[str]]] = {}
    unread: dict[str, TwinlogError] = {}

    def describe(connection: Connection, groups: Sequence[str]) -> dict[str, int]:
        others, failed = list(groups), dict[str, int]()
        if connection.offers(kafka_python.DESCRIBE_CONSUMER_GROUPS.request.API_KEY) >= 0:
            answer = _ask(connection, kafka_python.DESCRIBE_CONSUMER_GROUPS, group_ids=others)
            known = [it for it in answer if it.error_code not in _OF_THE_OLDER]
            found.update((it.group_id, _consumer(it)) for it in known if not it.error_code)
            failed = {it.group_id: it.error_code for it in known if it.error_code}
            others = [name for name in groups if name not in found and name not in failed]
        for it in _ask(connection, kafka_python.DESCRIBE_GROUPS, groups=others) if others else ():
            if it.error_code:
                failed[it.group_id] = it.error_code
                continue
            try:
                found[it.group_id] = _classic(it)
            except FormatError as error:
                unread[it.group_id] = error
        return failed

    refused = by_coordinator(brokers, list(names), "describe", describe)
    return Answers(found, {**refused, **unread})


_OF_THE_OLDER = frozenset({Code.GROUP_ID_NOT_FOUND, Code.UNSUPPORTED_VERSION})
"""Answers about a group that is not one of KIP-848: the older request knows it, or nobody does."""


def _ask(connection: Connection, api: kafka_python.Api, **fields: Any) -> list[Any]:
    groups: list[Any] = connection.call(api, include_authorized_operations=True, **fields).groups
    return groups


def _consumer(it: Any) -> tuple[GroupDescription, frozenset[str]]:
    places = [
        TopicPartition(topic.topic_name, partition)
        for member in it.members
        for topic in member.assignment.topic_partitions
        for partition in topic.partitions
    ]
    bits = it.authorized_operations
    return _description(it, GroupType.CONSUMER, places), operations(
        bit for bit in range(31) if bits >> bit & 1
    )


def _classic(it: Any) -> tuple[GroupDescription, frozenset[str]]:
    own = it.protocol_type == "consumer"
    places = [
        TopicPartition(*at)
        for member in it.members
        for at in kafka_python.assigned(bytes(member.member_assignment or b"") if own else b"")
    ]
    return _description(it, GroupType.CLASSIC, places), operations(it.authorized_operations)


def _description(it: Any, kind: GroupType, places: Iterable[TopicPartition]) -> GroupDescription:
    members = tuple(member.member_id for member in it.members)
    return GroupDescription(it.group_id, kind, state_of(it.group_state), members, frozenset(places))


@dataclass(frozen=True, slots=True)
class ConnectWorkers:
    """`members` workers are in the group; `tasks` counts the tasks of each connector they know of.

    While the group is `rebalancing` it does not tell them.
    """

    members: int = 0
    tasks: Mapping[str, int] = field(default_factory=dict)
    rebalancing: bool = False


def connect_workers(brokers: Brokers, group: str) -> ConnectWorkers:
    """Read what a worker group runs; no members if it does not exist, or if all its workers have stopped.

    Raises ClusterRefused if the group may not be described, FormatError for a group that is not Connect's.
    """
    tasks: Counter[str] = Counter()
    members: list[Any] = []
    states: list[str] = []

    def describe(connection: Connection, names: Sequence[str]) -> dict[str, int]:
        answer = connection.call(
            kafka_python.DESCRIBE_GROUPS, groups=list(names), include_authorized_operations=False
        )
        members[:] = answer.groups[0].members
        states[:] = [answer.groups[0].group_state]
        code = answer.groups[0].error_code
        return {group: code} if code and code not in GONE else {}

    for error in by_coordinator(brokers, [group], "describe", describe).values():
        raise error
    for member in members:
        tasks.update(parse_assignment(bytes(member.member_assignment or b"")))
    rebalancing = [state_of(state) for state in states] == [GroupState.REBALANCING]
    return ConnectWorkers(len(members), dict(tasks), rebalancing)
