"""Read and change topic configurations; each value says where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import admin as kafka_admin

from twinlog.cluster.session import REQUEST_SECONDS, Asked, Session, requests, rounds
from twinlog.cluster.values import Answers, ConfigSource, ConfigValue
from twinlog.errors import TwinlogError

SOURCES = {
    kafka_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value: ConfigSource.TOPIC,
    kafka_admin.ConfigSource.DYNAMIC_BROKER_CONFIG.value: ConfigSource.DYNAMIC_BROKER,
    kafka_admin.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    kafka_admin.ConfigSource.STATIC_BROKER_CONFIG.value: ConfigSource.STATIC_BROKER,
    kafka_admin.ConfigSource.DEFAULT_CONFIG.value: ConfigSource.DEFAULT,
}

TopicConfig = tuple[str, str]
"""A topic and the name of one of its configs."""


def topic_configs(session: Session, names: Iterable[str]) -> Answers[str, Mapping[str, ConfigValue]]:
    """Return every configuration entry of the topics, defaults included, in one request."""
    resources = {
        kafka_admin.ConfigResource(kafka_admin.ConfigResource.Type.TOPIC, name): name
        for name in dict.fromkeys(names)
    }
    if not resources:
        return Answers({})
    answers = session.answers(
        lambda admin: _by_name(
            resources, admin.describe_configs(list(resources), request_timeout=REQUEST_SECONDS)
        ),
        lambda name: Asked.about(
            session.alias, "read the configuration of", f"topic {name}", "DESCRIBE_CONFIGS"
        ),
    )
    return Answers({name: parse_configs(entries) for name, entries in answers.found.items()}, answers.refused)


def alter_topic_configs(
    session: Session, changes: Mapping[str, Mapping[str, str | None]]
) -> Answers[TopicConfig, None]:
    """Set configs of topics, or remove them (None), leaving all others as they are (KIP-339).

    A broker accepts all changes of one topic or none. If it refused them, they are tried again one by one, so that a
    bad one does not hold up the rest.
    """
    first = _alter(session, changes)
    doubtful = {name: changes[name] for name, _ in first.refused if len(changes[name]) > 1}
    found = dict(first.found)
    refused = {item: error for item, error in first.refused.items() if item[0] not in doubtful}
    for part in rounds(doubtful):
        answers = _alter(session, part)
        found |= answers.found
        refused |= answers.refused
    return Answers(found, refused)


def _alter(session: Session, changes: Mapping[str, Mapping[str, str | None]]) -> Answers[TopicConfig, None]:
    found: dict[TopicConfig, None] = {}
    refused: dict[TopicConfig, TwinlogError] = {}
    some = ((name, values) for name, values in changes.items() if values)
    for request in requests(some, lambda item: len(item[1])):  # each config makes one metadata record
        answers = _alter_at_once(session, dict(request))
        found |= answers.found
        refused |= answers.refused
    return Answers(found, refused)


def _alter_at_once(
    session: Session, changes: Mapping[str, Mapping[str, str | None]]
) -> Answers[TopicConfig, None]:
    resources = {_alteration(name, values): name for name, values in changes.items()}
    answers = session.answers(
        lambda admin: _by_name(
            resources, admin.incremental_alter_configs(list(resources), request_timeout=REQUEST_SECONDS)
        ),
        lambda name: Asked.about(
            session.alias, f"set {', '.join(changes[name])} of", f"topic {name}", "ALTER_CONFIGS"
        ),
        changes=True,
    )
    return Answers(
        {(name, key): None for name in answers.found for key in changes[name]},
        {(name, key): error for name, error in answers.refused.items() for key in changes[name]},
    )


def _by_name(
    names: Mapping[kafka_admin.ConfigResource, str], futures: Mapping[kafka_admin.ConfigResource, Any]
) -> dict[str, Any]:
    return {names[resource]: future for resource, future in futures.items()}


def _alteration(name: str, values: Mapping[str, str | None]) -> kafka_admin.ConfigResource:
    operations = kafka_admin.AlterConfigOpType
    entries = [
        kafka_admin.ConfigEntry(
            key, value, incremental_operation=operations.DELETE if value is None else operations.SET
        )
        for key, value in values.items()
    ]
    return kafka_admin.ConfigResource(
        kafka_admin.ConfigResource.Type.TOPIC, name, incremental_configs=entries
    )


def parse_configs(entries: Mapping[str, kafka_admin.ConfigEntry]) -> Mapping[str, ConfigValue]:
    """Turn the client library's entries into ours; the source comes as a plain number."""
    return {
        name: ConfigValue(
            name=name,
            value=None if entry.is_sensitive else entry.value,
            source=SOURCES.get(int(entry.source), ConfigSource.UNKNOWN),
            read_only=entry.is_read_only,
            sensitive=entry.is_sensitive,
        )
        for name, entry in entries.items()
    }
