"""The configuration as the rest of twinlog sees it: typed, resolved, frozen.

`twinlog.config.flow.load.load(path)` builds these values from an mm2.properties file; tests build them by hand.  No
other code needs to know how a value was written or where it came from (`twinlog.config.flow.explain` does).  Times are
in ms, sizes in bytes, unless the name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from twinlog.config.file.providers import Secret
from twinlog.config.flow.metadata import MetadataSettings
from twinlog.config.security.connection import ClusterSettings
from twinlog.policy import state_topics
from twinlog.policy.replication import DefaultReplicationPolicy, ReplicationPolicy
from twinlog.policy.selection import NameFilter

MIB = 1024 * 1024

CONTINUOUS = "@continuous"
"""The schedule of a Dag whose runs follow each other (Airflow's ContinuousTimetable)."""


class Guarantee(StrEnum):
    """How records are written to the target (`twinlog.guarantee`)."""

    EXACTLY_ONCE = "exactly_once"
    AT_LEAST_ONCE = "at_least_once"


class PoisonPolicy(StrEnum):
    """How to handle a record that the target cannot hold (`twinlog.on.poison.record`)."""

    FAIL = "fail"
    QUARANTINE = "quarantine"


class RecreatedPolicy(StrEnum):
    """How to handle a source topic that was deleted and created again (`twinlog.on.recreated`)."""

    FAIL = "fail"
    NEW_INCARNATION = "new-incarnation"
    APPEND = "append"


class GapPolicy(StrEnum):
    """How to handle upstream offsets that are gone before they were copied (`twinlog.on.gap`)."""

    FAIL = "fail"
    RECORD_AND_CONTINUE = "record-and-continue"


class CycleRule(StrEnum):
    """The release whose cycle check applies (`twinlog.cycle.rule`); mm2-4.4 also refuses the source alias."""

    MM2_4_3 = "mm2-4.3"
    MM2_4_4 = "mm2-4.4"


@dataclass(frozen=True, slots=True)
class CopySettings:
    """`twinlog.*` keys of the copy path.

    `lanes` None means that the amount of work decides.  A transaction commits at `transaction_bytes` or
    `transaction_ms`, whichever comes first.  `transaction_timeout_ms` is how long a dead lane can block a
    read_committed reader.  `read_committed` follows `consumer.isolation.level`.

    Two defaults differ from MM2's: records of aborted transactions are not copied (`read_committed`; MM2 reads
    uncommitted), and the guarantee is exactly once (MM2: at least once).

    `bytes_per_second` is the limit of all lanes of the flow together, None for no limit.  `start_from_latest` is
    `consumer.auto.offset.reset=latest`: partitions without progress start at the end.
    """

    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    lanes: int | None = None
    transaction_bytes: int = 64 * MIB
    transaction_ms: int = 10_000
    transaction_timeout_ms: int = 60_000
    fetch_bytes: int = 16 * MIB
    partition_fetch_bytes: int = 4 * MIB
    read_committed: bool = True
    start_from_latest: bool = False
    poison: PoisonPolicy = PoisonPolicy.FAIL
    bytes_per_second: int | None = None
    spark_master: str = "local[2]"
    follow_seconds: int = 60


_NO_GROUP = NameFilter(())


class GroupSyncPolicy(StrEnum):
    """What may happen to a group's position on the target if its translation lies before it."""

    NEVER_REWIND = "never-rewind"
    FOLLOW = "follow"
    FORCE = "force"


@dataclass(frozen=True, slots=True)
class GroupSyncSettings:
    """`twinlog.group.sync.policy` for all groups, and lists of group patterns for some.

    If several lists match a group, the most careful policy applies: never-rewind, then follow, then force.
    """

    policy: GroupSyncPolicy = GroupSyncPolicy.NEVER_REWIND
    never_rewind: NameFilter = _NO_GROUP
    follow: NameFilter = _NO_GROUP
    force: NameFilter = _NO_GROUP

    def of(self, group: str) -> GroupSyncPolicy:
        """Return the policy of a group."""
        if self.never_rewind.includes(group):
            return GroupSyncPolicy.NEVER_REWIND
        if self.follow.includes(group):
            return GroupSyncPolicy.FOLLOW
        return GroupSyncPolicy.FORCE if self.force.includes(group) else self.policy


@dataclass(frozen=True, slots=True)
class Tier:
    """Topics with limits of their own (`twinlog.tier.NAME.*`); the tier "" covers all other topics.

    `rpo_seconds` is how old a record may get before it is copied.  `lag_records` is how many may be missing in a
    partition when a planned failover begins.  `audit_percent` is how much of a topic must have been proved equal.
    None sets no limit.
    """

    name: str = ""
    topics: NameFilter = field(default_factory=NameFilter)
    rpo_seconds: int = 300
    lag_records: int = 0
    audit_percent: int | None = None


@dataclass(frozen=True, slots=True)
class GateSettings:
    """`twinlog.gate.*` keys: the conditions of the readiness gate.

    `fence_seconds` is the time over which the source's ends must stand still.  `state_age_seconds` is the greatest age
    of the last cycle, `audit_age_seconds` that of a topic's last audit.  `canary_seconds` is how long the gate waits
    for its canary.  `undecided_seconds` (`twinlog.undecided.seconds`) is how long a transaction of the source may hold
    records back; a longer one also raises an alarm.  `schemas_topic` is the topic of the source's schema registry.
    `blocking` names checks that by default only warn and that forbid a failover here.  `reports` is the folder for
    pages and evidence, None for the default one of the user.  `sign_with` is a private key (PEM, Ed25519) for the
    evidence.  `alert_url` receives alarms about a broken RPO.
    """

    fence_seconds: int = 10
    state_age_seconds: int = 3600
    audit_age_seconds: int = 86_400
    heartbeat_age_seconds: int = 300
    canary_seconds: int = 120
    undecided_seconds: int = 900
    free_disk_percent: int = 10
    schemas_topic: str = "_schemas"
    blocking: tuple[str, ...] = ()
    schedule: str = "0 6 * * *"
    reports: Path | None = None
    reports_kept: int = 50
    sign_with: Path | None = None
    alert_url: Secret | None = None


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """`twinlog.audit.schedule`: the cron expression of the flow's audit, in UTC."""

    schedule: str = "45 * * * *"


class SampledSide(StrEnum):
    """The side whose records the user's own rules judge (`twinlog.data.quality.side`)."""

    SOURCE = "source"
    TARGET = "target"


@dataclass(frozen=True, slots=True)
class DataRulesSettings:
    """`twinlog.data.quality.*` keys: the user's own rules of the data.

    `suite` is a file of expectations; None judges nothing.  `sample_records` is the number of newest offsets of each
    partition that are judged.  With `stop`, a topic that breaks a critical rule is paused; otherwise it is only
    reported.
    """

    suite: Path | None = None
    topics: NameFilter = field(default_factory=NameFilter)
    sample_records: int = 1000
    side: SampledSide = SampledSide.TARGET
    stop: bool = False


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """How to handle topics that are deleted, recreated or lose records (docs/topics.md).

    `delete_after_ms` is how long a copy outlives its deleted source topic (`twinlog.on.deleted`); None keeps it.
    `forget_after_ms` is how long both must be missing before the ledger forgets them (`twinlog.on.deleted.both`).
    """

    on_recreated: RecreatedPolicy = RecreatedPolicy.FAIL
    on_gap: GapPolicy = GapPolicy.FAIL
    delete_after_ms: int | None = None
    forget_after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FlowSettings:
    """One flow `A->B`: MM2's settings under their own names, ours in `copy`.

    `enabled` False with `emit_heartbeats` True is MM2's case of a flow that only writes heartbeats
    (MirrorMakerConfig).  `way_back` is the reverse flow if that one copies nothing and only writes heartbeats.
    `carries` are pairs without a flow in either direction for which this flow writes heartbeats.  `beaten_into` is a
    flow that writes heartbeats on the source (config/flow/beats.py).  `progress_on_source` are the topics of the
    source in which flows into it keep their progress, if they were given names.  `aliases` are those of all clusters
    of the file.  `schedule` is the cron expression of the flow's Dag, in UTC (`twinlog.schedule`), or CONTINUOUS.
    `metrics_folder` is where each cycle's numbers are written for Prometheus, None for nowhere
    (`twinlog.metrics.folder`).
    """

    source: ClusterSettings
    target: ClusterSettings
    enabled: bool = True
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)
    topics: NameFilter = field(default_factory=NameFilter)
    groups: NameFilter = field(default_factory=NameFilter)
    config_properties_exclude: NameFilter = field(default_factory=NameFilter)
    cycle_rule: CycleRule = CycleRule.MM2_4_3
    use_defaults_from: str = "target"
    replication_factor: int = 2
    internal_replication_factor: int = 3
    offset_syncs_topic_replication_factor: int = 3
    checkpoints_topic_replication_factor: int = 3
    heartbeats_topic_replication_factor: int = 3
    offset_storage_replication_factor: int = 3
    offset_storage_partitions: int = 25
    offset_syncs_topic_location: str = "source"
    offset_storage_topic: str = ""
    progress_on_source: frozenset[str] = frozenset()
    offset_lag_max: int = 100
    emit_offset_syncs: bool = True
    emit_heartbeats: bool = True
    heartbeats_interval_seconds: int = 1
    heartbeats_replication: bool = True
    emit_checkpoints: bool = True
    emit_checkpoints_interval_seconds: int = 60
    sync_group_offsets: bool = False
    sync_group_offsets_interval_seconds: int = 60
    group_sync: GroupSyncSettings = field(default_factory=GroupSyncSettings)
    refresh_topics: bool = True
    refresh_groups_interval_seconds: int = 600
    sync_topic_configs: bool = True
    sync_topic_configs_interval_seconds: int = 600
    sync_topic_acls: bool = True
    sync_topic_acls_interval_seconds: int = 600
    connector_name: str = "MirrorSourceConnector"
    copy: CopySettings = field(default_factory=CopySettings)
    lives: LifecycleSettings = field(default_factory=LifecycleSettings)
    metrics_folder: Path | None = None
    schedule: str = "* * * * *"
    way_back: FlowSettings | None = None
    carries: tuple[FlowSettings, ...] = ()
    beaten_into: FlowSettings | None = None
    gate: GateSettings = field(default_factory=GateSettings)
    audit: AuditSettings = field(default_factory=AuditSettings)
    data_rules: DataRulesSettings = field(default_factory=DataRulesSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    tiers: tuple[Tier, ...] = (Tier(),)
    aliases: frozenset[str] = frozenset()

    def tier_of(self, topic: str) -> Tier:
        """Return the tier of a topic: of the tiers that name it, the one with the least RPO; else the default tier."""
        named = [tier for tier in self.tiers if tier.name and tier.topics.accepts(topic)]
        return min(named, key=lambda tier: tier.rpo_seconds, default=self.tiers[0])

    @property
    def name(self) -> str:
        """Return `A->B`."""
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def continuous(self) -> bool:
        """Say whether the flow's Dag follows the source, run after run, instead of copying on a schedule."""
        return self.schedule == CONTINUOUS

    @property
    def offsets_topic(self) -> str:
        """Return the target topic where Connect would keep this flow's offsets (MirrorMakerConfig.workerConfig)."""
        return self.offset_storage_topic or f"mm2-offsets.{self.source.alias}.internal"

    @property
    def progress_topics(self) -> frozenset[str]:
        """Return the names of source topics that are never copied.

        Flows keep their progress in a topic of that name, on the source or on the target.
        """
        return self.progress_on_source | {self.offsets_topic}

    @property
    def offset_map_topic(self) -> str:
        """Return the topic on the target with the exact offset map of this flow."""
        return state_topics.offset_map_topic(self.source.alias)

    @property
    def ledger_topic(self) -> str:
        """Return the topic on the target with gaps, incarnations, lanes and state of this flow."""
        return state_topics.ledger_topic(self.source.alias)

    @property
    def quarantine_topic(self) -> str:
        """Return the topic on the target for records that the target cannot hold (`twinlog.on.poison.record`)."""
        return f"mm2-quarantine.{self.source.alias}.internal"


@dataclass(frozen=True, slots=True)
class Configuration:
    """One configuration file: its clusters by alias, and its flows (enabled, or only writing heartbeats) by name.

    `warnings` are lines for people: what MM2 would silently drop, likely mistakes, deprecated names.  `sha256`
    identifies the file in reports and evidence.
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
