"""Turn MM2's connectors, as Kafka Connect holds them in JSON, into the equivalent mm2.properties file.

Accepts what Connect's REST API takes or returns: `{"name", "config"}`, a bare config object, a list of either, or `GET
/connectors?expand=info`.  The source connector is the authority; the checkpoint and heartbeat connectors add their own
keys.  If they contradict each other on a setting, it is refused.  What the file leaves out is listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from twinlog.config.file.java_keys import CLIENT_KEYS
from twinlog.config.flow.known_keys import KEYS, WHY_UNUSED
from twinlog.errors import ConfigError

_PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = ORDER = (
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
)
_DEFAULT_TARGET_ALIAS = "target"
_ANSWERED = frozenset({"name", "config", "tasks", "type"})
"""Keys that Connect adds to a connector's config in its answers."""


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector: the kind of its class, its name, its properties, and the file it was read from.

    `dropped` are keys of the JSON that are no properties, with the reason.
    """

    kind: str
    name: str
    properties: Mapping[str, str] = field(repr=False)
    file: str = ""
    dropped: Mapping[str, str] = field(default_factory=dict)

    @property
    def pair(self) -> tuple[str, str]:
        """Return the aliases of source and target; "" for a source that is not named."""
        return (
            self.properties.get("source.cluster.alias", ""),
            self.properties.get("target.cluster.alias", _DEFAULT_TARGET_ALIAS),
        )


def connectors_in(document: Any, path: Path) -> tuple[Connector, ...]:
    """Read the connectors in what a file holds.  Raises ConfigError if anything in it is not one of MM2's."""
    return tuple(_connector(*item, path) for item in _items(document, path))


def _items(document: Any, path: Path) -> Iterator[tuple[Mapping[str, Any], Mapping[str, str]]]:
    """Yield each connector's config with its name, and the keys that were written beside it."""
    match document:
        case list():
            for item in document:
                yield from _items(item, path)
        case {"config": dict() as config, **rest}:
            beside = {str(key): "is no property of a connector" for key in rest if key not in _ANSWERED}
            yield {**config, "name": rest.get("name", config.get("name", ""))}, beside
        case {"connector.class": _}:
            yield document, {}
        case dict() if document and all(
            isinstance(item, dict) and "info" in item for item in document.values()
        ):
            for item in document.values():
                yield from _items(item["info"], path)
        case _:
            raise ConfigError(
                f"{path} holds no connector", hint='it needs {"name": ..., "config": {...}}', file=str(path)
            )


def _plain_values(item: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return a config's values as a properties file has them, without nulls.  Raises ConfigError for a nested one."""
    for key, value in item.items():
        if isinstance(value, dict | list):
            raise ConfigError(f"{path}: {key} is no plain value", hint="write it as a string", file=str(path))
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value).strip()
        for key, value in item.items()
        if value is not None
    }


def _connector(item: Mapping[str, Any], beside: Mapping[str, str], path: Path) -> Connector:
    properties = _plain_values(item, path)
    kind = properties.get("connector.class", "").removeprefix(_PACKAGE)
    if kind not in ORDER:
        raise ConfigError(
            f"{path}: {kind or 'no connector.class'} is none of MM2's connectors",
            hint=f"name {', '.join(ORDER)}",
            file=str(path),
        )
    empty = {key: "is null" for key, value in item.items() if value is None}
    return Connector(kind, properties.get("name") or kind, properties, str(path), {**beside, **empty})


_IDENTITY = frozenset({"name", "connector.class", "source.cluster.alias", "target.cluster.alias"})

_PER_CONNECTOR = frozenset({"tasks.max", "enabled"})
"""Keys that may differ between the three connectors without a contradiction: the source connector's count."""

