"""Turn a connector of Confluent Replicator into an mm2.properties.

The rules are those of its public reference (docs.confluent.io, "Replicator Configuration Reference").  Replicator has
no names for its clusters.  It commits its positions as a group on the source (`offset.topic.commit`), so the flow is
written switched off until it is taken over (migration/source_group.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from twinlog.config.file.java_keys import CLIENT_KEYS, ROLE_KEYS
from twinlog.errors import ConfigError
from twinlog.migration.imports.connectors import EquivalentFile, LeftOut, as_text
from twinlog.migration.imports.mirror_maker_1 import IDENTITY, named_clusters

CLASS: Final = "io.confluent.connect.replicator.ReplicatorSourceConnector"
_BYTES: Final = "io.confluent.connect.replicator.util.ByteArrayConverter"
_CONVERTERS: Final = ("src.key.converter", "src.value.converter")
_OWN: Final = {
    "name": "names its group, which `twinlog takeover --source-group` reads",
    "connector.class": "there is no connector",
    "src.consumer.group.id": "twinlog keeps its own positions; `twinlog takeover --source-group` reads this group's",
    "topic.preserve.partitions": "twinlog keeps the partition of each record",
    "topic.auto.create": "twinlog creates topics that are missing",
    "offset.topic.commit": "positions are committed with the records",
    "offset.start": "twinlog goes on where its own positions are",
    "offset.timestamps.commit": "offsets are translated by the exact map, not by times",
    "header.converter": "headers are copied as they are",
    "key.converter": "twinlog copies bytes and converts nothing",
    "value.converter": "twinlog copies bytes and converts nothing",
    "src.header.converter": "headers are copied as they are",
    **dict.fromkeys(_CONVERTERS, "twinlog copies bytes and converts nothing"),
}
_MILLISECONDS: Final = {
    "topic.poll.interval.ms": "refresh.topics.interval.seconds",
    "topic.config.sync.interval.ms": "sync.topic.configs.interval.seconds",
}
_SAME: Final = {
    "tasks.max": "tasks.max",
    "topic.config.sync": "sync.topic.configs.enabled",
    "dest.topic.replication.factor": "replication.factor",
}
_NAMES_AND_TOPICS: Final = frozenset({
    "topic.whitelist",
    "topic.regex",
    "topic.blacklist",
    "topic.rename.format",
})
_ALWAYS_EXCLUDED: Final = ("__.*", r"mm2.*\.internal")
"""Kafka's own topics, which Replicator does not copy either, and those of twinlog."""


def group_of(config: Mapping[str, str]) -> str:
    """Return the group that holds the connector's positions."""
    return config.get("src.consumer.group.id") or config.get("name", "")


def equivalent_of(file: str, config: Mapping[str, str], flow: str) -> EquivalentFile:
    """Return the file.  Raises ConfigError for names, topics or converters that twinlog has no equal of."""
    source, target = named_clusters(flow, "Replicator")
    for key in _CONVERTERS:
        if config.get(key, _BYTES).rpartition(".")[2] != "ByteArrayConverter":
            raise ConfigError(
                f"{file}: {key} = {config[key]} changes records on their way, and twinlog copies bytes",
                hint="copy these topics anew, or go on with Replicator for them",
                file=file,
                key=key,
            )
    lines = {"clusters": f"{source}, {target}", f"{flow}.enabled": "false"}
    lines |= _topics(file, config, flow) | _names(file, config, flow, source)
    left_out: list[LeftOut] = []
    for key, value in config.items():
        if (line := _line(key, value, flow, source, target)) is not None:
            lines[line[0]] = line[1]
        elif key not in _NAMES_AND_TOPICS:
            why = _OWN.get(key, "is Replicator's own, and twinlog has nothing like it")
            left_out.append(LeftOut(file, config.get("name", "Replicator"), key, why))
    lines[f"{target}->{source}.emit.heartbeats.enabled"] = "false"
    return EquivalentFile(as_text(lines), tuple(left_out))


def _topics(file: str, config: Mapping[str, str], flow: str) -> dict[str, str]:
    """Return which topics are copied: those of the list and those that match, but those that are excluded."""
    regex = config.get("topic.regex", "")
    if "," in regex:
        raise ConfigError(
            f"{file}: topic.regex has a comma, which divides patterns in `topics`",
            hint="write it as several patterns without a comma",
            file=file,
            key="topic.regex",
        )
    names = [*_listed(config, "topic.whitelist"), *([regex] if regex else ())]
    if not names:
        raise ConfigError(f"{file}: neither topic.whitelist nor topic.regex names a topic", file=file)
    lines = {f"{flow}.topics": ",".join(names)}
    if excluded := list(_listed(config, "topic.blacklist")):
        lines[f"{flow}.topics.exclude"] = ",".join((*excluded, *_ALWAYS_EXCLUDED))
    return lines


def _listed(config: Mapping[str, str], key: str) -> Iterator[str]:
    return (it.strip().replace(".", r"\.") for it in config.get(key, "").split(",") if it.strip())


def _names(file: str, config: Mapping[str, str], flow: str, source: str) -> dict[str, str]:
    """Return the policy that names copies alike: the topic's own name, or the source's alias before it."""
    form = config.get("topic.rename.format", "${topic}")
    before, variable, after = form.partition("${topic}")
    if form == "${topic}":
        return {f"{flow}.replication.policy.class": IDENTITY}
    separator = before.removeprefix(source)
    if not variable or after or separator == before or len(separator) != 1:
        raise ConfigError(
            f"{file}: topic.rename.format = {form}: twinlog names a copy as its topic, or puts the source's alias and"
            " one character before it",
            hint=f"such as {source}.${{topic}}: choose the alias with --flow; else copy these topics anew",
            file=file,
            key="topic.rename.format",
        )
    return {f"{flow}.replication.policy.separator": separator}


def _line(key: str, value: str, flow: str, source: str, target: str) -> tuple[str, str] | None:
    """Return the line of the file that a key becomes by itself."""
    side, _, name = key.partition(".kafka.")
    role = key.removeprefix("src.consumer.")
    if key in _SAME or key.startswith(("transforms", "predicates")):
        return f"{flow}.{_SAME.get(key, key)}", value
    if key in _MILLISECONDS and value.isdigit():
        return f"{flow}.{_MILLISECONDS[key]}", str(max(1, int(value) // 1000))
    if side in {"src", "dest"} and name in CLIENT_KEYS:
        return f"{source if side == 'src' else target}.{name}", value
    if role != key and role in ROLE_KEYS["consumer"] and key not in _OWN:
        return f"{source}.consumer.{role}", value
    return None
