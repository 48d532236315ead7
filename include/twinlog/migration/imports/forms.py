"""Recognise whose files they are: MM2's, Strimzi's or MirrorMaker 1's."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import javaproperties

from twinlog.config.file.java_keys import CLIENT_KEYS, ROLE_KEYS
from twinlog.config.file.properties_file import bytes_of, refuse_other_encodings
from twinlog.errors import ConfigError
from twinlog.jsonable import from_json
from twinlog.migration.imports import strimzi
from twinlog.migration.imports.connectors import (
    EquivalentFile,
    LeftOut,
    as_text,
    connectors_in,
    equivalent_file,
)

HINT = "name JSON of connectors, a KafkaMirrorMaker2, or properties of Connect or MirrorMaker 1"
NO_POSITIONS = (
    "the flow is switched off: twinlog does not find where the other tool stopped, and would copy everything again"
    " behind its copies. Switch it on when the copies on the target are deleted"
)
NO_TOPIC = (
    "the flow is switched off: without --offset-storage-topic twinlog does not find where the connectors stopped, and"
    " would copy everything again behind their copies. Name that topic, or switch the flow on when the copies on the"
    " target are deleted"
)
_WORKER_FILE = "offset.storage.file.filename"
_CLASS = "connector.class"
_IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_OWN_OF_MM1 = {
    "group.id": "its own positions are on the target; `twinlog migrate takeover --source-group` reads this group's",
    "client.id": "names an MM1 that will be gone",
    "auto.offset.reset": "twinlog begins at the first record that the source holds",
    "partition.assignment.strategy": "twinlog divides partitions among its lanes",
    "exclude.internal.topics": "topics.exclude says which topics are left out",
    "key.serializer": "twinlog copies bytes and converts nothing",
    "value.serializer": "twinlog copies bytes and converts nothing",
    "key.deserializer": "twinlog copies bytes and converts nothing",
    "value.deserializer": "twinlog copies bytes and converts nothing",
    "enable.auto.commit": "positions are committed with the records",
    "auto.commit.interval.ms": "positions are committed with the records",
}


def import_files(
    paths: Iterable[Path], offset_storage_topic: str = "", flow: str = "", topics: str = ""
) -> EquivalentFile:
    """Read files of one tool for one pair of clusters.  Raises ConfigError if they are of different tools."""
    documents = {path: _document(path) for path in paths}
    resources = [(path, it) for path, found in documents.items() for it in _parts(found) if _is_resource(it)]
    plain = {path: it for path, it in documents.items() if isinstance(it, _Properties)}
    clients = any("group.id" in it for it in plain.values())
    if (flow and not (resources or clients)) or (topics and (resources or not clients)):
        raise ConfigError(
            "--flow and --topics do not fit these files",
            hint="--flow is for a KafkaMirrorMaker2 or MirrorMaker 1, --topics for MirrorMaker 1 only",
        )
    if resources:
        return _of_strimzi(documents, resources, offset_storage_topic, flow)
    if plain and (other := next((path for path in documents if path not in plain), None)):
        raise ConfigError(f"{other} is of another tool than the other files", hint=HINT, file=str(other))
    if plain and not any(_CLASS in it for it in plain.values()):
        if offset_storage_topic:
            raise ConfigError("MirrorMaker 1 has no --offset-storage-topic", hint="leave it out")
        return _of_mirror_maker_1(plain, flow, topics)
    workers = {path: it for path, it in plain.items() if _CLASS not in it}
    found = [
        it for path, read in documents.items() if path not in workers for it in connectors_in(read, path)
    ]
    made = equivalent_file(found, offset_storage_topic)
    why = "belongs to the standalone worker, and there is none"
    left_out = (LeftOut(str(path), "worker", key, why) for path, lines in workers.items() for key in lines)
    unknown = () if offset_storage_topic else (NO_POSITIONS if plain else NO_TOPIC,)
    return replace(made, left_out=(*made.left_out, *left_out), warnings=unknown)


class _Properties(dict[str, str]):
    """The lines of a properties file."""


def _document(path: Path) -> Any:
    content = bytes_of(path, HINT)
    text = content.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return from_json(text)
        except json.JSONDecodeError as error:
            raise ConfigError(
                f"{path} is no JSON at line {error.lineno}", hint=HINT, file=str(path)
            ) from None
    if re.search(r"^(kind|apiVersion):\s", text, re.MULTILINE):
        return _yaml(text, path)
    refuse_other_encodings(path, content)
    try:
        return _Properties(javaproperties.loads(content.decode("latin-1")))
    except javaproperties.InvalidUEscapeError:
        raise ConfigError(f"{path} is no properties file", hint=HINT, file=str(path)) from None


def _yaml(text: str, path: Path) -> Any:
    import yaml

    try:
        return [it for it in yaml.safe_load_all(text) if it is not None]
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path} is no YAML{place}", hint=HINT, file=str(path)) from None


def _parts(document: Any) -> Iterator[Any]:
    """Yield what a document holds one by one, also of a List as kubectl writes it."""
    match document:
        case list():
            for part in document:
                yield from _parts(part)
        case {"kind": str(kind), "items": list(items)} if kind != strimzi.KIND:
            yield from _parts(items)
        case _:
            yield document


def _is_resource(part: Any) -> bool:
    return isinstance(part, dict) and part.get("kind") == strimzi.KIND


def _kind(part: Any) -> str:
    return str(part["kind"]) if isinstance(part, dict) and "kind" in part else "a document without a kind"


def _of_strimzi(
    documents: Mapping[Path, Any],
    resources: list[tuple[Path, dict[str, Any]]],
    offset_storage_topic: str,
    flow: str,
) -> EquivalentFile:
    if len(resources) > 1:
        raise ConfigError(
            "there are several KafkaMirrorMaker2 resources",
            hint="import one at a time: kubectl get kafkamirrormaker2 NAME -o yaml",
        )
    ((path, document),) = resources
    read = strimzi.read_resource(document, str(path), flow)
    topic = offset_storage_topic or read.offset_storage_topic
    made = equivalent_file(read.connectors, topic)
    warnings = [
        f"{file}: {_kind(part)} is left out: it is no {strimzi.KIND}"
        for file, found in documents.items()
        for part in _parts(found)
        if not _is_resource(part)
    ]
    if f"{strimzi.SECRETS}/" in made.text:
        warnings.append(f"mount each secret that the file names, below {strimzi.SECRETS}, or change the path")
    return replace(made, warnings=(*warnings, *(() if topic else (NO_POSITIONS,))))


def _of_mirror_maker_1(files: Mapping[Path, _Properties], flow: str, topics: str) -> EquivalentFile:
    """Return the file.  Raises ConfigError if the flow has no two names.

    MM1 keeps topic names.  Its positions are those of a group on the source, of which a cycle knows nothing, so the
    flow is written switched off until it is taken over (migration/copier.py).
    """
    consumers = [it for it in files.items() if "group.id" in it[1]]
    producers = [it for it in files.items() if "group.id" not in it[1]]
    if len(consumers) != 1 or len(producers) != 1 or _WORKER_FILE in producers[0][1]:
        raise ConfigError(
            "these are not MirrorMaker 1's two files: a consumer's, with group.id, and a producer's",
            hint=HINT,
        )
    source, arrow, target = flow.partition("->")
    if not (source and arrow and target):
        raise ConfigError("MirrorMaker 1 has no names for its clusters", hint="name both: --flow 'A->B'")
    if not topics:
        raise ConfigError("MirrorMaker 1 has its topics on its command line", hint="--topics 'orders|pay.*'")
    lines = {"clusters": f"{source}, {target}"}
    left_out: list[LeftOut] = []
    for alias, role, (file, properties) in (
        (source, "consumer", consumers[0]),
        (target, "producer", producers[0]),
    ):
        for key, value in properties.items():
            if key in _OWN_OF_MM1:
                left_out.append(LeftOut(str(file), role, key, _OWN_OF_MM1[key]))
            elif key in CLIENT_KEYS:
                lines[f"{alias}.{key}"] = value
            elif key in ROLE_KEYS[role]:
                lines[f"{alias}.{role}.{key}"] = value
            else:
                left_out.append(LeftOut(str(file), role, key, f"is no property of Kafka's {role}"))
    lines |= {
        f"{flow}.enabled": "false",
        f"{flow}.topics": topics,
        f"{flow}.replication.policy.class": _IDENTITY,
        f"{target}->{source}.emit.heartbeats.enabled": "false",
    }
    group = consumers[0][1]["group.id"]
    switched_off = (
        "the flow is switched off, as it would copy everything again behind the other tool's copies. Stop that tool,"
        f" switch the flow on, and first of all `twinlog migrate takeover --source-group {shlex.quote(group)}`"
    )
    excluded = "topics.exclude has MM2's default, which leaves out more topics than MM1 did: `twinlog plan`"
    return EquivalentFile(as_text(lines), tuple(left_out), (switched_off, excluded))
