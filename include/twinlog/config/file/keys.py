"""The keys twinlog knows, each stated once: type, default, and where it may stand.

The names and defaults of MM2's keys are those of Kafka 4.3.1's MirrorSourceConfig, MirrorCheckpointConfig and
MirrorHeartbeatConfig; ours start with `twinlog.`.  docs/configuration.md says what each key means, and a test checks
that both agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a value, as Kafka's ConfigDef names them."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    LIST = "list"
    STRING = "string"
    CLASS = "class"


class Home(StrEnum):
    """Where a key belongs, which decides how it reaches a flow."""

    CONNECTOR = "connector"  # top level, or per flow `A->B.key`
    FLOW_ONLY = "flow"  # per flow `A->B.key`; MM2 drops it at the top level
    WORKER = "worker"  # per target cluster `B.key`, or top level (which wins for the storage keys)
    CONSUMER = "consumer"  # `A.consumer.key`, or per flow `A->B.consumer.key`
    OURS = "twinlog"  # top level, or per flow `A->B.twinlog.key`


@dataclass(frozen=True, slots=True)
class Key:
    """One key.  `default` is written as in a file, None if there is none; `used` False means without effect."""

    name: str
    kind: Kind
    default: str | None
    home: Home = Home.CONNECTOR
    used: bool = True
    why_unused: str = ""


_MM2 = "org.apache.kafka.connect.mirror."
_FILTERED_CONFIGS = (
    "follower.replication.throttled.replicas,leader.replication.throttled.replicas,"
    "message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,"
    "log.message.timestamp.after.max.ms,message.timestamp.type,unclean.leader.election.enable,"
    "min.insync.replicas"
)
_BYTES = "twinlog copies bytes and converts nothing"
_NO_WORKER = "there is no Connect worker"
_PLATFORM = "Airflow and Spark decide how failures are retried and reported"
_METRICS = "Java metric reporters cannot run here"


def _unused(name: str, kind: Kind, default: str | None, why: str, home: Home = Home.CONNECTOR) -> Key:
    return Key(name, kind, default, home, used=False, why_unused=why)


_CONNECTOR = (
    Key("enabled", Kind.BOOLEAN, "false", Home.FLOW_ONLY),
    Key("name", Kind.STRING, "MirrorSourceConnector"),
    Key("source.cluster.alias", Kind.STRING, None),
    Key("target.cluster.alias", Kind.STRING, None),
    Key("topics", Kind.LIST, ".*"),
    Key("topics.exclude", Kind.LIST, r"mm2.*\.internal,.*\.replica,__.*"),
    Key("topics.blacklist", Kind.LIST, None),
    Key("groups", Kind.LIST, ".*"),
    Key("groups.exclude", Kind.LIST, "console-consumer-.*,connect-.*,__.*"),
    Key("groups.blacklist", Kind.LIST, None),
    Key("config.properties.exclude", Kind.LIST, _FILTERED_CONFIGS),
    Key("config.properties.blacklist", Kind.LIST, None),
    Key("topic.filter.class", Kind.CLASS, _MM2 + "DefaultTopicFilter"),
    Key("group.filter.class", Kind.CLASS, _MM2 + "DefaultGroupFilter"),
    Key("config.property.filter.class", Kind.CLASS, _MM2 + "DefaultConfigPropertyFilter"),
    Key("use.defaults.from", Kind.STRING, "target", Home.FLOW_ONLY),
    Key("replication.policy.class", Kind.CLASS, _MM2 + "DefaultReplicationPolicy"),
    Key("replication.policy.separator", Kind.STRING, "."),
    Key("replication.policy.internal.topic.separator.enabled", Kind.BOOLEAN, "true"),
    Key("replication.factor", Kind.INT, "2"),
    Key("refresh.topics.enabled", Kind.BOOLEAN, "true"),
    Key("refresh.topics.interval.seconds", Kind.LONG, "600"),
    Key("refresh.groups.interval.seconds", Kind.LONG, "600"),
    Key("sync.topic.configs.enabled", Kind.BOOLEAN, "true"),
    Key("sync.topic.configs.interval.seconds", Kind.LONG, "600"),
    Key("sync.topic.acls.enabled", Kind.BOOLEAN, "true"),
    Key("sync.topic.acls.interval.seconds", Kind.LONG, "600"),
    Key("sync.group.offsets.enabled", Kind.BOOLEAN, "false"),
    Key("sync.group.offsets.interval.seconds", Kind.LONG, "60"),
    Key("emit.offset-syncs.enabled", Kind.BOOLEAN, "true"),
    Key("offset.lag.max", Kind.LONG, "100"),
    Key("offset-syncs.topic.location", Kind.STRING, "source"),
    Key("offset-syncs.topic.replication.factor", Kind.INT, "3"),
    Key("emit.checkpoints.enabled", Kind.BOOLEAN, "true"),
    Key("emit.checkpoints.interval.seconds", Kind.LONG, "60"),
    Key("checkpoints.topic.replication.factor", Kind.INT, "3"),
    Key("emit.heartbeats.enabled", Kind.BOOLEAN, "true"),
    Key("emit.heartbeats.interval.seconds", Kind.LONG, "1"),
    Key("heartbeats.topic.replication.factor", Kind.INT, "3"),
    Key("heartbeats.replication.enabled", Kind.BOOLEAN, "true"),
    Key("transforms", Kind.LIST, ""),
    Key("predicates", Kind.LIST, ""),
    Key("config.providers", Kind.LIST, ""),
    Key("offsets.storage.topic", Kind.STRING, None, Home.FLOW_ONLY),
    _unused("connector.class", Kind.STRING, None, _NO_WORKER),
    _unused("connector.plugin.version", Kind.STRING, None, _NO_WORKER),
    _unused("tasks.max", Kind.INT, "1", "twinlog.lanes says how many lanes copy at once"),
    _unused("tasks.max.enforce", Kind.BOOLEAN, "true", "twinlog.lanes says how many lanes copy at once"),
    _unused("consumer.poll.timeout.ms", Kind.LONG, "1000", "a cycle ends when its ranges are copied"),
    _unused("refresh.groups.enabled", Kind.BOOLEAN, "true", "each cycle reads the groups that there are"),
    _unused("admin.timeout.ms", Kind.LONG, "60000", "requests to a cluster have a limit of their own"),
    _unused("forwarding.admin.class", Kind.CLASS, None, "Java classes cannot run here"),
    _unused("metric.reporters", Kind.LIST, "org.apache.kafka.common.metrics.JmxReporter", _METRICS),
    _unused("metric.names.formats", Kind.LIST, "legacy", _METRICS),
    _unused("key.converter", Kind.CLASS, None, _BYTES),
    _unused("key.converter.plugin.version", Kind.STRING, None, _BYTES),
    _unused("value.converter", Kind.CLASS, None, _BYTES),
    _unused("value.converter.plugin.version", Kind.STRING, None, _BYTES),
    _unused("header.converter", Kind.CLASS, None, _BYTES),
    _unused("header.converter.plugin.version", Kind.STRING, None, _BYTES),
    _unused(
        "config.action.reload",
        Kind.STRING,
        "restart",
        "the file is read when a command or a task begins, and then no more",
    ),
    _unused("errors.retry.timeout", Kind.LONG, "0", _PLATFORM),
    _unused("errors.retry.delay.max.ms", Kind.LONG, "60000", _PLATFORM),
    _unused("errors.tolerance", Kind.STRING, "none", _PLATFORM),
    _unused("errors.log.enable", Kind.BOOLEAN, "false", _PLATFORM),
    _unused("errors.log.include.messages", Kind.BOOLEAN, "false", _PLATFORM),
)

_WORKER = (
    Key("offset.storage.topic", Kind.STRING, None, Home.WORKER),
    Key("offset.storage.partitions", Kind.INT, "25", Home.WORKER),
    Key("offset.storage.replication.factor", Kind.INT, "3", Home.WORKER),
)

_CONSUMER = (
    Key("consumer.isolation.level", Kind.STRING, "read_committed", Home.CONSUMER),
    Key("consumer.auto.offset.reset", Kind.STRING, "earliest", Home.CONSUMER),
)

_OURS = (
    Key("twinlog.guarantee", Kind.STRING, "exactly_once", Home.OURS),
    Key("twinlog.lanes", Kind.INT, None, Home.OURS),
    Key("twinlog.bytes.per.second", Kind.LONG, None, Home.OURS),
    Key("twinlog.transaction.bytes", Kind.LONG, "67108864", Home.OURS),
    Key("twinlog.transaction.ms", Kind.LONG, "10000", Home.OURS),
    Key("twinlog.transaction.timeout.ms", Kind.INT, "60000", Home.OURS),
    Key("twinlog.fetch.bytes", Kind.INT, "16777216", Home.OURS),
    Key("twinlog.partition.fetch.bytes", Kind.INT, "4194304", Home.OURS),
    Key("twinlog.on.poison.record", Kind.STRING, "fail", Home.OURS),
    Key("twinlog.on.recreated", Kind.STRING, "fail", Home.OURS),
    Key("twinlog.on.deleted", Kind.STRING, "keep", Home.OURS),
    Key("twinlog.on.deleted.both", Kind.STRING, "keep", Home.OURS),
    Key("twinlog.on.gap", Kind.STRING, "fail", Home.OURS),
    Key("twinlog.metrics.folder", Kind.STRING, None, Home.OURS),
    Key("twinlog.cycle.rule", Kind.STRING, "mm2-4.3", Home.OURS),
    Key("twinlog.group.sync.policy", Kind.STRING, "never-rewind", Home.OURS),
    Key("twinlog.group.sync.policy.never-rewind", Kind.LIST, "", Home.OURS),
    Key("twinlog.group.sync.policy.follow", Kind.LIST, "", Home.OURS),
    Key("twinlog.group.sync.policy.force", Kind.LIST, "", Home.OURS),
    Key("twinlog.spark.master", Kind.STRING, "local[2]", Home.OURS),
    Key("twinlog.follow.seconds", Kind.LONG, "60", Home.OURS),
    Key("twinlog.schedule", Kind.STRING, "* * * * *", Home.OURS),
    Key("twinlog.metadata.profile", Kind.STRING, "standby", Home.OURS),
    Key("twinlog.metadata.approval", Kind.BOOLEAN, "false", Home.OURS),
    Key("twinlog.sync.quotas.enabled", Kind.BOOLEAN, "false", Home.OURS),
    Key("twinlog.scram.users", Kind.LIST, None, Home.OURS),
    Key("twinlog.connector.name", Kind.STRING, None, Home.OURS),
    Key("twinlog.rpo.seconds", Kind.LONG, "300", Home.OURS),
    Key("twinlog.lag.records", Kind.LONG, "0", Home.OURS),
    Key("twinlog.undecided.seconds", Kind.LONG, "900", Home.OURS),
    Key("twinlog.audit.percent", Kind.INT, None, Home.OURS),
    Key("twinlog.tier.NAME.topics", Kind.LIST, None, Home.OURS),
    Key("twinlog.tier.NAME.rpo.seconds", Kind.LONG, None, Home.OURS),
    Key("twinlog.tier.NAME.lag.records", Kind.LONG, None, Home.OURS),
    Key("twinlog.tier.NAME.audit.percent", Kind.INT, None, Home.OURS),
    Key("twinlog.audit.schedule", Kind.STRING, "45 * * * *", Home.OURS),
    Key("twinlog.data.quality.suite", Kind.STRING, None, Home.OURS),
    Key("twinlog.data.quality.topics", Kind.LIST, ".*", Home.OURS),
    Key("twinlog.data.quality.sample.records", Kind.INT, "1000", Home.OURS),
    Key("twinlog.data.quality.side", Kind.STRING, "target", Home.OURS),
    Key("twinlog.data.quality.stop", Kind.BOOLEAN, "false", Home.OURS),
    Key("twinlog.gate.schedule", Kind.STRING, "0 6 * * *", Home.OURS),
    Key("twinlog.gate.fence.seconds", Kind.LONG, "10", Home.OURS),
    Key("twinlog.gate.state.age.seconds", Kind.LONG, "3600", Home.OURS),
    Key("twinlog.gate.audit.age.seconds", Kind.LONG, "86400", Home.OURS),
    Key("twinlog.gate.heartbeat.age.seconds", Kind.LONG, "300", Home.OURS),
    Key("twinlog.gate.canary.seconds", Kind.LONG, "120", Home.OURS),
    Key("twinlog.gate.free.disk.percent", Kind.INT, "10", Home.OURS),
    Key("twinlog.gate.schemas.topic", Kind.STRING, "_schemas", Home.OURS),
    Key("twinlog.gate.blocking", Kind.LIST, "", Home.OURS),
    Key("twinlog.gate.sign.with", Kind.STRING, None, Home.OURS),
    Key("twinlog.alert.url", Kind.STRING, None, Home.OURS),
    Key("twinlog.reports.folder", Kind.STRING, None, Home.OURS),
    Key("twinlog.reports.kept", Kind.INT, "50", Home.OURS),
)

KEYS: dict[str, Key] = {key.name: key for key in (*_CONNECTOR, *_WORKER, *_CONSUMER, *_OURS)}
"""Every key that twinlog reads by name, except Java client keys (java_keys.py)."""

_TIER = re.compile(r"twinlog\.tier\.([A-Za-z0-9_-]+)\.(.+)")


def tier_key(name: str) -> tuple[str, str] | None:
    """Split a key of a tier into the tier's name and the key as in the table; None for any other key."""
    found = _TIER.fullmatch(name)
    return (found[1], f"twinlog.tier.NAME.{found[2]}") if found else None


