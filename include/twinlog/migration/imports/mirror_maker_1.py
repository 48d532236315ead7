"""Turn MirrorMaker 1's consumer and producer files, and its whitelist, into an mm2.properties.

MM1 keeps topic names.  Its positions are those of a group on the source, of which a cycle knows nothing, so the flow is
written switched off until it is taken over (migration/source_group.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twinlog.config.file.java_keys import CLIENT_KEYS, ROLE_KEYS
from twinlog.errors import ConfigError
from twinlog.migration.imports.connectors import EquivalentFile, LeftOut, as_text

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_OWN = {
    "group.id": "twinlog keeps its own positions, on the target; `twinlog takeover --source-group` reads this group's",
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


def equivalent_of(
    consumer: tuple[Path, Mapping[str, str]],
    producer: tuple[Path, Mapping[str, str]],
    flow: str,
    topics: str,
) -> EquivalentFile:
    """Return the file.  Raises ConfigError if the flow has no two names."""
    source, target = named_clusters(flow, "MirrorMaker 1")
    if not topics:
        raise ConfigError("MirrorMaker 1 has its topics on its command line", hint="--topics 'orders|pay.*'")
    lines = {"clusters": f"{source}, {target}"}
    left_out: list[LeftOut] = []
    for alias, role, (file, properties) in (
        (source, "consumer", consumer),
        (target, "producer", producer),
    ):
        for key, value in properties.items():
            if key in _OWN:
                left_out.append(LeftOut(str(file), role, key, _OWN[key]))
            elif key in CLIENT_KEYS:
                lines[f"{alias}.{key}"] = value
            elif key in ROLE_KEYS[role]:
                lines[f"{alias}.{role}.{key}"] = value
            else:
                left_out.append(LeftOut(str(file), role, key, f"is no property of Kafka's {role}"))
    lines |= {
        f"{flow}.enabled": "false",
        f"{flow}.topics": topics,
        f"{flow}.replication.policy.class": IDENTITY,
        f"{target}->{source}.emit.heartbeats.enabled": "false",
    }
    return EquivalentFile(as_text(lines), tuple(left_out))


def named_clusters(flow: str, tool: str) -> tuple[str, str]:
    """Return the aliases of source and target that a flow names.  Raises ConfigError if it names none."""
    source, arrow, target = flow.partition("->")
    if not (source and arrow and target):
        raise ConfigError(f"{tool} has no names for its clusters", hint="name both: --flow 'A->B'")
    return source, target
