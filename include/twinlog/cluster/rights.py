"""What this user may do on one cluster, found out without changing anything there.

Brokers list the allowed operations of topics, groups and the cluster in their describe answers (KIP-430),
but only of what exists.  For a topic that is still to be created a request is sent that can change nothing:
brokers check the permission first and only then notice that there is no such topic, or that nothing was to be
done (KafkaApis, ControllerApis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import admin as kafka_admin

from twinlog.cluster.permissions import Kind, Need, Resource, Rights
from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session
from twinlog.cluster.topics import describe_topics
from twinlog.cluster.write_probe import WriteProbe, may_write
from twinlog.config.connection import ConnectionSettings

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
IMPLYING_DESCRIBE = frozenset({"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"})
"""Who may not DESCRIBE has none of these (org.apache.kafka.server.authorizer, implied operations)."""


def find_rights(
    session: Session, connection: ConnectionSettings, needs: Iterable[Need]
) -> dict[tuple[str, Resource], Rights]:
    """Find out what is allowed of everything that `needs` of this cluster asks for.

    Raises ClusterUnreachable and ClusterRefused when the cluster cannot be asked at all.
    """
    wanted = {need.resource for need in needs if need.cluster == session.alias}
    topics, missing = _described_topics(session, _names(wanted, Kind.TOPIC))
    rights = {
        **topics,
        **_groups(session, _names(wanted, Kind.GROUP)),
    }
    if Resource(Kind.CLUSTER) in wanted:
        rights[Resource(Kind.CLUSTER)] = _cluster(session)
    written = may_write(connection, WriteProbe(_names(wanted, Kind.TRANSACTIONAL_ID), missing))
    for part in (_missing_topics(session, missing), written):
        for resource, more in part.items():
            rights[resource] = _both(rights.get(resource, Rights()), more)
    return {(session.alias, resource): right for resource, right in rights.items() if resource in wanted}


def _names(wanted: Iterable[Resource], kind: Kind) -> tuple[str, ...]:
    return tuple(sorted(resource.name for resource in wanted if resource.kind is kind))


def _both(one: Rights, other: Rights) -> Rights:
    denied = one.denied | other.denied
    return Rights((one.granted | other.granted) - denied, denied)


def _described_topics(
    session: Session, names: Sequence[str]
) -> tuple[dict[Resource, Rights], tuple[str, ...]]:
    """Return the rights on topics, and those topics whose description did not tell everything."""
    answers = describe_topics(session, names)
    rights = {
        Resource(Kind.TOPIC, name): Rights(found.operations, TOPIC_OPERATIONS - found.operations)
        for name, found in answers.found.items()
    }
    for name, error in answers.refused.items():
        if error.code == "unauthorised":
            rights[Resource(Kind.TOPIC, name)] = Rights(denied=IMPLYING_DESCRIBE)
        elif error.code == "unknown-topic":
            rights[Resource(Kind.TOPIC, name)] = Rights(granted=frozenset({"DESCRIBE"}))
        else:
            raise error
    return rights, tuple(answers.refused)


def _missing_topics(session: Session, names: Sequence[str]) -> dict[Resource, Rights]:
    """Ask for what would need CREATE, ALTER and the two config operations; every request only validates."""
    if not names:
        return {}
    admin = session.admin
    configs = [kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, name) for name in names]
    requests: dict[str, Mapping[Any, Future[Any]]] = {
        "CREATE": admin.create_topics(
            [kafka_admin.NewTopic(name, num_partitions=1) for name in names],
            validate_only=True,
            request_timeout=REQUEST_SECONDS,
        ),
        "ALTER": admin.create_partitions(
            [kafka_admin.NewPartitions(name, 1) for name in names],
            validate_only=True,
            request_timeout=REQUEST_SECONDS,
        ),
        "DESCRIBE_CONFIGS": admin.describe_configs(configs, request_timeout=REQUEST_SECONDS),
        "ALTER_CONFIGS": admin.incremental_alter_configs(
            [_harmless_change(name) for name in names], validate_only=True, request_timeout=REQUEST_SECONDS
        ),
    }
    rights: dict[Resource, Rights] = {}
    for operation, futures in requests.items():
        for name, denied in _denied(session, futures, lambda item: str(getattr(item, "name", item))).items():
            resource, one = Resource(Kind.TOPIC, name), frozenset({operation})
            rights[resource] = _both(
                rights.get(resource, Rights()), Rights(denied=one) if denied else Rights(granted=one)
            )
    return rights


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
        if error.code == "unauthorised":
            rights[Resource(Kind.GROUP, name)] = Rights(denied=frozenset({"READ", "DESCRIBE"}))
    return rights


def _cluster(session: Session) -> Rights:
    """Rights on the cluster itself: a broker tells them only to who may DESCRIBE it (KafkaApis)."""
    future = session.admin.describe_cluster(
        include_authorized_operations=True, request_timeout=REQUEST_SECONDS
    )
    answer = session.answer(
        future, Asked(session.alias, "describe", "the cluster", "DESCRIBE on the cluster")
    )
    allowed = _operations(answer.authorized_operations)
    return Rights(allowed, frozenset({"DESCRIBE", "ALTER"}) - allowed)


def _operations(listed: Iterable[kafka_admin.AclOperation] | None) -> frozenset[str]:
    return frozenset(operation.name for operation in listed or ())


def _denied(
    session: Session, futures: Mapping[Any, Future[Any]], name_of: Callable[[Any], str]
) -> dict[str, bool]:
    """Whether each request was refused for want of a permission; any other answer means it was allowed."""
    answers = session.answers(
        futures, lambda item: Asked(session.alias, "ask about", f"topic {name_of(item)}", "")
    )
    refused = {name_of(item): error.code == "unauthorised" for item, error in answers.refused.items()}
    return {name_of(item): False for item in answers.found} | refused