def key_of(name: str) -> Key | None:
    """Look up a key; keys of tiers are in the table once for all tiers."""
    tier = tier_key(name)
    return KEYS.get(tier[1] if tier else name)


KNOWN_TO_CONNECTORS: frozenset[str] = frozenset(
    {"enabled"}
    | {key.name for key in _CONNECTOR if key.home is Home.CONNECTOR and not key.name.startswith("offsets.")}
)
"""MM2's known keys (MirrorMakerConfig) without client keys: the top-level keys that reach a connector.

The `*.blacklist` names are those of Kafka 2.7-3.9, kept on purpose."""

RENAMED: dict[str, str] = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
"""Names of older guides (KIP-629), honoured with a warning; the new name wins."""

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|credential|jaas\.config|keystore\.key$|scram\.users$|(?<!public)\.key$"
    r"|api\.?key|token$|token\.value|alert\.url$",
    re.IGNORECASE,
)
_PUBLIC = frozenset({"sasl.oauthbearer.client.credentials.client.id"})


def is_secret(key: str) -> bool:
    """Say whether values of this key are never shown: Kafka's PASSWORD types and keys that sound like one."""
    return bool(_SECRET.search(key)) and not any(key.endswith(name) for name in _PUBLIC)


_WHOLE = re.compile(r"[+-]?[0-9]+")


def whole_number(text: str) -> int:
    """Read digits with or without a sign; other texts that Python's int accepts raise ValueError."""
    if not _WHOLE.fullmatch(text):
        raise ValueError
    return int(text)
