"""Read MM2's connectors from JSON, as Kafka Connect holds them.

Accepts what Connect's REST API takes or returns: `{"name", "config"}`, a bare config object, a list of either, or `GET
/connectors?expand=info`.  connect_properties.py makes a file of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinlog.errors import ConfigError

_PACKAGE = "org.apache.kafka.connect.mirror."
SOURCE, CHECKPOINT, HEARTBEAT = (
    "MirrorSourceConnector",
    "MirrorCheckpointConnector",
    "MirrorHeartbeatConnector",
)
ORDER = (SOURCE, CHECKPOINT, HEARTBEAT)
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


def read_connectors(paths: Iterable[Path]) -> tuple[Connector, ...]:
    """Read the connectors in JSON files.  Raises ConfigError if anything in them is not one of MM2's connectors."""
    found: list[Connector] = []
    for path in paths:
        found += (_connector(*item, path) for item in _items(_document(path), path))
    return tuple(found)


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


def _connector(item: Mapping[str, Any], beside: Mapping[str, str], path: Path) -> Connector:
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
    empty = {key: "is null" for key, value in item.items() if value is None}
    return Connector(kind, properties.get("name") or kind, properties, str(path), {**beside, **empty})
