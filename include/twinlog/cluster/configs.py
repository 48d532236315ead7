"""Topic configurations, with where each value comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from confluent_kafka import admin as kafka_admin

from twinlog.cluster.refusals import Asked
from twinlog.cluster.session import REQUEST_SECONDS, Session
from twinlog.cluster.values import Answers, ConfigSource, ConfigValue

SOURCES = {
    kafka_admin.ConfigSource.DYNAMIC_TOPIC_CONFIG.value: ConfigSource.TOPIC,
    kafka_admin.ConfigSource.DYNAMIC_BROKER_CONFIG.value: ConfigSource.DYNAMIC_BROKER,
    kafka_admin.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    kafka_admin.ConfigSource.STATIC_BROKER_CONFIG.value: ConfigSource.STATIC_BROKER,
    kafka_admin.ConfigSource.DEFAULT_CONFIG.value: ConfigSource.DEFAULT,
}


def topic_configs(session: Session, names: Iterable[str]) -> Answers[str, Mapping[str, ConfigValue]]:
    """Every configuration entry of the topics, defaults included, in one request."""
    resources = {
        kafka_admin.ConfigResource(kafka_admin.ConfigResource.Type.TOPIC, name): name
        for name in dict.fromkeys(names)
    }
    if not resources:
        return Answers({})
    futures = session.admin.describe_configs(list(resources), request_timeout=REQUEST_SECONDS)
    by_name = {resources[resource]: future for resource, future in futures.items()}
    answers = session.answers(by_name, lambda name: _asked(session, name))
    return Answers({name: parse_configs(entries) for name, entries in answers.found.items()}, answers.refused)


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


def _asked(session: Session, name: str) -> Asked:
    return Asked(
        session.alias, "read the configuration of", f"topic {name}", f"DESCRIBE_CONFIGS on topic {name}"
    )
