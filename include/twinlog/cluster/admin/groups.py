"""List consumer groups and their members.

Groups are listed over our own connections: confluent-kafka leaves out groups of protocols it does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import ConsumerGroupState, ConsumerGroupType
from confluent_kafka.admin import AclOperation, ConsumerGroupDescription

from twinlog.cluster.admin.group import GroupDescription, GroupListing, GroupMember, GroupState, GroupType
from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session
from twinlog.cluster.values import Answers
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.error_codes import error_for

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
        found |= {it.group_id: _listing(it) for it in answer.groups}
    return tuple(found[name] for name in sorted(found))


def _listing(it: Any) -> GroupListing:
    kind = _type(getattr(it, "group_type", None), it.protocol_type)
    state = _state(getattr(it, "group_state", None))
    return GroupListing(it.group_id, kind, state, simple=not it.protocol_type and kind is GroupType.CLASSIC)


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
    future = session.admin.describe_cluster(
        include_authorized_operations=True, request_timeout=REQUEST_SECONDS
    )
    asked = Asked(session.alias, "describe", "the cluster", "DESCRIBE on the cluster")
    allowed = session.answer(future, asked).authorized_operations
    return AclOperation.DESCRIBE in (allowed or ())


def describe_groups(session: Session, names: Iterable[str]) -> Answers[str, GroupDescription]:
    """Describe classic and consumer groups with their members; one that does not exist is `dead`."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return Answers({})
    futures = session.admin.describe_consumer_groups(wanted, request_timeout=REQUEST_SECONDS)
    answers = session.answers(futures, lambda name: _asked(session.alias, name))
    missing = {
        name
        for name, error in answers.refused.items()
        if error.data.get("kafka_error") == "GROUP_ID_NOT_FOUND"
    }
    absent = {name: GroupDescription(name, GroupType.CLASSIC, GroupState.DEAD) for name in missing}
    return Answers(
        {name: _description(it) for name, it in answers.found.items()} | absent,
        {name: error for name, error in answers.refused.items() if name not in missing},
    )


def _asked(alias: str, name: str) -> Asked:
    return Asked(alias, "describe", f"group {name}", f"DESCRIBE on group {name}")


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
        tuple(
            GroupMember(member.member_id, member.client_id, member.host, member.group_instance_id)
            for member in it.members
        ),
    )
