"""Read and change topic configurations; each value says where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from twinlog.cluster.portions import requests, rounds
from twinlog.cluster.refusals import Asked, sorted_out
from twinlog.cluster.values import Answers, Configs, ConfigSource, ConfigValue
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers

_TOPIC = 2
"""org.apache.kafka.common.config.ConfigResource.Type."""

SOURCES = {
    1: ConfigSource.TOPIC,
    2: ConfigSource.DYNAMIC_BROKER,
    3: ConfigSource.DYNAMIC_DEFAULT_BROKER,
    4: ConfigSource.STATIC_BROKER,
    5: ConfigSource.DEFAULT,
}
"""org.apache.kafka.common.requests.DescribeConfigsResponse.ConfigSource."""

_SET, _DELETE = 0, 1
"""org.apache.kafka.clients.admin.AlterConfigOp.OpType."""

TopicConfig = tuple[str, str]
"""A topic and the name of one of its configs."""


def topic_configs(brokers: Brokers, names: Iterable[str]) -> Answers[str, Configs]:
    """Return every configuration entry of the topics, defaults included, in one request."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return Answers({})
    api = kafka_python.DESCRIBE_CONFIGS
    resource = api.request.DescribeConfigsResource

    def ask() -> list[tuple[str, Any]]:
        resources = [
            resource(resource_type=_TOPIC, resource_name=name, configuration_keys=None) for name in wanted
        ]
        answer = brokers.ask_any(api, resources=resources, include_synonyms=False)
        return [(result.resource_name, result) for result in answer.results]

    return sorted_out(
        wanted,
        ask,
        parse_configs,
        lambda name: Asked.about(
            brokers.settings.alias, "read the configuration of", f"topic {name}", "DESCRIBE_CONFIGS"
        ),
    )


def alter_topic_configs(
    brokers: Brokers, changes: Mapping[str, Mapping[str, str | None]]
) -> Answers[TopicConfig, None]:
    """Set configs of topics, or remove them (None), leaving all others as they are (KIP-339).

    A broker accepts all changes of one topic or none. If it refused them, they are tried again one by one, so that a
    bad one does not hold up the rest.
    """
    first = _alter(brokers, changes)
    doubtful = {name: changes[name] for name, _ in first.refused if len(changes[name]) > 1}
    sure = {item: error for item, error in first.refused.items() if item[0] not in doubtful}
    again = (_alter(brokers, part) for part in rounds(doubtful))
    return Answers.joined((Answers(first.found, sure), *again))


def _alter(brokers: Brokers, changes: Mapping[str, Mapping[str, str | None]]) -> Answers[TopicConfig, None]:
    some = ((name, values) for name, values in changes.items() if values)
    turns = requests(some, lambda item: len(item[1]))  # each config makes one metadata record
    return Answers.joined(alter(brokers, dict(turn)) for turn in turns)


def alter(
    brokers: Brokers, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
) -> Answers[TopicConfig, None]:
    """Ask for changes of topics; with `validate_only` they are only judged."""
    api = kafka_python.ALTER_CONFIGS
    change = api.request.AlterConfigsResource

    def ask() -> list[tuple[str, Any]]:
        resources = [
            change(
                resource_type=_TOPIC,
                resource_name=name,
                configs=[
                    change.AlterableConfig(
                        name=key, config_operation=_DELETE if value is None else _SET, value=value
                    )
                    for key, value in values.items()
                ],
            )
            for name, values in changes.items()
        ]
        results = brokers.ask_controller(api, "responses", resources=resources, validate_only=validate_only)
        return [(result.resource_name, result) for result in results]

    answers = sorted_out(
        changes,
        ask,
        lambda _: None,
        lambda name: Asked.about(
            brokers.settings.alias, f"set {', '.join(changes[name])} of", f"topic {name}", "ALTER_CONFIGS"
        ),
    )
    return Answers(
        {(name, key): None for name in answers.found for key in changes[name]},
        {(name, key): error for name, error in answers.refused.items() for key in changes[name]},
    )


def parse_configs(answer: Any) -> Configs:
    """Return a topic's configuration as DescribeConfigs tells it."""
    return {
        entry.name: ConfigValue(
            name=entry.name,
            value=None if entry.is_sensitive else entry.value,
            source=SOURCES.get(entry.config_source, ConfigSource.UNKNOWN),
            read_only=entry.read_only,
            sensitive=entry.is_sensitive,
        )
        for entry in answer.configs
    }
