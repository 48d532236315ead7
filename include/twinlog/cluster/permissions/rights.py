"""Find out what this user may do on one cluster, without changing anything there.

Brokers list the allowed operations of topics, groups and the cluster in their describe answers (KIP-430), but only of
existing ones. For a topic that is still to be created, a request is sent that can change nothing. Brokers check the
permission first, and only then notice that there is no such topic, or nothing to do (KafkaApis, ControllerApis).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import admin as kafka_admin

from twinlog.cluster.admin.topics import describe_topics
from twinlog.cluster.permissions.needs import Kind, Need, Resource, Rights
from twinlog.cluster.permissions.probe import WriteProbe, may_read, may_write
from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session
from twinlog.cluster.values import NO_SUCH_TOPIC
from twinlog.config.security.connection import ConnectionSettings

Futures = Mapping[Any, Future[Any]]

TOPIC_OPERATIONS = frozenset({
    "READ",
    "WRITE",
    "CREATE",
    "DELETE",
    "ALTER",
    "DESCRIBE",
    "DESCRIBE_CONFIGS",
    "ALTER_CONFIGS",
})
CLUSTER_OPERATIONS = frozenset({"DESCRIBE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"})
IMPLYING_DESCRIBE = frozenset({"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"})
"""A user who may not DESCRIBE has none of these (org.apache.kafka.server.authorizer, implied operations)."""


def find_rights(
    session: Session, connection: ConnectionSettings, needs: Iterable[Need]
) -> dict[tuple[str, Resource], Rights]:
    """Find out the user's rights on every resource that `needs` of this cluster names.

    Raises ClusterUnreachable and ClusterRefused if the cluster cannot be asked at all.
    """
    ours = [need for need in needs if need.cluster == session.alias]
    wanted = {need.resource for need in ours}
    rights, missing = _described_topics(session, _names(wanted, Kind.TOPIC))
    rights |= _groups(session, _names(wanted, Kind.GROUP))
    if Resource(Kind.CLUSTER) in wanted:
        rights[Resource(Kind.CLUSTER)] = _cluster(session)
    operations = {operation for need in ours for operation in need.operations}
    unread = [name for name in missing if "READ" in _operations_on(ours, name)]
    parts = [_missing_topics(session, missing, operations), may_read(connection, unread)]
    if "IDEMPOTENT_WRITE" in operations:
        parts.append(may_write(connection, WriteProbe(_names(wanted, Kind.TRANSACTIONAL_ID), missing)))
    for resource, more in (item for part in parts for item in part.items()):
        rights[resource] = _both(rights.get(resource, Rights()), more)
    return {(session.alias, resource): right for resource, right in rights.items() if resource in wanted}


def _operations_on(needs: Iterable[Need], topic: str) -> set[str]:
    resource = Resource(Kind.TOPIC, topic)
    return {operation for need in needs if need.resource == resource for operation in need.operations}


def _names(wanted: Iterable[Resource], kind: Kind) -> tuple[str, ...]:
    return tuple(sorted(resource.name for resource in wanted if resource.kind is kind))


def _both(one: Rights, other: Rights) -> Rights:
    denied = one.denied | other.denied
    return Rights((one.granted | other.granted) - denied, denied)


def _described_topics(
    session: Session, names: Sequence[str]
) -> tuple[dict[Resource, Rights], tuple[str, ...]]:
    """Return the rights on topics, and the topics whose description did not tell everything."""
    answers = describe_topics(session, names)
    rights = {
        Resource(Kind.TOPIC, name): Rights(found.operations, TOPIC_OPERATIONS - found.operations)
        for name, found in answers.found.items()
    }
    for name, error in answers.refused.items():
        if error.code == "unauthorised":
            rights[Resource(Kind.TOPIC, name)] = Rights(denied=IMPLYING_DESCRIBE)
        elif error.code == NO_SUCH_TOPIC:
            rights[Resource(Kind.TOPIC, name)] = Rights(granted=frozenset({"DESCRIBE"}))
        else:
            raise error
    return rights, tuple(answers.refused)


def _missing_topics(
    session: Session, names: Sequence[str], wanted: Collection[str]
) -> dict[Resource, Rights]:
    """Send a request that needs each of the `wanted` operations on each topic; every request only validates."""
    rights: dict[Resource, Rights] = {}
    for operation, ask in ASKING.items():
        if operation not in wanted or not names:
            continue
        one = frozenset({operation})
        for name, denied in _denied(session, ask(session.admin, names)).items():
            resource = Resource(Kind.TOPIC, name)
            more = Rights(denied=one) if denied else Rights(granted=one)
            rights[resource] = _both(rights.get(resource, Rights()), more)
    return rights


def _ask_create(admin: kafka_admin.AdminClient, names: Sequence[str]) -> Futures:
    topics = [kafka_admin.NewTopic(name, num_partitions=1) for name in names]
    return admin.create_topics(topics, validate_only=True, request_timeout=REQUEST_SECONDS)  # type: ignore[no-any-return]


def _ask_alter(admin: kafka_admin.AdminClient, names: Sequence[str]) -> Futures:
    counts = [kafka_admin.NewPartitions(name, 1) for name in names]
    return admin.create_partitions(counts, validate_only=True, request_timeout=REQUEST_SECONDS)  # type: ignore[no-any-return]


def _ask_describe_configs(admin: kafka_admin.AdminClient, names: Sequence[str]) -> Futures:
    resources = [kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, name) for name in names]
    return admin.describe_configs(resources, request_timeout=REQUEST_SECONDS)  # type: ignore[no-any-return]


def _ask_alter_configs(admin: kafka_admin.AdminClient, names: Sequence[str]) -> Futures:
    changes = [_harmless_change(name) for name in names]
    return admin.incremental_alter_configs(  # type: ignore[no-any-return]
        changes, validate_only=True, request_timeout=REQUEST_SECONDS
    )


ASKING: Mapping[str, Callable[[kafka_admin.AdminClient, Sequence[str]], Futures]] = {
    "CREATE": _ask_create,
    "ALTER": _ask_alter,
    "DESCRIBE_CONFIGS": _ask_describe_configs,
    "ALTER_CONFIGS": _ask_alter_configs,
}


def _harmless_change(name: str) -> kafka_admin.ConfigResource:
    entry = kafka_admin.ConfigEntry(
        "cleanup.policy", "delete", incremental_operation=kafka_admin.AlterConfigOpType.SET
    )
    return kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, name, incremental_configs=[entry])


def _groups(session: Session, names: Sequence[str]) -> dict[Resource, Rights]:
    if not names:
        return {}
    futures = session.admin.describe_consumer_groups(
        list(names), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
    )
    answers = session.answers(
        futures, lambda name: Asked(session.alias, "describe", f"group {name}", "DESCRIBE")
    )
    rights = {}
    for name, found in answers.found.items():
        allowed = _operations(found.authorized_operations)
        rights[Resource(Kind.GROUP, name)] = Rights(allowed, frozenset({"READ", "DESCRIBE"}) - allowed)
    for name, error in answers.refused.items():
        # Any other refusal, such as of a group that does not exist, comes after the permission was checked.
        denied = error.code == "unauthorised"
        rights[Resource(Kind.GROUP, name)] = (
            Rights(denied=frozenset({"READ", "DESCRIBE"}))
            if denied
            else Rights(granted=frozenset({"DESCRIBE"}))
        )
    return rights


def _cluster(session: Session) -> Rights:
    """Return the rights on the cluster itself: a broker tells them only to a user who may DESCRIBE it (KafkaApis)."""
    future = session.admin.describe_cluster(
        include_authorized_operations=True, request_timeout=REQUEST_SECONDS
    )
    answer = session.answer(
        future, Asked(session.alias, "describe", "the cluster", "DESCRIBE on the cluster")
    )
    allowed = _operations(answer.authorized_operations)
    return Rights(allowed, CLUSTER_OPERATIONS - allowed)


def _operations(listed: Iterable[kafka_admin.AclOperation] | None) -> frozenset[str]:
    return frozenset(operation.name for operation in listed or ())


def _denied(session: Session, futures: Futures) -> dict[str, bool]:
    """Return whether each topic's request was refused for want of a permission; any other answer means it was not."""
    answers = session.answers(
        futures, lambda item: Asked(session.alias, "ask about", f"topic {_name(item)}", "")
    )
    refused = {_name(item): error.code == "unauthorised" for item, error in answers.refused.items()}
    return {_name(item): False for item in answers.found} | refused


def _name(item: Any) -> str:
    """Return the topic that a future is about: the key is its name, or a ConfigResource."""
    return str(getattr(item, "name", item))
