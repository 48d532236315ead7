"""The keys twinlog knows: those of the settings' fields, those of MM2 that have no effect here, and those that left.

The names and defaults of MM2's keys are those of Kafka 4.3.1's MirrorSourceConfig, MirrorCheckpointConfig and
MirrorHeartbeatConfig; ours start with `twinlog.`.
"""

from __future__ import annotations

from twinlog.config.file.keys import Home, Key, Kind, declared_name
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.flow.values import keys_of

_WITHOUT_EFFECT = {
    "there is no Connect worker": (
        Key("connector.class", Kind.STRING, None),
        Key("connector.plugin.version", Kind.STRING, None),
    ),
    "twinlog.lanes says how many lanes copy at once": (
        Key("tasks.max", Kind.INT, "1"),
        Key("tasks.max.enforce", Kind.BOOLEAN, "true"),
    ),
    "a cycle ends when its ranges are copied": (
        Key("consumer.poll.timeout.ms", Kind.LONG, "1000", given_home=Home.CONNECTOR),
    ),
    "each cycle reads the groups that there are": (Key("refresh.groups.enabled", Kind.BOOLEAN, "true"),),
    "requests to a cluster have a limit of their own": (Key("admin.timeout.ms", Kind.LONG, "60000"),),
    "Java classes cannot run here": (Key("forwarding.admin.class", Kind.CLASS, None),),
    "Java metric reporters cannot run here": (
        Key("metric.reporters", Kind.LIST, "org.apache.kafka.common.metrics.JmxReporter"),
        Key("metric.names.formats", Kind.LIST, "legacy"),
    ),
    "twinlog copies bytes and converts nothing": tuple(
        Key(f"{part}.converter{version}", kind, None)
        for part in ("key", "value", "header")
        for version, kind in (("", Kind.CLASS), (".plugin.version", Kind.STRING))
    ),
    "the file is read when a command or a task begins, and then no more": (
        Key("config.action.reload", Kind.STRING, "restart"),
    ),
    "Airflow and Spark decide how failures are retried and reported": (
        Key("errors.retry.timeout", Kind.LONG, "0"),
        Key("errors.retry.delay.max.ms", Kind.LONG, "60000"),
        Key("errors.tolerance", Kind.STRING, "none"),
        Key("errors.log.enable", Kind.BOOLEAN, "false"),
        Key("errors.log.include.messages", Kind.BOOLEAN, "false"),
    ),
}

WHY_UNUSED = {key.name: why for why, keys in _WITHOUT_EFFECT.items() for key in keys}
"""Why a key of MM2 has no effect, by the key."""

KEYS: dict[str, Key] = {key.name: key for _, _, key in keys_of(FlowSettings)} | {
    key.name: key for keys in _WITHOUT_EFFECT.values() for key in keys
}
"""Every key that twinlog reads by name, except Java client keys (java_keys.py); keys of tiers stand once for all."""

RENAMED = {f"{list_}.blacklist": f"{list_}.exclude" for list_ in ("topics", "groups", "config.properties")}
"""Names of older guides (Kafka 2.7-3.9, KIP-629), honoured with a warning; the new name wins."""

KNOWN_TO_CONNECTORS = frozenset(
    {"enabled"} | {key.name for key in KEYS.values() if key.home is Home.CONNECTOR}
)
"""MM2's known keys (MirrorMakerConfig) without client keys: the top-level keys that reach a connector."""


LEFT: dict[str, str] = {
    "twinlog.consistent.cut": "remove the line; applications on the target look for split transactions themselves",
    "twinlog.guarantee": "remove the line: records are copied exactly once; if it said at_least_once, let a cycle of"
    " the release before end well first",
    **{
        f"twinlog.{key}": f"remove the line: {instead}"
        for key, instead in {
            **dict.fromkeys(
                (f"data.quality.{it}" for it in ("suite", "topics", "stop", "sample.records", "side")),
                "a Great Expectations checkpoint of your own, on a Spark frame of the copy, checks contents",
            ),
            "failover.hook.attempts": "the hook is tried three times; a command may try as often as it likes",
            "failover.hook.timeout.seconds": "an attempt of the hook may take 30 seconds",
            "gate.canary.seconds": "the canary is awaited for two minutes",
            "gate.heartbeat.age.seconds": "a heartbeat may be as old as twinlog.rpo.seconds",
            "metrics.topics": "500 topics of a flow have numbers of their own",
            "on.deleted.both": "`twinlog topics forget` drops the state of a topic that both sides have lost",
            "reports.kept": "50 of each kind are kept; evidence is never deleted",
            "scram.users": "give users their logins on the target by kafka-configs",
            "transaction.ms": "a lane commits after ten seconds, or two thirds of twinlog.transaction.timeout.ms",
        }.items()
    },
}
"""What to do instead of a setting that left twinlog, by the key as it was declared."""


def is_named(name: str) -> bool:
    """Say whether this is a key of a tier, whatever its name."""
    declared = declared_name(name)
    return declared != name and declared in KEYS
