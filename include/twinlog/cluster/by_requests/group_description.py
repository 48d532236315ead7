"""Describe groups of either protocol with their members, as confluent-kafka does.

A group of KIP-848 is unknown to the older request, and to brokers without that KIP every group is a classic one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Node
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import ConsumerGroupDescription, MemberAssignment, MemberDescription

from twinlog.cluster.by_requests.answers import future, operations
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.kafka_python import Api
from twinlog.protocol.socket.connection import Connection

_STATES = {
    "Empty": ConsumerGroupState.EMPTY,
    "Dead": ConsumerGroupState.DEAD,
    "Stable": ConsumerGroupState.STABLE,
}
"""Name the states that decide something; twinlog takes every other one for a rebalance."""


def describe(brokers: Brokers, names: Sequence[str]) -> dict[str, Future[Any]]:
    """Ask the coordinator of each group; one without a coordinator has the error code of that question."""
    connections, failed = brokers.group_coordinators(names)
    result = {name: future(code) for name, code in failed.items()}
    for name, connection in connections.items():
        result[name] = _described(connection, name)
    return result


def _described(connection: Connection, name: str) -> Future[Any]:
    api = kafka_python.DESCRIBE_CONSUMER_GROUPS
    if connection.offers(api.request.API_KEY) >= 0:
        it = _ask(connection, api, group_ids=[name])
        if it.error_code != Code.GROUP_ID_NOT_FOUND:
            members = [(member.member_id, _partitions(member.assignment)) for member in it.members]
            allowed = _bits(it.authorized_operations)
            return future(
                it.error_code,
                it.error_message,
                _description(it, members, allowed, ConsumerGroupType.CONSUMER),
            )
    it = _ask(connection, kafka_python.DESCRIBE_GROUPS, groups=[name])
    own = it.protocol_type == "consumer"
    members = [
        (member.member_id, kafka_python.assigned(bytes(member.member_assignment or b"") if own else b""))
        for member in it.members
    ]
    return future(
        it.error_code, None, _description(it, members, it.authorized_operations, ConsumerGroupType.CLASSIC)
    )


def _ask(connection: Connection, api: Api, **fields: Any) -> Any:
    return connection.call(api, include_authorized_operations=True, **fields).groups[0]


def _partitions(assignment: Any) -> list[tuple[str, int]]:
    return [
        (topic_partition.topic_name, partition)
        for topic_partition in assignment.topic_partitions
        for partition in topic_partition.partitions
    ]


def _bits(allowed: int) -> list[int]:
    return [bit for bit in range(31) if allowed >> bit & 1]


def _description(
    it: Any,
    members: Iterable[tuple[str, list[tuple[str, int]]]],
    allowed: Iterable[int] | None,
    kind: ConsumerGroupType,
) -> ConsumerGroupDescription:
    described = [
        MemberDescription(name, "", "", MemberAssignment([ClientPartition(*at) for at in places]))
        for name, places in members
    ]
    state = _STATES.get(it.group_state, ConsumerGroupState.PREPARING_REBALANCING)
    nobody = Node(-1, "", -1)
    return ConsumerGroupDescription(
        it.group_id, False, described, "", state, nobody, operations(allowed), kind
    )
