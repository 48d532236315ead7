"""MM2's connectors as Kafka Connect holds them (JSON) -> the mm2.properties file that means the same.

Takes what its REST API takes or gives: `{"name", "config"}`, a bare config object, a list of either, or
`GET /connectors?expand=info`.  The source connector is the authority; the checkpoint and heartbeat connectors
add their own keys.  A setting that they contradict each other on is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlog.config.java_keys import CLIENT_KEYS
from twinlog.config.keys import KEYS
from twinlog.errors import ConfigError

_PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = (
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
)
ORDER = (SOURCE, CHECKPOINT, HEARTBEAT)
_IDENTITY = frozenset({"name", "connector.class", "source.cluster.alias", "target.cluster.alias"})
_DEFAULT_TARGET_ALIAS = "target"
_PER_CONNECTOR = frozenset({"tasks.max", "enabled"})
"""Keys that may differ between the three connectors without a contradiction: the source connector's counts."""


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector: the kind of its class, its name, its properties, and the file it was read from."""

    kind: str
    name: str
    properties: Mapping[str, str] = field(repr=False)
    file: str = ""

    @property
    def pair(self) -> tuple[str, str]:
        """The aliases of source and target; "" for a source that is not named."""
        return (
            self.properties.get("source.cluster.alias", ""),
            self.properties.get("target.cluster.alias", _DEFAULT_TARGET_ALIAS),
        )


def read_connectors(paths: Iterable[Path]) -> tuple[Connector, ...]:
    """Read the connectors in JSON files; raises ConfigError for anything that is not MM2's connectors."""
    found: list[Connector] = []
    for path in paths:
        found += (_connector(item, path) for item in _items(_document(path), path))
    return tuple(found)


def properties_text(connectors: Iterable[Connector], offset_storage_topic: str = "") -> str:
    """Return the mm2.properties text for the connectors of one pair of clusters.

    `offset_storage_topic` is the `offset.storage.topic` of the Connect cluster they ran in: without it,
    replication does not resume where the connector stopped.  Raises ConfigError when the connectors belong to
    different pairs, contradict each other, or there is no source connector.
    """
    by_kind = _by_kind(connectors)
    source, target = _pair(by_kind)
    merged = _merged(by_kind)
    lines = {"clusters": f"{source}, {target}"}
    lines |= _cluster_lines(merged, source, target)
    lines[f"{source}->{target}.enabled"] = merged.get("enabled", "true")
    if HEARTBEAT not in by_kind:
        lines[f"{source}->{target}.emit.heartbeats.enabled"] = "false"
    if CHECKPOINT not in by_kind:
        lines[f"{source}->{target}.emit.checkpoints.enabled"] = "false"
    lines[f"{target}->{source}.emit.heartbeats.enabled"] = "false"
    lines[f"{source}->{target}.twinlog.connector.name"] = by_kind[SOURCE].name
    if offset_storage_topic:
        lines[f"{target}.offset.storage.topic"] = offset_storage_topic
    lines |= _flow_lines(merged, source, target)
    return _as_text(lines)


