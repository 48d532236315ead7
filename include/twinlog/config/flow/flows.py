"""Resolve one flow `A->B` of a file into FlowSettings: MM2's keys by MM2's rules, and our own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from twinlog.config.file import precedence
from twinlog.config.file.keys import KEYS, RENAMED
from twinlog.config.file.origin import Findings, Properties, Property
from twinlog.config.file.precedence import ROLES
from twinlog.config.file.providers import Providers
from twinlog.config.flow.clusters import PRODUCT, cluster_settings
from twinlog.config.flow.copying import copy_settings
from twinlog.config.flow.lives import lifecycle_settings
from twinlog.config.flow.metadata import metadata_settings
from twinlog.config.flow.promises import gate_settings, tiers
from twinlog.config.flow.proving import audit_settings, data_rules_settings
from twinlog.config.flow.reader import Reader, ResolvedValue
from twinlog.config.flow.settings import (
    CONTINUOUS,
    CycleRule,
    FlowSettings,
    GroupSyncPolicy,
    GroupSyncSettings,
)
from twinlog.config.security.connection import ClusterSettings
from twinlog.config.security.exposure import FETCH_SIZES, STEERING
from twinlog.errors import ConfigError
from twinlog.policy.load import policy_from_config
from twinlog.policy.replication import DefaultReplicationPolicy, ReplicationPolicy
from twinlog.policy.selection import NameFilter

BROKER_DEFAULT = -1
CRON = re.compile(r"[0-9*/,A-Za-z?#-]+( [0-9*/,A-Za-z?#-]+){4}")
STORAGE = "offset.storage."


class Location(StrEnum):
    """`offset-syncs.topic.location` (KIP-716)."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class ResolvedFlow:
    """A flow, and a record of each value that made it."""

    settings: FlowSettings
    values: tuple[ResolvedValue, ...]


@dataclass(frozen=True, slots=True)
class _Sources:
    """The properties of one flow after precedence, by their reader."""

    connector: Properties
    worker: Properties
    settings: Properties

    @classmethod
    def of(cls, raw: Properties, source: str, target: str) -> _Sources:
        connector = precedence.connector_config(raw, source, target)
        worker = precedence.worker_config(raw, source, target)
        storage = {key: value for key, value in worker.items() if key.startswith(STORAGE)}
        consumer = precedence.source_client(connector, "consumer")
        steering = {f"consumer.{key}": consumer[key] for key in STEERING if key in consumer}
        own = _derived(consumer) | precedence.own_settings(raw, connector)
        no_storage = {key: value for key, value in connector.items() if not key.startswith(STORAGE)}
        return cls(connector, worker, {**no_storage, **storage, **steering, **own})


def _derived(consumer: Properties) -> dict[str, Property]:
    """Let the relay fetch as much as the consumer may, unless our own key says otherwise."""
    return {ours: consumer[key].by(f"as {key}") for key, ours in FETCH_SIZES.items() if key in consumer}


