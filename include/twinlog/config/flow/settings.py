"""The configuration as the rest of twinlog sees it: typed, resolved, frozen.

`twinlog.config.flow.load.load(path)` builds these values from an mm2.properties file.  Each field says which key it is
read from (values.py), `plan --explain` where a value came from.  Times are in ms, sizes in bytes, unless named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import ClassVar

from twinlog.config.file.keys import Home, Key, Kind
from twinlog.config.flow.copying import CopySettings, LifecycleSettings
from twinlog.config.flow.failover import FailoverSettings
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.flow.metrics import MetricsSettings
from twinlog.config.flow.tiers import AuditSettings, GateSettings, Tier
from twinlog.config.flow.transforms import TransformKeys
from twinlog.config.flow.values import (
    BOOLEAN,
    CONNECTOR_NAME,
    CONTINUOUS,
    EXCLUDED_CONFIGS,
    FACTOR,
    IS_TRUE,
    OFFSETS_TOPIC,
    PATTERNS,
    POLICY,
    REFRESH_TOPICS,
    SCHEDULE,
    SECONDS,
    SWITCH,
    TEXT,
    choice,
    made_of,
    name_filter,
    section,
    sections,
    setting,
    whole,
)
from twinlog.config.security.connection import ClusterSettings
from twinlog.errors import UsageError
from twinlog.policy import state_topics
from twinlog.policy.replication import ReplicationPolicy
from twinlog.policy.selection import NameFilter, is_drilled, why_left_out
from twinlog.transforms.chain import NO_CHAIN, Chain

FILTERED_CONFIGS = (
    "follower.replication.throttled.replicas,leader.replication.throttled.replicas,"
    "message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,"
    "log.message.timestamp.after.max.ms,message.timestamp.type,unclean.leader.election.enable,"
    "min.insync.replicas"
)


class CycleRule(StrEnum):
    """The release whose cycle check applies (`twinlog.cycle.rule`); mm2-4.4 also refuses the source alias."""

    MM2_4_3 = "mm2-4.3"
    MM2_4_4 = "mm2-4.4"


class GroupSyncPolicy(StrEnum):
    """Name what may happen to a group's position on the target if its translation lies before it."""

    NEVER_REWIND = "never-rewind"
    FOLLOW = "follow"
    FORCE = "force"


class CopiedBy(StrEnum):
    """Name who copies a flow (`twinlog.copied.by`)."""

    TWINLOG = "twinlog"
    MIRROR_MAKER = "mirrormaker2"
    MIRRORING = "mirroring"
    OTHER = "other"