def _document(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(
            f"{path} does not exist", hint="name the JSON files of the connectors", file=str(path)
        ) from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", file=str(path)) from error
    except ValueError as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(
            f"{path} is no JSON{place}", hint="export it with Connect's REST API", file=str(path)
        ) from None


def _items(document: Any, path: Path) -> Iterator[Mapping[str, Any]]:
    match document:
        case list():
            for item in document:
                yield from _items(item, path)
        case {"config": dict() as config, **rest}:
            yield {**config, "name": rest.get("name", config.get("name", ""))}
        case {"connector.class": _}:
            yield document
        case dict() if document and all(
            isinstance(item, dict) and "info" in item for item in document.values()
        ):
            for item in document.values():
                yield from _items(item["info"], path)
        case _:
            raise ConfigError(
                f"{path} holds no connector", hint='it needs {"name": ..., "config": {...}}', file=str(path)
            )


def _connector(item: Mapping[str, Any], path: Path) -> Connector:
    for key, value in item.items():
        if isinstance(value, dict | list):
            raise ConfigError(f"{path}: {key} is no plain value", hint="write it as a string", file=str(path))
    properties = {
        key: str(value).lower() if isinstance(value, bool) else str(value).strip()
        for key, value in item.items()
        if value is not None
    }
    kind = properties.get("connector.class", "").removeprefix(_PACKAGE)
    if kind not in ORDER:
        raise ConfigError(
            f"{path}: {kind or 'no connector.class'} is none of MM2's connectors",
            hint=f"name {', '.join(ORDER)}",
            file=str(path),
        )
    return Connector(kind, properties.get("name") or kind, properties, str(path))


def _by_kind(connectors: Iterable[Connector]) -> dict[str, Connector]:
    found: dict[str, Connector] = {}
    for connector in connectors:
        if connector.kind in found:
            raise ConfigError(
                f"{connector.file}: a second {connector.kind} ({connector.name})",
                hint="import the connectors of one pair of clusters at a time",
                file=connector.file,
            )
        found[connector.kind] = connector
    if SOURCE not in found:
        raise ConfigError(
            f"there is no {SOURCE} among the connectors", hint="it says what is copied; add its file"
        )
    return {kind: found[kind] for kind in ORDER if kind in found}


def _pair(by_kind: Mapping[str, Connector]) -> tuple[str, str]:
    first = by_kind[SOURCE]
    if not first.pair[0]:
        raise ConfigError(f"{first.file}: {first.name} has no source.cluster.alias", file=first.file)
    for connector in by_kind.values():
        if connector.pair != first.pair:
            raise ConfigError(
                f"{connector.file}: {connector.name} is of {'->'.join(connector.pair)},"
                f" {first.name} of {'->'.join(first.pair)}",
                hint="import the connectors of one pair of clusters at a time",
                file=connector.file,
            )
    return first.pair


def _owner(key: str) -> str:
    if key.startswith((
        "emit.checkpoints.",
        "checkpoints.",
        "groups",
        "group.",
        "refresh.groups.",
        "sync.group.",
    )):
        return CHECKPOINT
    return HEARTBEAT if key.startswith(("emit.heartbeats.", "heartbeats.topic.")) else SOURCE


def _merged(by_kind: Mapping[str, Connector]) -> dict[str, str]:
    """Unite the properties: each key as its owner has it, and what only the others have.

    A setting of the source connector that only another one has would change what is copied: its default, which
    the source connector runs with, has to be the same.
    """
    source = by_kind[SOURCE].properties
    merged: dict[str, str] = {}
    for kind, connector in by_kind.items():
        for key, value in connector.properties.items():
            known = source.get(key, _default(key))
            if _owner(key) == SOURCE and known not in {None, value}:
                _allow_difference(key, connector)
            if key not in merged or _owner(key) == kind:
                merged[key] = value
    return {key: value for key, value in merged.items() if key not in _IDENTITY}


def _default(key: str) -> str | None:
    known = KEYS.get(key)
    return known.default if known is not None and known.used else None


def _allow_difference(key: str, connector: Connector) -> None:
    if connector.kind == SOURCE or key in _IDENTITY | _PER_CONNECTOR:
        return
    raise ConfigError(
        f"{connector.file}: {connector.name} and {SOURCE} differ in {key}",
        hint="a flow has one value for it; give both the same",
        file=connector.file,
        key=key,
    )


def _cluster_lines(merged: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    lines: dict[str, str] = {}
    for side, alias in (("source.cluster.", source), ("target.cluster.", target)):
        lines |= {
            f"{alias}.{key.removeprefix(side)}": value
            for key, value in merged.items()
            if key.startswith(side) and key.removeprefix(side) in CLIENT_KEYS
        }
    return lines


def _flow_lines(merged: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    """Everything that is not of a cluster stays as it is, under the flow."""
    own = {
        key: value
        for key, value in merged.items()
        if not key.startswith(("source.cluster.", "target.cluster.")) and key != "enabled"
    }
    # `A.x` of a file beats `consumer.x`, `source.cluster.x` of a connector does not: say it for each side.
    for key in list(own):
        role, _, name = key.partition(".")
        if role in {"consumer", "producer", "admin"} and name in CLIENT_KEYS:
            for side in ("source", "target"):
                own.setdefault(f"{side}.{key}", own[key])
    lines = {f"{source}->{target}.{key}": value for key, value in own.items()}
    known = {f"{source}->{target}.{key}" for key in KEYS}
    return dict(sorted(lines.items(), key=lambda line: (line[0] not in known, line[0])))


def _as_text(lines: Mapping[str, str]) -> str:
    from javaproperties import join_key_value

    head = "# Written by `twinlog import-connectors` from the connectors of Kafka Connect.\n"
    return head + "".join(f"{join_key_value(key, value, separator=' = ')}\n" for key, value in lines.items())