_SIDES = ("source.cluster.", "target.cluster.")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A line of the other tool that is not in the file; its value may be a secret and is not shown."""

    file: str
    owner: str
    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.file}: {self.owner}: {self.key} is left out: {self.why}"


@dataclass(frozen=True, slots=True)
class EquivalentFile:
    """The text of an mm2.properties file, what it leaves out, and what its owner has to know before it is used."""

    text: str = field(repr=False)
    left_out: tuple[LeftOut, ...] = ()
    warnings: tuple[str, ...] = ()


def equivalent_file(connectors: Iterable[Connector], offset_storage_topic: str = "") -> EquivalentFile:
    """Return the file for the connectors of one pair of clusters.

    `offset_storage_topic` is the `offset.storage.topic` of the Connect cluster they ran in: without it, replication
    does not resume where the connector stopped, and the flow is switched off.  Raises ConfigError if the
    connectors belong to different pairs or contradict each other, or if there is no source connector.
    """
    by_kind = _by_kind(connectors)
    source, target = _pair(by_kind)
    merged = _merged(by_kind)
    working = _working(by_kind)
    lines = {"clusters": f"{source}, {target}"}
    lines |= _cluster_lines(merged, source, target)
    lines[f"{source}->{target}.enabled"] = merged.get("enabled", "true") if offset_storage_topic else "false"
    if HEARTBEAT not in working:
        lines[f"{source}->{target}.emit.heartbeats.enabled"] = "false"
    if CHECKPOINT not in working:
        lines[f"{source}->{target}.emit.checkpoints.enabled"] = "false"
    lines[f"{target}->{source}.emit.heartbeats.enabled"] = "false"
    lines[f"{source}->{target}.twinlog.connector.name"] = by_kind[SOURCE].name
    if offset_storage_topic:
        lines[f"{target}.offset.storage.topic"] = offset_storage_topic
    lines |= _flow_lines(merged, source, target)
    return EquivalentFile(as_text(lines), tuple(_left_out(by_kind, lines, source, target)))


def _left_out(
    by_kind: Mapping[str, Connector], lines: Mapping[str, str], source: str, target: str
) -> Iterator[LeftOut]:
    """Compare every line of the JSON with the file: a line that is not there as it was written is named."""
    for connector in by_kind.values():
        left_out = partial(LeftOut, connector.file, connector.name)
        for key, why in connector.dropped.items():
            yield left_out(key, why)
        for key, value in connector.properties.items():
            if key == "name" and connector.kind != SOURCE:
                yield left_out(key, f"positions are kept under the name of the {SOURCE}")
            elif key not in _IDENTITY and lines.get(_line_of(key, source, target)) != value:
                yield left_out(key, _why(key, connector, by_kind))


def _line_of(key: str, source: str, target: str) -> str:
    for side, alias in zip(_SIDES, (source, target), strict=True):
        if key.startswith(side):
            return f"{alias}.{key.removeprefix(side)}"
    return f"{source}->{target}.{key}"


_ENABLED = {
    SOURCE: "where it stopped is not found, so the flow is switched off",
    CHECKPOINT: "its checkpoints are switched by emit.checkpoints.enabled",
    HEARTBEAT: "a heartbeat connector writes heartbeats whatever it says",
}
"""Why `enabled` of a connector is not in the file as it was written."""


def _why(key: str, connector: Connector, by_kind: Mapping[str, Connector]) -> str:
    side = next((it for it in _SIDES if key.startswith(it)), "")
    name = key.removeprefix(side)
    if side and name == "broker.list":
        return f"MM2 does not read it; addresses are in {side}bootstrap.servers"
    if side and name not in CLIENT_KEYS:
        role = side.removesuffix("cluster.")
        return f"MM2 takes only addresses and security from {side}*; give it to a role, such as {role}consumer.{name}"
    owner = _owner(key)
    if owner not in _working(by_kind):
        return f"no {owner} that is enabled is among the connectors, and no other reads it"
    if key == "enabled":
        return _ENABLED[connector.kind]
    return f"that of {by_kind[owner].name} counts"


def _working(by_kind: Mapping[str, Connector]) -> frozenset[str]:
    """Return the active kinds: `enabled` switches off the checkpoint connector, but no heartbeat connector."""
    checkpoints = by_kind.get(CHECKPOINT)
    off = checkpoints is not None and checkpoints.properties.get("enabled", "true").lower() == "false"
    return frozenset(kind for kind in by_kind if not (off and kind == CHECKPOINT))


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
    """Unite the properties: each key as its owner has it, plus the keys that only the others have.

    If only another connector sets a key of the source connector, taking it over would change what is copied.  So the
    value must equal the default, with which the source connector runs.
    """
    source, working = by_kind[SOURCE].properties, _working(by_kind)
    merged: dict[str, str] = {}
    for kind, connector in by_kind.items():
        for key, value in connector.properties.items():
            owner = _owner(key)
            if key in _IDENTITY or owner not in working or (kind != SOURCE and key in _PER_CONNECTOR):
                continue
            if owner == SOURCE and source.get(key, _default(key)) not in {None, value}:
                raise ConfigError(
                    f"{connector.file}: {connector.name} and {SOURCE} differ in {key}",
                    hint="a flow has one value for it; give both the same",
                    file=connector.file,
                    key=key,
                )
            if key not in merged or owner == kind:
                merged[key] = value
    return merged


def _default(key: str) -> str | None:
    known = KEYS.get(key)
    return known.default if known is not None and key not in WHY_UNUSED else None


def _cluster_lines(merged: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    return {
        _line_of(key, source, target): merged[key]
        for side in _SIDES
        for key in merged
        if key.startswith(side) and key.removeprefix(side) in CLIENT_KEYS
    }


def _flow_lines(merged: Mapping[str, str], source: str, target: str) -> dict[str, str]:
    """Put everything that does not belong to a cluster under the flow, unchanged."""
    own = {key: value for key, value in merged.items() if not key.startswith(_SIDES) and key != "enabled"}
    # `A.x` in a file beats `consumer.x`, `source.cluster.x` in a connector does not: write it for each side.
    for key in list(own):
        role, _, name = key.partition(".")
        if role in {"consumer", "producer", "admin"} and name in CLIENT_KEYS:
            for side in ("source", "target"):
                own.setdefault(f"{side}.{key}", own[key])
    lines = {f"{source}->{target}.{key}": value for key, value in own.items()}
    known = {f"{source}->{target}.{key}" for key in KEYS}
    return dict(sorted(lines.items(), key=lambda line: (line[0] not in known, line[0])))


def as_text(lines: Mapping[str, str]) -> str:
    """Return the text of a properties file."""
    from javaproperties import join_key_value

    head = "# Written by `twinlog migrate import`.\n"
    return head + "".join(f"{join_key_value(key, value, separator=' = ')}\n" for key, value in lines.items())
