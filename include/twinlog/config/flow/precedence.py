"""Decide which line of the file wins: MM2's dedicated-mode precedence (MirrorMakerConfig), as layers.

Sources: MirrorMakerConfig.clusterProps, .connectorBaseConfig, .workerConfig and MirrorClientConfig of Kafka 4.3.1.
Nothing is expanded here: `${...}` stays as written (MirrorMakerConfigTest.testLazyConfigResolution), so secrets stay
references until a client needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from twinlog.config.file.java_keys import CLIENT_KEYS, ROLE_KEYS
from twinlog.config.file.origin import DEFAULT, Properties, Property, given
from twinlog.config.flow.known_keys import KNOWN_TO_CONNECTORS

ROLES = tuple(ROLE_KEYS)
CONNECTOR_KEYS = KNOWN_TO_CONNECTORS | (CLIENT_KEYS - {"bootstrap.servers"})
PASSED_BY_PREFIX = ("config.providers", "replication.policy")
WORKER_PREFIXES = (
    "offset.storage",
    "config.storage",
    "status.storage",
    "key.converter",
    "value.converter",
    "header.converter",
    "task",
    "worker",
    "replication.policy",
)
BYTE_ARRAY = "org.apache.kafka.connect.converters.ByteArrayConverter"
OURS = "twinlog."
CONSUMER_DEFAULTS = {"auto.offset.reset": given("earliest")}
CONSUMER_FORCED = {"enable.auto.commit": given("false", "always")}


@dataclass(frozen=True, slots=True)
class Layer:
    """One rule: the properties it gives for a pair (source, target), and whether it beats the layers before it."""

    rule: str
    gives: Callable[[Properties, str, str], Properties]
    overrides: bool = True


def cluster_properties(raw: Properties, alias: str) -> Properties:
    """Return `A.key` without prefix, client keys spread over the roles, top-level client keys as fallback."""
    return _stacked(CLUSTER_LAYERS, raw, alias, alias)


def connector_config(raw: Properties, source: str, target: str) -> Properties:
    """Return what MM2 submits as configuration of the connectors of `source->target`."""
    return _stacked(CONNECTOR_LAYERS, raw, source, target)


def worker_config(raw: Properties, source: str, target: str) -> Properties:
    """Return the configuration of the Connect worker of `source->target`; it talks to the target."""
    return _stacked(WORKER_LAYERS, raw, source, target)


def client_config(raw: Properties, alias: str, role: str) -> Properties:
    """Return what MirrorClient gives a client: only CLIENT keys survive, and the role's prefix wins."""
    everything = {**raw, **cluster_properties(raw, alias)}
    return _client_keys({**everything, **_stripped(everything, f"{role}.")})


def connector_client(connector: Properties, side: str, role: str) -> Properties:
    """Return the properties of MM2's own client of its "source" or its "target", by role (MirrorConnectorConfig)."""
    basics = _client_keys(_stripped(connector, f"{side}.cluster."))
    result = {**basics, **_stripped(connector, f"{role}."), **_stripped(connector, f"{side}.{role}.")}
    return {**CONSUMER_DEFAULTS, **result, **CONSUMER_FORCED} if role == "consumer" else result


def data_producer(worker: Properties, connector: Properties) -> Properties:
    """Return the data producer's properties: the worker's, then `A->B.producer.override.*`, as MM2 does."""
    base = {key: value for key, value in worker.items() if key == "bootstrap.servers"}
    return {**base, **_stripped(worker, "producer."), **_stripped(connector, "producer.override.")}


def own_settings(raw: Properties, connector: Properties) -> Properties:
    """Return the `twinlog.*` keys: the flow's own override the top level's."""
    top = {key: value.by("top level") for key, value in _prefixed(raw, [OURS]).items()}
    return {**top, **_prefixed(connector, [OURS])}


def _stacked(layers: Iterable[Layer], raw: Properties, source: str, target: str) -> Properties:
    result: dict[str, Property] = {}
    for layer in layers:
        for key, value in layer.gives(raw, source, target).items():
            if layer.overrides or key not in result:
                result[key] = value.by(layer.rule)
    return result


def _stripped(properties: Properties, prefix: str) -> Properties:
    return {
        key.removeprefix(prefix): value
        for key, value in properties.items()
        if key.startswith(prefix) and key != prefix
    }


def _prefixed(properties: Properties, prefixes: Iterable[str]) -> Properties:
    return {key: value for key, value in properties.items() if key.startswith(tuple(prefixes))}


def _client_keys(properties: Properties) -> Properties:
    return {key: value for key, value in properties.items() if key in CLIENT_KEYS}


def _for_every_role(properties: Properties) -> Properties:
    return {f"{role}.{key}": value for key, value in _client_keys(properties).items() for role in ROLES}


def _side(raw: Properties, alias: str, side: str) -> Properties:
    """Give cluster properties their connector names: `source.<role>...`, all others `source.cluster.`."""
    return {
        f"{side}.{key}" if key.startswith(ROLES) else f"{side}.cluster.{key}": value
        for key, value in cluster_properties(raw, alias).items()
    }


# In each table a later layer beats the ones before it, unless `overrides=False`: then it only fills in.
CLUSTER_LAYERS: tuple[Layer, ...] = (
    Layer("its own key", lambda raw, alias, _: _stripped(raw, f"{alias}.")),
    Layer(
        "its own key, for every client",
        lambda raw, alias, _: _for_every_role(_stripped(raw, f"{alias}.")),
        overrides=False,
    ),
    Layer(
        "top level, for every client",
        lambda raw, _a, _b: {**_for_every_role(raw), **_client_keys(raw)},
        overrides=False,
    ),
)

CONNECTOR_LAYERS: tuple[Layer, ...] = (
    Layer("top level", lambda raw, _a, _b: {k: v for k, v in raw.items() if k in CONNECTOR_KEYS}),
    Layer("top level, by prefix", lambda raw, _a, _b: _prefixed(raw, PASSED_BY_PREFIX)),
    Layer("source cluster", lambda raw, source, _: _side(raw, source, "source")),
    Layer("target cluster", lambda raw, _, target: _side(raw, target, "target")),
    Layer(
        DEFAULT,
        lambda _raw, source, target: {
            "name": given("MirrorSourceConnector"),
            "connector.class": given("org.apache.kafka.connect.mirror.MirrorSourceConnector"),
            "source.cluster.alias": given(source),
            "target.cluster.alias": given(target),
        },
        overrides=False,
    ),
    Layer("flow", lambda raw, source, target: _stripped(raw, f"{source}->{target}.")),
    Layer(DEFAULT, lambda _r, _a, _b: {"enabled": given("false")}, overrides=False),
)

WORKER_LAYERS: tuple[Layer, ...] = (
    Layer("target cluster", lambda raw, _, target: cluster_properties(raw, target)),
    Layer("top level, by prefix (beats the cluster)", lambda raw, _a, _b: _prefixed(raw, WORKER_PREFIXES)),
    Layer("top level, by prefix", lambda raw, _a, _b: _prefixed(raw, PASSED_BY_PREFIX[:1])),
    Layer(
        DEFAULT,
        lambda _raw, source, target: {
            "client.id": given(f"{source}->{target}"),
            "group.id": given(f"{source}-mm2"),
            "offset.storage.topic": given(f"mm2-offsets.{source}.internal"),
            "status.storage.topic": given(f"mm2-status.{source}.internal"),
            "config.storage.topic": given(f"mm2-configs.{source}.internal"),
            **{f"{part}.converter": given(BYTE_ARRAY) for part in ("key", "value", "header")},
        },
        overrides=False,
    ),
)