class OffsetSyncsLocation(StrEnum):
    """The cluster that holds the offset syncs (`offset-syncs.topic.location`, KIP-716)."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class GroupSyncSettings:
    """The policy for all groups, and lists of group patterns for some.

    If several lists match a group, the most careful policy applies: never-rewind, then follow, then force.
    """

    policy: GroupSyncPolicy = setting(choice(GroupSyncPolicy), "twinlog.group.sync.policy", "never-rewind")
    """what group sync does when a group's translated position lies before the one it has on the target:
    `never-rewind` leaves it, `follow` takes it back if it was not moved since twinlog's last write, `force` takes it
    back always ([offsets](offsets.md))"""
    never_rewind: NameFilter = setting(PATTERNS, "twinlog.group.sync.policy.never-rewind", "")
    """groups (Java regexes) with this policy; of several lists that match, the most careful counts"""
    follow: NameFilter = setting(PATTERNS, "twinlog.group.sync.policy.follow", "")
    """groups with this policy"""
    force: NameFilter = setting(PATTERNS, "twinlog.group.sync.policy.force", "")
    """groups with this policy"""

    def of(self, group: str) -> GroupSyncPolicy:
        """Return the policy of a group."""
        if self.never_rewind.includes(group):
            return GroupSyncPolicy.NEVER_REWIND
        if self.follow.includes(group):
            return GroupSyncPolicy.FOLLOW
        return GroupSyncPolicy.FORCE if self.force.includes(group) else self.policy


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """One flow `A->B`: MM2's settings under their own names, and groups of twinlog's own.

    If a flow is not `enabled` but `emit_heartbeats`, it only writes heartbeats, as in MM2 (MirrorMakerConfig).
    `reverse_heartbeats` is the reverse flow if that one only writes heartbeats; `other_heartbeats` are pairs without a
    flow in either direction for which this flow writes them; `source_heartbeats` is a flow that writes heartbeats on
    the source (pairs.py).  `progress_on_source` are its topics in which flows into it keep progress under given names.
    `aliases` are those of all clusters.  `homes` are target topics by their copies, of a flow that only brings home.
    """

    source: ClusterSettings
    target: ClusterSettings
    _source_cluster_alias: ClassVar = Key("source.cluster.alias", Kind.STRING, None)
    """is the alias in the flow's name; another value is refused"""
    _target_cluster_alias: ClassVar = Key("target.cluster.alias", Kind.STRING, None)
    """is the alias in the flow's name; another value is refused"""
    enabled: bool = setting(IS_TRUE, "enabled", "false", home=Home.FLOW_ONLY, initial=True)
    """whether `A->B` copies; per flow only; anything but `true` is false"""
    copied_by: CopiedBy = setting(choice(CopiedBy), "twinlog.copied.by", "twinlog")
    """who copies: `twinlog`; or another engine, whose copies are only observed: `mirrormaker2`, `mirroring` (equal
    offsets), `other` ([migrate](howto/migrate.md))"""
    policy: ReplicationPolicy = setting(
        POLICY, "replication.policy.class", "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"
    )
    """how topics are named on the target: MM2's Default- or IdentityReplicationPolicy, or a Python class by its
    dotted name"""
    _replication_policy_separator: ClassVar = Key("replication.policy.separator", Kind.STRING, ".")
    """between alias and topic"""
    _replication_policy_internal_topic_separator_enabled: ClassVar = Key(
        "replication.policy.internal.topic.separator.enabled", Kind.BOOLEAN, "true"
    )
    """whether internal topics use the separator too (KIP-949)"""
    topics: NameFilter = setting(
        name_filter("topics.exclude", "topics.blacklist"), "topics", ".*", initial=NameFilter()
    )
    """topics to copy: names and Java regexes, comma separated, matched as a whole; empty copies nothing"""
    _topics_exclude: ClassVar = Key("topics.exclude", Kind.LIST, r"mm2.*\.internal,.*\.replica,__.*")
    """topics not to copy; wins over `topics`"""
    _topics_blacklist: ClassVar = Key("topics.blacklist", Kind.LIST, None)
    """name of releases before 4.0 for `topics.exclude`, which wins; warned about"""
    groups: NameFilter = setting(
        name_filter("groups.exclude", "groups.blacklist"), "groups", ".*", initial=NameFilter()
    )
    """consumer groups whose offsets are translated"""
    _groups_exclude: ClassVar = Key("groups.exclude", Kind.LIST, "console-consumer-.*,connect-.*,__.*")
    """groups that are not; wins over `groups`"""
    _groups_blacklist: ClassVar = Key("groups.blacklist", Kind.LIST, None)
    """name of releases before 4.0 for `groups.exclude`, which wins; warned about"""
    config_properties_exclude: NameFilter = setting(
        EXCLUDED_CONFIGS, "config.properties.exclude", FILTERED_CONFIGS, initial=NameFilter()
    )
    """topic configs that are not synced"""
    _config_properties_blacklist: ClassVar = Key("config.properties.blacklist", Kind.LIST, None)
    """name of releases before 4.0 for `config.properties.exclude`, which wins; warned about"""
    cycle_rule: CycleRule = setting(choice(CycleRule), "twinlog.cycle.rule", "mm2-4.3")
    """`mm2-4.3`, or `mm2-4.4`, which also refuses topics that came through the source itself"""
    use_defaults_from: str = setting(TEXT, "use.defaults.from", "target", home=Home.FLOW_ONLY)
    """`source`: configs that are defaults on the source are synced too; per flow only"""
    replication_factor: int = setting(FACTOR, "replication.factor", "2")
    """of created remote topics; -1: the broker's default"""
    offset_syncs_topic_replication_factor: int = setting(FACTOR, "offset-syncs.topic.replication.factor", "3")
    """of the topic of offset syncs"""
    checkpoints_topic_replication_factor: int = setting(FACTOR, "checkpoints.topic.replication.factor", "3")
    """of `A.checkpoints.internal`"""
    heartbeats_topic_replication_factor: int = setting(FACTOR, "heartbeats.topic.replication.factor", "3")
    """of `heartbeats`"""
    offset_storage_replication_factor: int = setting(FACTOR, "offset.storage.replication.factor", "3")
    """of the offset storage, the offset map and the ledger; -1: the broker's default"""
    offset_storage_partitions: int = setting(FACTOR, "offset.storage.partitions", "25")
    """partitions of the offset storage when it is created"""
    offset_syncs_topic_location: OffsetSyncsLocation = setting(
        choice(OffsetSyncsLocation), "offset-syncs.topic.location", "source"
    )
    """`source` or `target`: the cluster that holds the offset syncs (KIP-716)"""
    offset_storage_topic: str = setting(OFFSETS_TOPIC, "offset.storage.topic", None)
    """where progress is kept on the target; default `mm2-offsets.A.internal`; no flow copies a topic of that name"""
    _offsets_storage_topic: ClassVar = Key(
        "offsets.storage.topic", Kind.STRING, None, given_home=Home.FLOW_ONLY
    )
    """offsets topic of this flow's source connector (KIP-618); per flow only; wins over `offset.storage.topic`"""
    progress_on_source: frozenset[str] = frozenset()
    offset_lag_max: int = setting(whole(Kind.LONG), "offset.lag.max", "100")
    """records that MM2's offset syncs may lag behind"""
    emit_offset_syncs: bool = setting(BOOLEAN, "emit.offset-syncs.enabled", "true")
    """whether MM2's offset syncs are written (the exact map is always kept)"""
    emit_heartbeats: bool = setting(SWITCH, "emit.heartbeats.enabled", "true")
    """whether heartbeats are written, also by flows that are not enabled"""
    heartbeats_interval_seconds: int = setting(SECONDS, "emit.heartbeats.interval.seconds", "1")
    """how often"""
    heartbeats_replication: bool = setting(BOOLEAN, "heartbeats.replication.enabled", "true")
    """whether heartbeats topics are copied whatever `topics` says.  *Heartbeats topics* are, by MM2's rule,
    `heartbeats` and every topic whose name ends in it after a prefix that looks like a cluster's alias
    (`A.heartbeats`): a user's `device.heartbeats` is copied, too, unless this is `false`"""
    emit_checkpoints: bool = setting(SWITCH, "emit.checkpoints.enabled", "true")
    """whether checkpoints are written"""
    emit_checkpoints_interval_seconds: int = setting(SECONDS, "emit.checkpoints.interval.seconds", "60")
    """how often"""
    sync_group_offsets: bool = setting(SWITCH, "sync.group.offsets.enabled", "false")
    """whether translated offsets are committed on the target"""
    sync_group_offsets_interval_seconds: int = setting(SECONDS, "sync.group.offsets.interval.seconds", "60")
    """how often"""
    group_sync: GroupSyncSettings = section(GroupSyncSettings)
    refresh_topics: bool = setting(REFRESH_TOPICS, "refresh.topics.enabled", "true")
    """whether each cycle looks for new topics and partitions; otherwise only the first cycle of the flow does, as MM2
    does when it starts"""
    _refresh_topics_interval_seconds: ClassVar = Key(
        "refresh.topics.interval.seconds", Kind.LONG, "600", limits=SECONDS.limits
    )
    """no effect on how often: each cycle looks for topics; a negative value switches it off, as it does for each
    interval beside a key `.enabled`"""
    refresh_groups_interval_seconds: int = setting(SECONDS, "refresh.groups.interval.seconds", "600")
    """how often a checkpoint that has not changed is written again"""
    sync_topic_configs: bool = setting(SWITCH, "sync.topic.configs.enabled", "true")
    """whether topic configs are synced"""
    sync_topic_configs_interval_seconds: int = setting(SECONDS, "sync.topic.configs.interval.seconds", "600")
    """how often, by the Dag `sync_metadata__A__B` or `twinlog run`"""
    sync_topic_acls: bool = setting(SWITCH, "sync.topic.acls.enabled", "true")
    """whether topic ACLs are synced"""
    sync_topic_acls_interval_seconds: int = setting(SECONDS, "sync.topic.acls.interval.seconds", "600")
    """how often, by the same Dag or `twinlog run`"""
    connector_name: str = setting(CONNECTOR_NAME, "name", "MirrorSourceConnector")
    """name of the source connector: first part of the key under which progress is stored. Per flow"""
    _connector_name: ClassVar = Key("twinlog.connector.name", Kind.STRING, None)
    """name of the source connector whose progress is continued, when it ran in Kafka Connect; wins over `name`"""
    copy: CopySettings = section(CopySettings)
    lifecycle: LifecycleSettings = section(LifecycleSettings)
    metrics: MetricsSettings = section(MetricsSettings)
    schedule: str = setting(SCHEDULE, "twinlog.schedule", "* * * * *")
    """cron expression of the flow's Dag, in UTC; `@continuous`: its runs follow the source; each is relieved by the
    next after 15 times `twinlog.follow.seconds`"""
    _topic_filter_class: ClassVar = Key(
        "topic.filter.class", Kind.CLASS, "org.apache.kafka.connect.mirror.DefaultTopicFilter"
    )
    """only the default is supported"""
    _group_filter_class: ClassVar = Key(
        "group.filter.class", Kind.CLASS, "org.apache.kafka.connect.mirror.DefaultGroupFilter"
    )
    """only the default is supported"""
    _config_property_filter_class: ClassVar = Key(
        "config.property.filter.class",
        Kind.CLASS,
        "org.apache.kafka.connect.mirror.DefaultConfigPropertyFilter",
    )
    """only the default is supported"""
    transforms: Chain = made_of(TransformKeys, NO_CHAIN)
    _config_providers: ClassVar = Key("config.providers", Kind.LIST, "")
    """names of declared providers, see Secrets"""
    reverse_heartbeats: FlowSettings | None = None
    other_heartbeats: tuple[FlowSettings, ...] = ()
    source_heartbeats: FlowSettings | None = None
    gate: GateSettings = section(GateSettings)
    audit: AuditSettings = section(AuditSettings)
    metadata: MetadataSettings = section(MetadataSettings)
    tiers: tuple[Tier, ...] = sections(Tier)
    aliases: frozenset[str] = frozenset()
    failover: FailoverSettings = section(FailoverSettings)
    recovery_run: str = ""
    homes: Mapping[str, str] | None = None
    topics_back: NameFilter | None = None
    """topics that the file's reverse flow copies under unchanged names, enabled; None without such a flow"""

    def tier_of(self, topic: str) -> Tier:
        """Return the tier of a topic: of the tiers that name it, the one with the least RPO; else the default tier."""
        named = [tier for tier in self.tiers if tier.name and tier.topics.accepts(topic)]
        return min(named, key=lambda tier: tier.rpo_seconds, default=self.tiers[0])

    def follows_group(self, group: str) -> bool:
        """Say whether the positions of a group are passed on: those of a drill's clones never are."""
        return self.groups.accepts(group) and not is_drilled(group)

    def remote_name(self, topic: str) -> str:
        """Return the name of the copy of `topic` on the target."""
        if self.homes is not None and topic in self.homes:
            return self.homes[topic]
        return self.policy.format_remote_topic(self.source.alias, topic)

    def why_left_out(self, topic: str) -> str | None:
        """Return why the flow does not replicate a topic of the source, None if it does."""
        if self.homes is not None:
            return None if topic in self.homes else "not a topic that this flow brings home"
        return why_left_out(
            topic,
            topics=self.topics,
            policy=self.policy,
            source_alias=self.source.alias,
            target_alias=self.target.alias,
            heartbeats_replication=self.heartbeats_replication,
            cycle_rule=self.cycle_rule,
            progress_topics=self.progress_topics,
        )

    @property
    def name(self) -> str:
        """Return `A->B`."""
        return f"{self.state_alias}->{self.target.alias}"

    @property
    def told(self) -> str:
        """Return the name as people are told it: a flow made for the way home stands in no file."""
        return self.name if self.homes is None else f"the way home to {self.target.alias}"

    @property
    def observed(self) -> bool:
        """Say whether another engine copies: then only the flow's own ledger and map are written."""
        return self.copied_by is not CopiedBy.TWINLOG

    @property
    def untold_groups(self) -> bool:
        """Say whether the engine that copies leaves no checkpoints: only the source knows where groups stand."""
        return self.copied_by in {CopiedBy.MIRRORING, CopiedBy.OTHER}

    @property
    def whose_copy(self) -> str:
        """Return what to add to a line for people about a flow that another engine copies; "" if twinlog does."""
        return f" ({self.copied_by} copies, twinlog only observes)" if self.observed else ""

    @property
    def work(self) -> str:
        """Say what a cycle does with records: it copies them, or reads those that another engine has copied."""
        return "read" if self.observed else "copy"

    def copied_anew(self, topic: str) -> str:
        """Say how a topic is copied anew: by a rebuild, or by the engine that copies it."""
        if self.observed:
            return "let the engine copy it anew"
        return f"`twinlog topics rebuild --topic {topic}` copies it anew"

    def require_copied(self, what: str) -> None:
        """Raise UsageError if `what` would change copies, groups or topics that another engine looks after."""
        if self.observed:
            raise UsageError(
                f"{self.name} is copied by {self.copied_by} and only observed here: {what} is not for it",
                hint="stop that engine, take twinlog.copied.by out of the file, and run `twinlog migrate takeover`",
                flow=self.name,
            )

    @property
    def state_alias(self) -> str:
        """Return the alias under which the flow keeps its state on the target; one with `homes` has its own."""
        return f"{self.source.alias}{'' if self.homes is None else state_topics.HOME}"

    @property
    def continuous(self) -> bool:
        """Say whether the flow's Dag follows the source, run after run, instead of copying on a schedule."""
        return self.schedule == CONTINUOUS

    @property
    def strictest_rpo_seconds(self) -> int:
        """Return the least RPO of its tiers."""
        return min(tier.rpo_seconds for tier in self.tiers)

    @property
    def offsets_topic(self) -> str:
        """Return the target topic where Connect would keep this flow's offsets (MirrorMakerConfig.workerConfig)."""
        return self.offset_storage_topic or f"mm2-offsets.{self.state_alias}.internal"

    @property
    def worker_group(self) -> str:
        """Return the group of the workers that a dedicated MirrorMaker 2 runs for the flow (workerConfig)."""
        return f"{self.source.alias}-mm2"

    @property
    def progress_topics(self) -> frozenset[str]:
        """Return the names under which flows keep their progress, on either side: such topics are never copied."""
        return self.progress_on_source | {self.offsets_topic}

    @property
    def offset_map_topic(self) -> str:
        """Return the topic on the target with the exact offset map of this flow."""
        return state_topics.offset_map_topic(self.state_alias)

    @property
    def ledger_topic(self) -> str:
        """Return the topic on the target with gaps, incarnations, lanes and state of this flow."""
        return state_topics.ledger_topic(self.state_alias)

    @property
    def checkpoints_topic(self) -> str:
        """Return the topic on the target with the checkpoints of this flow."""
        return self.policy.checkpoints_topic(self.state_alias)

    @property
    def quarantine_topic(self) -> str:
        """Return the topic on the target for records that the target cannot hold (`twinlog.on.poison.record`)."""
        return f"mm2-quarantine.{self.state_alias}.internal"

    def tail_topic(self, topic: str) -> str:
        """Return the topic on the target for records of a source topic that a failover left behind."""
        return f"mm2-tail.{self.source.alias}.{topic}.internal"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration file: its clusters by alias, and its flows (enabled, or only writing heartbeats) by name.

    `warnings` are what MM2 would silently drop, likely mistakes, deprecated names; `sha256` identifies the file.
    """

    path: Path
    sha256: str
    clusters: Mapping[str, ClusterSettings]
    flows: Mapping[str, FlowSettings]
    warnings: tuple[str, ...] = ()

    @property
    def enabled_flows(self) -> tuple[FlowSettings, ...]:
        """Return the flows that copy data, in the order of the file's `clusters`."""
        return tuple(flow for flow in self.flows.values() if flow.enabled)