def resolve_flow(
    raw: Properties, source: str, target: str, providers: Providers, findings: Findings
) -> ResolvedFlow:
    """Return the flow from `source` to `target`; mistakes go to `findings`, defaults take their place."""
    sources = _Sources.of(raw, source, target)
    read = Reader(sources.settings, providers, findings)
    _refuse_what_cannot_be_followed(read, source, target)
    ends = _ends(sources, source, target, read)
    storage_factor = _factor(read, "offset.storage.replication.factor")
    settings = FlowSettings(
        source=ends[0],
        target=ends[1],
        enabled=_enabled(read),
        policy=_policy(read, sources.connector, source),
        topics=_filter(read, "topics", "topics.exclude"),
        groups=_filter(read, "groups", "groups.exclude"),
        config_properties_exclude=_filter(read, None, "config.properties.exclude"),
        cycle_rule=read.choice("twinlog.cycle.rule", CycleRule),
        use_defaults_from=read.text("use.defaults.from"),
        replication_factor=_factor(read, "replication.factor"),
        internal_replication_factor=storage_factor,
        offset_syncs_topic_replication_factor=_factor(read, "offset-syncs.topic.replication.factor"),
        checkpoints_topic_replication_factor=_factor(read, "checkpoints.topic.replication.factor"),
        heartbeats_topic_replication_factor=_factor(read, "heartbeats.topic.replication.factor"),
        offset_storage_replication_factor=storage_factor,
        offset_storage_partitions=read.integer("offset.storage.partitions", at_least=1, also=BROKER_DEFAULT),
        offset_syncs_topic_location=read.choice("offset-syncs.topic.location", Location).value,
        offset_storage_topic=_offsets_topic(read),
        progress_on_source=_progress_on_source(raw, source, target, read),
        offset_lag_max=read.integer("offset.lag.max"),
        emit_offset_syncs=read.boolean("emit.offset-syncs.enabled"),
        emit_heartbeats=_switched_on(read, "emit.heartbeats"),
        heartbeats_interval_seconds=_seconds(read, "emit.heartbeats"),
        heartbeats_replication=read.boolean("heartbeats.replication.enabled"),
        emit_checkpoints=_switched_on(read, "emit.checkpoints"),
        emit_checkpoints_interval_seconds=_seconds(read, "emit.checkpoints"),
        sync_group_offsets=_switched_on(read, "sync.group.offsets"),
        sync_group_offsets_interval_seconds=_seconds(read, "sync.group.offsets"),
        group_sync=_group_sync(read),
        refresh_topics=_refresh_topics(read),
        refresh_groups_interval_seconds=_seconds(read, "refresh.groups"),
        sync_topic_configs=_switched_on(read, "sync.topic.configs"),
        sync_topic_configs_interval_seconds=_seconds(read, "sync.topic.configs"),
        sync_topic_acls=_switched_on(read, "sync.topic.acls"),
        sync_topic_acls_interval_seconds=_seconds(read, "sync.topic.acls"),
        connector_name=read.text("twinlog.connector.name") or read.text("name"),
        copy=copy_settings(read),
        schedule=_flow_schedule(read),
        audit=audit_settings(read, lambda key: _schedule(read, key)),
        data_rules=data_rules_settings(read),
        gate=gate_settings(read, lambda key: _schedule(read, key)),
        tiers=tiers(read, sources.settings, enabled=_enabled(read)),
        metadata=metadata_settings(read),
        lives=lifecycle_settings(read),
        metrics_folder=Path(folder) if (folder := read.text("twinlog.metrics.folder")) else None,
    )
    return ResolvedFlow(settings, tuple(read.trace.values()))


def _group_sync(read: Reader) -> GroupSyncSettings:
    policy = "twinlog.group.sync.policy"
    lists = {name: read.names(f"{policy}.{name}") for name in GroupSyncPolicy}
    for name, patterns in lists.items():
        _try_patterns(read, f"{policy}.{name}", patterns)
    try:
        filters = [NameFilter(lists[name]) for name in GroupSyncPolicy]
    except ConfigError:
        filters = [NameFilter(())] * len(lists)
    return GroupSyncSettings(read.choice(policy, GroupSyncPolicy), *filters)


def _enabled(read: Reader) -> bool:
    """Read a boolean as Java's parseBoolean does: anything but "true" is false (selection.py warns about it)."""
    return read.text("enabled").lower() == "true" or read.unresolved("enabled")


def _switched_on(read: Reader, subject: str) -> bool:
    """Say whether `x.enabled` is true and `x.interval.seconds` is not negative, which disables (MM2's Scheduler)."""
    return read.boolean(f"{subject}.enabled") and read.integer(f"{subject}.interval.seconds") >= 0


def _refresh_topics(read: Reader) -> bool:
    """Read `refresh.topics.enabled`; only the sign of the interval counts, since each cycle looks anyway."""
    key = "refresh.topics.interval.seconds"
    if read.has(key) and _seconds(read, "refresh.topics") == read.integer(key):
        read.note(key, "has no effect: each cycle looks for new topics; only a negative one counts")
    return _switched_on(read, "refresh.topics")


def _seconds(read: Reader, subject: str) -> int:
    key = f"{subject}.interval.seconds"
    seconds = read.integer(key)
    if seconds == 0:
        read.refuse(key, "0 is no interval", "set a number of seconds, or a negative one to switch it off")
    return seconds if seconds > 0 else int(KEYS[key].default or 0)


def _factor(read: Reader, key: str) -> int:
    return read.integer(key, at_least=1, also=BROKER_DEFAULT)


def _offsets_topic(read: Reader) -> str:
    """Prefer the connector's own offsets topic (KIP-618) to the worker's; "" means MM2's default name."""
    own = read.text("offsets.storage.topic")
    worker = read.text("offset.storage.topic")
    return own or (worker if read.origin("offset.storage.topic").line else "")


