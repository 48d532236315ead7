"""Recognise whose files they are: MM2's, Strimzi's, MirrorMaker 1's, Confluent Replicator's or MSK Replicator's."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties

from twinlog.config.file.properties_file import bytes_of, refuse_other_encodings
from twinlog.errors import ConfigError
from twinlog.migration.imports import mirror_maker_1, msk_replicator, replicator, strimzi
from twinlog.migration.imports.connectors import (
    Connector,
    EquivalentFile,
    LeftOut,
    configs_in,
    connectors_in,
    equivalent_file,
    plain_values,
)

HINT = "name JSON of connectors or an MSK Replicator, a KafkaMirrorMaker2, or properties of Connect or MirrorMaker 1"
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


@dataclass(frozen=True, slots=True)
class Imported:
    """The file that was made, and what its owner has to know before it is used."""

    file: EquivalentFile
    warnings: tuple[str, ...] = ()


def import_files(
    paths: Iterable[Path], offset_storage_topic: str = "", flow: str = "", topics: str = ""
) -> Imported:
    """Read files of one tool for one pair of clusters.  Raises ConfigError if they are of different tools."""
    documents = {path: _document(path) for path in paths}
    replicators = [
        (path, it) for path, found in documents.items() for it in configs_in(found) if _is_replicator(it)
    ]
    if replicators:
        return _of_replicator(documents, replicators, offset_storage_topic or topics, flow)
    managed = {path: it for path, found in documents.items() if (it := msk_replicator.described(found))}
    if managed:
        return _of_msk_replicator(documents, managed, offset_storage_topic or topics, flow)
    resources = [(path, it) for path, found in documents.items() for it in _parts(found) if _is_resource(it)]
    ours = resources or any(isinstance(it, _Properties) and "group.id" in it for it in documents.values())
    if (flow and not ours) or (topics and (resources or not ours)):
        raise ConfigError(
            "--flow and --topics do not fit these files",
            hint="--flow is for a KafkaMirrorMaker2 or MirrorMaker 1, --topics for MirrorMaker 1 only",
        )
    if resources:
        return _of_strimzi(documents, resources, offset_storage_topic, flow)
    if any(isinstance(it, _Properties) for it in documents.values()):
        return _of_properties(documents, offset_storage_topic, flow, topics)
    connectors = [it for path, found in documents.items() for it in connectors_in(found, path)]
    return _of_connect(connectors, offset_storage_topic)


class _Properties(dict[str, str]):
    """The lines of a properties file."""


def _document(path: Path) -> Any:
    content = bytes_of(path, HINT)
    text = content.decode("utf-8-sig", "replace")
    if text.lstrip()[:1] in {"{", "["}:
        try:
            return json.loads(text)
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
) -> Imported:
    if len(resources) > 1:
        raise ConfigError(
            "there are several KafkaMirrorMaker2 resources",
            hint="import one at a time: kubectl get kafkamirrormaker2 NAME -o yaml",
        )
    ((path, document),) = resources
    read = strimzi.read_resource(document, str(path), flow)
    topic = offset_storage_topic or read.offset_storage_topic
    beside = tuple(
        f"{file}: {_kind(part)} is left out: it is no {strimzi.KIND}"
        for file, found in documents.items()
        for part in _parts(found)
        if not _is_resource(part)
    )
    made = equivalent_file(read.connectors, topic, enabled=bool(topic))
    secrets = f"{strimzi.SECRETS}/" in made.text
    mounted = (f"mount each secret that the file names, below {strimzi.SECRETS}, or change the path",)
    return Imported(made, (*beside, *(mounted if secrets else ()), *(() if topic else (NO_POSITIONS,))))


def _of_connect(connectors: Iterable[Connector], offset_storage_topic: str) -> Imported:
    made = equivalent_file(connectors, offset_storage_topic, enabled=bool(offset_storage_topic))
    return Imported(made, () if offset_storage_topic else (NO_TOPIC,))


def _of_properties(
    documents: Mapping[Path, Any], offset_storage_topic: str, flow: str, topics: str
) -> Imported:
    files: dict[Path, _Properties] = {}
    for path, found in documents.items():
        if not isinstance(found, _Properties):
            raise ConfigError(f"{path} is of another tool than the other files", hint=HINT, file=str(path))
        files[path] = found
    connectors = {path: it for path, it in files.items() if "connector.class" in it}
    if not connectors:
        if offset_storage_topic:
            raise ConfigError("MirrorMaker 1 has no --offset-storage-topic", hint="leave it out")
        return _of_mirror_maker_1(files, flow, topics)
    left_out = [
        LeftOut(str(path), "worker", key, "belongs to the standalone worker, and there is none")
        for path, lines in files.items()
        if path not in connectors
        for key in lines
    ]
    found = [it for path, lines in connectors.items() for it in connectors_in(dict(lines), path)]
    made = equivalent_file(found, offset_storage_topic, enabled=bool(offset_storage_topic))
    made = EquivalentFile(made.text, (*made.left_out, *left_out))
    return Imported(made, () if offset_storage_topic else (NO_POSITIONS,))


def _of_mirror_maker_1(files: Mapping[Path, _Properties], flow: str, topics: str) -> Imported:
    consumers = [(path, it) for path, it in files.items() if "group.id" in it]
    producers = [(path, it) for path, it in files.items() if "group.id" not in it]
    if len(consumers) != 1 or len(producers) != 1 or _WORKER_FILE in producers[0][1]:
        raise ConfigError(
            "these are not MirrorMaker 1's two files: a consumer's, with group.id, and a producer's",
            hint=HINT,
        )
    made = mirror_maker_1.equivalent_of(consumers[0], producers[0], flow, topics)
    switched_off = _until_taken_over(consumers[0][1]["group.id"])
    excluded = "topics.exclude has MM2's default, which leaves out more topics than MM1 did: `twinlog plan`"
    return Imported(made, (switched_off, excluded))


def _until_taken_over(group: str) -> str:
    return (
        "the flow is switched off, as it would copy everything again behind the other tool's copies. Stop that tool,"
        f" switch the flow on, and first of all `twinlog takeover --source-group {shlex.quote(group)}`"
    )


def _of_msk_replicator(
    documents: Mapping[Path, Any], found: Mapping[Path, dict[str, Any]], others: str, flow: str
) -> Imported:
    if others:
        raise ConfigError("MSK Replicator's description says its topics", hint="give --flow alone")
    if len(documents) > 1:
        raise ConfigError("MSK Replicator is imported by itself", hint="name one file")
    ((path, replicator),) = found.items()
    read = msk_replicator.equivalent_of(str(path), replicator, flow)
    return Imported(read.file, (*read.supply, NO_POSITIONS))


def _is_replicator(config: Mapping[str, Any]) -> bool:
    return config.get("connector.class") == replicator.CLASS


def _of_replicator(
    documents: Mapping[Path, Any],
    found: Sequence[tuple[Path, Mapping[str, Any]]],
    others: str,
    flow: str,
) -> Imported:
    if others:
        raise ConfigError("Replicator's file says its topics and positions", hint="give --flow alone")
    if len(found) > 1 or len(documents) > 1:
        raise ConfigError("Replicator is imported by itself, one connector at a time", hint="name one file")
    ((path, config),) = found
    lines = plain_values(config, path)
    group = replicator.group_of(lines)
    if not group:
        raise ConfigError(f"{path} does not name the connector, which names its group", hint="add name")
    return Imported(replicator.equivalent_of(str(path), lines, flow), (_until_taken_over(group),))