def _progress_on_source(raw: Properties, source: str, target: str, read: Reader) -> frozenset[str]:
    """Return the topics where flows into the source keep their progress, in this file or only in the other side's."""
    key = "offset.storage.topic"
    worker = precedence.worker_config(raw, target, source)[key]
    own = {it: value for it, value in raw.items() if it.endswith(f"->{source}.offsets.storage.topic")}
    written = own | ({key: worker} if worker.origin.line else {})
    return frozenset(filter(None, read.plain(written).values()))


def _flow_schedule(read: Reader) -> str:
    key = "twinlog.schedule"
    return CONTINUOUS if read.text(key).strip() == CONTINUOUS else _schedule(read, key)


def _schedule(read: Reader, key: str) -> str:
    schedule = " ".join(read.text(key).split())
    if read.has(key) and not _is_cron(schedule):
        shown = read.trace[key].shown
        read.refuse(key, f"{shown!r} is no cron expression of five fields", "e.g. */5 * * * *")
    return schedule


def _is_cron(text: str) -> bool:
    """Say whether Airflow will take it: five fields (croniter knows more forms), each within its range."""
    if not CRON.fullmatch(text):
        return False
    from croniter import croniter  # 0.1 s, which a file without a schedule does not pay

    return bool(croniter.is_valid(text))


def _filter(read: Reader, include_key: str | None, exclude_key: str) -> NameFilter:
    old = next(old for old, new in RENAMED.items() if new == exclude_key)
    if read.has(old) and not read.has(exclude_key):
        exclude_key = old
    include = read.names(include_key) if include_key else (".*",)
    exclude = read.names(exclude_key)
    if include_key:
        _try_patterns(read, include_key, include)
    _try_patterns(read, exclude_key, exclude)
    try:
        return NameFilter(include, exclude)
    except ConfigError:
        return NameFilter()


def _try_patterns(read: Reader, key: str, patterns: tuple[str, ...]) -> None:
    """Compile each list by itself, so that a bad pattern is reported with the line of its own list."""
    try:
        NameFilter(patterns)
    except ConfigError as error:
        message = "a pattern is no Java regular expression" if read.hidden(key) else error.message
        read.refuse(key, message, error.hint)


def _policy(read: Reader, connector: Properties, source: str) -> ReplicationPolicy:
    names = read.text("replication.policy.class")
    read.text("replication.policy.separator")
    read.boolean("replication.policy.internal.topic.separator.enabled")
    properties = read.plain({key: value for key, value in connector.items() if _is_for_policies(key)})
    try:
        return policy_from_config(names, properties, source)
    except ConfigError as error:
        key = str(error.data.get("key", "replication.policy.class"))
        message = "names no policy that can be used" if read.hidden(key) else error.message
        read.refuse(key, message.removeprefix(f"{key}: "), error.hint)
        return DefaultReplicationPolicy()


def _is_for_policies(key: str) -> bool:
    return key.startswith("replication.policy") or key in {"source.cluster.alias", "target.cluster.alias"}


def _refuse_what_cannot_be_followed(read: Reader, source: str, target: str) -> None:
    for key, alias in (("source.cluster.alias", source), ("target.cluster.alias", target)):
        if read.text(key) != alias:
            read.refuse(key, f"contradicts the flow {source}->{target}", "remove it")
    for key in ("topic.filter.class", "group.filter.class", "config.property.filter.class"):
        if read.text(key) not in {KEYS[key].default, (KEYS[key].default or "").rpartition(".")[2]}:
            read.refuse(key, "Java filter classes cannot run here", "use the include and exclude lists")
    for key in ("transforms", "predicates"):
        if read.names(key):
            read.refuse(key, "twinlog copies batches unread and applies no transforms", "remove it")


def _ends(
    sources: _Sources, source: str, target: str, read: Reader
) -> tuple[ClusterSettings, ClusterSettings]:
    client_id = f"{source}->{target}|{PRODUCT}"
    upstream = {role: precedence.source_client(sources.connector, role) for role in ROLES}
    downstream = {role: precedence.target_client(sources.connector, role) for role in ROLES}
    downstream["producer"] = precedence.data_producer(sources.worker, sources.connector)
    return (
        cluster_settings(source, upstream, "consumer", client_id, read),
        cluster_settings(target, downstream, "producer", client_id, read),
    )
