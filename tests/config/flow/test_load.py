"""From a file to a Configuration: defaults, flows, mistakes, and files as found in the wild."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from pathlib import Path

import pytest

from twinlog.config.file.providers import Secret
from twinlog.config.flow import settings
from twinlog.config.flow.copying import (
    CopySettings,
    GapPolicy,
    LifecycleSettings,
    PoisonPolicy,
    RecreatedPolicy,
)
from twinlog.config.flow.load import load
from twinlog.config.flow.metadata import MetadataSettings, Profile
from twinlog.config.flow.metrics import Listen, MetricsSettings
from twinlog.config.flow.settings import (
    Configuration,
    CopiedBy,
    CycleRule,
    FlowSettings,
    GroupSyncPolicy,
    GroupSyncSettings,
)
from twinlog.config.flow.tiers import GateSettings, Tier
from twinlog.config.flow.values import Compression, keys_of
from twinlog.config.security.connection import ClusterSettings
from twinlog.errors import ConfigError, UsageError
from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy
from twinlog.policy.selection import NameFilter
from twinlog.state.internal_topics import internal_topics
from twinlog.transforms.chain import Chain, Filter, RecordIsTombstone, Step

Loader = Callable[..., Configuration]

MINIMAL = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Loader:
    """Load a text as mm2.properties."""

    def write_and_load(text: str, *, strict: bool = False, **environ: str) -> Configuration:
        path = tmp_path / "mm2.properties"
        path.write_text(text, encoding="latin-1")
        return load(path, environ={**environ, **({"TWINLOG_STRICT": "1"} if strict else {})})

    return write_and_load


def test_which_flows_there_are_may_come_from_a_provider(loaded: Loader) -> None:
    """Clusters and switches are expanded before pairs are looked for (MirrorMakerConfig reads originals)."""
    text = (
        "clusters = ${env:CLUSTERS}\nA.bootstrap.servers = a:9092\nB.bootstrap.servers = b:9092\n"
        "emit.heartbeats.enabled = ${env:BEATS}\nA->B.enabled = ${env:ON}\nB->A.enabled = false\n"
    )
    found = loaded(text, strict=True, CLUSTERS="A, B", BEATS="false", ON="true")
    assert ["A->B"] == list(found.flows)


def test_a_switch_that_leads_nowhere_is_a_mistake(loaded: Loader) -> None:
    """Not a flow that is quietly left out."""
    with pytest.raises(ConfigError) as caught:
        loaded(MINIMAL.replace("enabled = true", "enabled = ${env:ON}") + "emit.heartbeats.enabled = false\n")
    assert "mm2.properties:5: A->B.enabled: ${env:ON}: the environment variable ON is not set" in str(
        caught.value
    )


@pytest.mark.parametrize(
    "line",
    [
        "replication.factor = 1_0",
        "replication.factor = 2147483648",
        "twinlog.fetch.bytes = 9999999999",
        "twinlog.transaction.timeout.ms = 9999999999",
        "twinlog.lanes = 1_0",
        "B.admin.retry.backoff.ms = 1s",
    ],
)
def test_numbers_are_kafkas(loaded: Loader, line: str) -> None:
    """Digits only, and no more than Kafka's types hold: what goes on the wire later is refused here."""
    with pytest.raises(ConfigError, match=r"^mm2\.properties:6: \S+: .*whole number"):
        loaded(MINIMAL + line + "\n")


def mistakes_of(loaded: Loader, text: str, *, strict: bool = False, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        loaded(text, strict=strict, **environ)
    return str(caught.value)


def test_defaults_are_those_of_the_dataclasses(loaded: Loader) -> None:
    """A minimal file gives exactly FlowSettings' own defaults, apart from clusters and filters."""
    flow = loaded(MINIMAL).flows["A->B"]
    expected = FlowSettings(
        source=flow.source,
        target=flow.target,
        policy=DefaultReplicationPolicy(),
        topics=NameFilter((".*",), (r"mm2.*\.internal", r".*\.replica", "__.*")),
        groups=NameFilter((".*",), ("console-consumer-.*", "connect-.*", "__.*")),
        config_properties_exclude=flow.config_properties_exclude,
        reverse_heartbeats=loaded(MINIMAL).flows["B->A"],
        source_heartbeats=loaded(MINIMAL).flows["B->A"],
        aliases=frozenset({"A", "B"}),
    )
    assert expected == flow
    assert not flow.config_properties_exclude.accepts("min.insync.replicas")
    assert flow.config_properties_exclude.accepts("retention.ms")


def test_a_flow_that_only_beats(loaded: Loader) -> None:
    """B->A is not enabled and writes heartbeats, unless told not to (MM2: MirrorMakerConfig.clusterPairs)."""
    beating = loaded(MINIMAL).flows["B->A"]
    assert (False, True) == (beating.enabled, beating.emit_heartbeats)
    quiet = loaded(MINIMAL + "emit.heartbeats.enabled = false")
    assert (["A->B"], False) == (list(quiet.flows), quiet.flows["A->B"].emit_heartbeats)
    assert ["A->B"] == [flow.name for flow in loaded(MINIMAL).enabled_flows]


EVERY_SETTING = {
    "twinlog.metrics.folder=metrics": ("metrics.folder", Path("metrics")),
    "twinlog.metrics.listen=127.0.0.1:9404": ("metrics.listen", Listen("127.0.0.1", 9404)),
    "twinlog.metrics.listen=[::1]:9404": ("metrics.listen", Listen("::1", 9404)),
    "topics=t1,t2": ("topics", NameFilter(("t1", "t2"), (r"mm2.*\.internal", r".*\.replica", "__.*"))),
    "topics=": ("topics", NameFilter((), (r"mm2.*\.internal", r".*\.replica", "__.*"))),
    "topics.exclude=": ("topics", NameFilter((".*",), ())),
    "topics.blacklist=x": ("topics", NameFilter((".*",), ("x",))),
    "topics.blacklist=x\ntopics.exclude=y": ("topics", NameFilter((".*",), ("y",))),
    "A->B.topics.blacklist=x\ntopics.exclude=y": ("topics", NameFilter((".*",), ("y",))),
    "groups=g": ("groups", NameFilter(("g",), ("console-consumer-.*", "connect-.*", "__.*"))),
    "groups.blacklist=g": ("groups", NameFilter((".*",), ("g",))),
    "config.properties.exclude=prop2": ("config_properties_exclude", NameFilter((".*",), ("prop2",))),
    "A->B.use.defaults.from=source": ("use_defaults_from", "source"),
    "use.defaults.from=source": ("use_defaults_from", "target"),
    "replication.factor=-1": ("replication_factor", -1),
    "offset-syncs.topic.replication.factor=1": ("offset_syncs_topic_replication_factor", 1),
    "checkpoints.topic.replication.factor=1": ("checkpoints_topic_replication_factor", 1),
    "heartbeats.topic.replication.factor=1": ("heartbeats_topic_replication_factor", 1),
    "B.offset.storage.replication.factor=1": ("offset_storage_replication_factor", 1),
    "B.offset.storage.replication.factor=1\noffset.storage.replication.factor=2": (
        "offset_storage_replication_factor",
        2,
    ),
    "A->B.offset.storage.replication.factor=1": ("offset_storage_replication_factor", 3),
    "A->B.offset.storage.partitions=7": ("offset_storage_partitions", 25),
    "A->B.offset.storage.topic=x": ("offsets_topic", "mm2-offsets.A.internal"),
    "A.offset.storage.replication.factor=1": ("offset_storage_replication_factor", 3),
    "B.offset.storage.partitions=5": ("offset_storage_partitions", 5),
    "B.offset.storage.topic=connect-offsets": ("offsets_topic", "connect-offsets"),
    "A->B.offsets.storage.topic=own\nB.offset.storage.topic=worker": ("offsets_topic", "own"),
    "A.offset.storage.topic=connect-offsets": ("progress_on_source", frozenset({"connect-offsets"})),
    "offset.storage.topic=connect-offsets": ("progress_on_source", frozenset({"connect-offsets"})),
    "B->A.offsets.storage.topic=own\nC->A.offsets.storage.topic=third": (
        "progress_on_source",
        frozenset({"own", "third"}),
    ),
    "A.offset.storage.topic=x\nB->A.emit.heartbeats.enabled=false": (
        "progress_on_source",
        frozenset({"x"}),
    ),
    "offset-syncs.topic.location=target": ("offset_syncs_topic_location", "target"),
    "offset.lag.max=0": ("offset_lag_max", 0),
    "emit.offset-syncs.enabled=FALSE": ("emit_offset_syncs", False),
    "A->B.emit.heartbeats.enabled=false": ("emit_heartbeats", False),
    "emit.heartbeats.interval.seconds=5": ("heartbeats_interval_seconds", 5),
    "heartbeats.replication.enabled=false": ("heartbeats_replication", False),
    "emit.checkpoints.enabled=false": ("emit_checkpoints", False),
    "emit.checkpoints.interval.seconds=-1": ("emit_checkpoints", False),
    "emit.checkpoints.interval.seconds=5": ("emit_checkpoints_interval_seconds", 5),
    "sync.group.offsets.enabled=true": ("sync_group_offsets", True),
    "sync.group.offsets.interval.seconds=5": ("sync_group_offsets_interval_seconds", 5),
    "refresh.topics.enabled=false": ("refresh_topics", False),
    "refresh.topics.interval.seconds=5": ("refresh_topics", True),
    "refresh.topics.interval.seconds=-1": ("refresh_topics", False),
    "refresh.groups.interval.seconds=5": ("refresh_groups_interval_seconds", 5),
    "sync.topic.configs.enabled=false": ("sync_topic_configs", False),
    "sync.topic.configs.interval.seconds=5": ("sync_topic_configs_interval_seconds", 5),
    "sync.topic.acls.enabled=false": ("sync_topic_acls", False),
    "sync.topic.acls.interval.seconds=5": ("sync_topic_acls_interval_seconds", 5),
    "A->B.name=n": ("connector_name", "n"),
    "A->B.name=n\ntwinlog.connector.name=m": ("connector_name", "m"),
    "replication.policy.separator=_": ("policy", DefaultReplicationPolicy("_")),
    "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy": (
        "policy",
        IdentityReplicationPolicy(source_alias="A"),
    ),
    "twinlog.cycle.rule=mm2-4.4": ("cycle_rule", CycleRule.MM2_4_4),
    "twinlog.copied.by=other": ("copied_by", CopiedBy.OTHER),
    "B->A.emit.heartbeats.enabled=false": ("reverse_heartbeats", None),
    "B->A.emit.heartbeats.enabled=False": ("source_heartbeats", None),
    "A->B.twinlog.schedule=*/5 * * * *": ("schedule", "*/5 * * * *"),
    "twinlog.schedule=@continuous": ("continuous", True),
    "twinlog.rpo.seconds=5\ntwinlog.lag.records=7\ntwinlog.audit.percent=90": (
        "tiers",
        (Tier(rpo_seconds=5, lag_records=7, audit_percent=90),),
    ),
    "twinlog.tier.gold.topics=pay.*,orders\ntwinlog.tier.gold.rpo.seconds=5\ntwinlog.lag.records=3": (
        "tiers",
        (Tier(lag_records=3), Tier("gold", NameFilter(("pay.*", "orders")), 5, 3)),
    ),
    "twinlog.drill.rto.seconds=9\ntwinlog.tier.tin.topics=t\ntwinlog.tier.tin.drill.rto.seconds=7": (
        "tiers",
        (Tier(drill_rto_seconds=9), Tier("tin", NameFilter(("t",)), drill_rto_seconds=7)),
    ),
    "twinlog.group.sync.policy=follow\ntwinlog.group.sync.policy.force=batch-.*,jobs": (
        "group_sync",
        GroupSyncSettings(GroupSyncPolicy.FOLLOW, force=NameFilter(("batch-.*", "jobs"))),
    ),
    "A->B.twinlog.tier.tin.topics=t\ntwinlog.tier.tin.lag.records=9\ntwinlog.tier.tin.audit.percent=1": (
        "tiers",
        (Tier(), Tier("tin", NameFilter(("t",)), 300, 9, 1)),
    ),
    "twinlog.metadata.profile=mm2": ("metadata", MetadataSettings(profile=Profile.MM2)),
    "A->B.twinlog.metadata.approval=true": ("metadata", MetadataSettings(approval=True)),
    "twinlog.sync.quotas.enabled=true": ("metadata", MetadataSettings(quotas=True)),
}


@pytest.mark.parametrize(("lines", "name", "expected"), [(k, *v) for k, v in EVERY_SETTING.items()])
def test_each_setting_of_a_flow(loaded: Loader, lines: str, name: str, expected: object) -> None:
    """Each key sets its field."""
    assert expected == attrgetter(name)(loaded(MINIMAL + lines).flows["A->B"])


EVERY_COPY_SETTING = {
    "twinlog.lanes=7": ("lanes", 7),
    "twinlog.lanes=7\nA->B.twinlog.lanes=3": ("lanes", 3),
    "twinlog.bytes.per.second=1000": ("bytes_per_second", 1000),
    "B->A.twinlog.lanes=3": ("lanes", None),
    "twinlog.transaction.bytes=2048": ("transaction_bytes", 2048),
    "twinlog.transaction.timeout.ms=20000": ("transaction_timeout_ms", 20_000),
    "twinlog.compression.type=zstd": ("compression", Compression.ZSTD),
    "twinlog.fetch.bytes=5": ("fetch_bytes", 5),
    "A.consumer.fetch.max.bytes=6": ("fetch_bytes", 6),
    "A.consumer.fetch.max.bytes=6\ntwinlog.fetch.bytes=5": ("fetch_bytes", 5),
    "B.consumer.fetch.max.bytes=6": ("fetch_bytes", 16 * 1024 * 1024),
    "A->B.consumer.max.partition.fetch.bytes=6": ("partition_fetch_bytes", 6),
    "twinlog.partition.fetch.bytes=5": ("partition_fetch_bytes", 5),
    "twinlog.copied.by=mirrormaker2": ("read_committed", False),
    "A.consumer.isolation.level=read_committed\ntwinlog.copied.by=mirrormaker2": ("read_committed", True),
    "twinlog.copied.by=other": ("read_committed", True),
    "A.consumer.isolation.level=read_uncommitted": ("read_committed", False),
    "A->B.consumer.isolation.level=read_uncommitted\nA->B.source.consumer.isolation.level=read_committed": (
        "read_committed",
        True,
    ),
    "A.consumer.auto.offset.reset=latest": ("start_from_latest", True),
    "B.consumer.auto.offset.reset=latest": ("start_from_latest", False),
    "twinlog.on.poison.record=quarantine": ("poison", PoisonPolicy.QUARANTINE),
    "twinlog.spark.master=sc://spark:15002": ("spark_master", "sc://spark:15002"),
    "twinlog.follow.seconds=9": ("follow_seconds", 9),
}


@pytest.mark.parametrize(("lines", "name", "expected"), [(k, *v) for k, v in EVERY_COPY_SETTING.items()])
def test_each_setting_of_the_copy(loaded: Loader, lines: str, name: str, expected: object) -> None:
    """Each `twinlog.*` key sets its field, and consumer properties steer reading."""
    assert expected == getattr(loaded(MINIMAL + lines).flows["A->B"].copy, name)


EVERY_GATE_SETTING = {
    "twinlog.gate.fence.seconds=30": ("fence_seconds", 30),
    "twinlog.gate.state.age.seconds=7": ("state_age_seconds", 7),
    "twinlog.gate.audit.age.seconds=7": ("audit_age_seconds", 7),
    "twinlog.undecided.seconds=7": ("undecided_seconds", 7),
    "twinlog.gate.free.disk.percent=7": ("free_disk_percent", 7),
    "twinlog.gate.schemas.topic=_mine": ("schemas_topic", "_mine"),
    "twinlog.gate.blocking=survives-a-broker": ("blocking", ("survives-a-broker",)),
    "A->B.twinlog.gate.schedule=0 * * * *": ("schedule", "0 * * * *"),
    "twinlog.reports.folder=reports": ("reports", Path("reports")),
    "twinlog.gate.sign.with=key.pem": ("sign_with", Path("key.pem")),
    "twinlog.alert.url=https://chat/hook/x": ("alert_url", Secret("https://chat/hook/x")),
}


@pytest.mark.parametrize(("lines", "name", "expected"), [(k, *v) for k, v in EVERY_GATE_SETTING.items()])
def test_each_setting_of_the_gate(loaded: Loader, lines: str, name: str, expected: object) -> None:
    """Each `twinlog.gate.*` and `twinlog.reports.*` key sets its field, without a warning."""
    configuration = loaded(MINIMAL + lines, strict=True)
    assert expected == getattr(configuration.flows["A->B"].gate, name)


EVERY_FAILOVER_SETTING = {
    "twinlog.failover.wait.seconds=7": ("wait_seconds", 7),
    "twinlog.failover.hook.command=move clients": ("hook_command", "move clients"),
    "twinlog.failover.hook.url=https://hook/x": ("hook_url", Secret("https://hook/x")),
    "twinlog.failover.hook.file=clients.yaml": ("hook_file", Path("clients.yaml")),
    "twinlog.approvers=ada, jo": ("approvers", ("ada", "jo")),
}


@pytest.mark.parametrize(("lines", "name", "expected"), [(k, *v) for k, v in EVERY_FAILOVER_SETTING.items()])
def test_each_setting_of_a_failover(loaded: Loader, lines: str, name: str, expected: object) -> None:
    """Each `twinlog.failover.*` and `twinlog.drill.*` key sets its field, without a warning."""
    configuration = loaded(MINIMAL + lines, strict=True)
    assert expected == getattr(configuration.flows["A->B"].failover, name)


def test_two_ways_to_switch_clients_are_refused(loaded: Loader) -> None:
    """Which of them came first, or failed, would be left open."""
    lines = "twinlog.failover.hook.command=x\ntwinlog.failover.hook.file=y"
    with pytest.raises(ConfigError, match="second way to switch clients"):
        loaded(MINIMAL + lines)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("twinlog.tier.gold.rpo.seconds=5", "tier gold names no topics"),
        ("twinlog.tier.gold.topics=(", "twinlog.tier.gold.topics"),
        ("twinlog.tier.gold.topics=a\ntwinlog.tier.gold.rpo.seconds=0", "of at least 1"),
        ("twinlog.audit.percent=101", "101 is more than 100 percent"),
        ("twinlog.gate.schedule=daily", "is no cron expression"),
    ],
)
def test_promises_that_cannot_be_read(loaded: Loader, lines: str, words: str) -> None:
    """Each is refused with its key."""
    assert words in mistakes_of(loaded, MINIMAL + lines)


def test_a_misspelt_key_of_a_tier_is_refused(loaded: Loader) -> None:
    """It would promise nothing."""
    with pytest.raises(ConfigError, match=r"twinlog\.tier\.gold\.rpo: is unknown"):
        loaded(MINIMAL + "twinlog.tier.gold.topics=a\ntwinlog.tier.gold.rpo=5")


def test_a_topic_belongs_to_the_strictest_tier_that_names_it(loaded: Loader) -> None:
    """And to the nameless one when none does."""
    flow = loaded(
        MINIMAL + "twinlog.tier.a.topics=o.*\ntwinlog.tier.b.topics=orders\ntwinlog.tier.b.rpo.seconds=5\n"
    ).flows["A->B"]
    assert ["b", "a", ""] == [flow.tier_of(topic).name for topic in ("orders", "others", "payments")]


def test_the_most_careful_policy_of_a_group_counts(loaded: Loader) -> None:
    """Of several lists that match."""
    lines = "policy=force\ntwinlog.group.sync.policy.never-rewind=a.*\ntwinlog.group.sync.policy.follow=.*b,c"
    policies = loaded(MINIMAL + "twinlog.group.sync." + lines).flows["A->B"].group_sync
    assert ["never-rewind", "follow", "follow", "force"] == [policies.of(it) for it in ("ab", "b", "c", "d")]


EVERY_LIFECYCLE_SETTING = {
    "twinlog.on.recreated=new-incarnation": ("on_recreated", RecreatedPolicy.NEW_INCARNATION),
    "A->B.twinlog.on.recreated=append": ("on_recreated", RecreatedPolicy.APPEND),
    "twinlog.on.gap=record-and-continue": ("on_gap", GapPolicy.RECORD_AND_CONTINUE),
    "twinlog.on.deleted=keep": ("delete_after_ms", None),
    "twinlog.on.deleted=delete-after:7d": ("delete_after_ms", 7 * 86_400_000),
    "twinlog.on.deleted=delete-after:1h30m": ("delete_after_ms", 5_400_000),
}


@pytest.mark.parametrize(("lines", "name", "expected"), [(k, *v) for k, v in EVERY_LIFECYCLE_SETTING.items()])
def test_each_setting_of_topics_as_they_live(loaded: Loader, lines: str, name: str, expected: object) -> None:
    """Each policy for deleted, recreated and shortened topics sets its field."""
    assert expected == getattr(loaded(MINIMAL + lines).flows["A->B"].lifecycle, name)


READ_BY_NAME = {"consumer", "producer", "admin"}  # of a cluster: by role, in librdkafka.py


def _of_itself(attribute: ast.Attribute) -> bool:
    """Say whether settings read their own field: config/ answers by it, as `why_left_out` does by `cycle_rule`."""
    return isinstance(attribute.value, ast.Name) and attribute.value.id == "self"


def test_every_setting_is_read_by_somebody() -> None:
    """A key that is parsed and never read would be accepted and do nothing; parsing it does not count."""
    root = Path(settings.__file__).parents[4]
    files = [*root.glob("include/twinlog/**/*.py"), *root.glob("dags/*.py")]
    read: set[str] = set()
    for file in files:
        for it in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(it, ast.Attribute) and ("config" not in file.parts or _of_itself(it)):
                read.add(it.attr)
    kinds = {kind for kind, _, _ in keys_of(FlowSettings)} | {ClusterSettings, Configuration}
    unread = {f"{kind.__name__}.{it.name}" for kind in kinds for it in fields(kind) if it.name not in read}
    assert {f"ClusterSettings.{name}" for name in READ_BY_NAME} >= unread


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("B->A.enabled = true\nB->A.topics = payments\nreplication.policy.class = IDENTITY", (True, False)),
        ("B->A.enabled = true\nB->A.topics = payments", None),
        ("B->A.topics = payments\nreplication.policy.class = IDENTITY", None),
    ],
    ids=["same names", "MM2's names", "not enabled"],
)
def test_a_flow_knows_which_topics_come_back_under_their_names(
    tmp_path: Path, lines: str, expected: tuple[bool, bool] | None
) -> None:
    """Of the file's reverse flow, if it is enabled and keeps names."""
    file = tmp_path / "mm2.properties"
    head = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    file.write_text(head + lines.replace("IDENTITY", policy))
    back = load(file).flows["A->B"].topics_back
    assert expected == (None if back is None else (back.accepts("payments"), back.accepts("orders")))


def settings_of(kind: type) -> set[str]:
    """Return the fields that are read from a key."""
    return {each.name for each in fields(kind) if "setting" in each.metadata}


def test_every_field_has_a_case() -> None:
    """A setting without a test above would be a setting without a key."""
    tested = {name for name, _ in EVERY_SETTING.values()} | {"source", "target", "enabled", "copy", "aliases"}
    tested |= {
        "offset_storage_topic",
        "gate",
        "lifecycle",
        "audit",
        "other_heartbeats",
        "failover",
        "recovery_run",
        "homes",
        "topics_back",
        "metrics",
        "transforms",
    }  # by offsets_topic; below; test_tiers; test_pairs
    assert {field.name for field in fields(FlowSettings)} <= tested
    assert {f"metrics.{name}" for name in settings_of(MetricsSettings)} <= tested
    assert {field.name for field in fields(LifecycleSettings)} == {
        name for name, _ in EVERY_LIFECYCLE_SETTING.values()
    }
    assert settings_of(CopySettings) == {name for name, _ in EVERY_COPY_SETTING.values()}
    assert settings_of(GateSettings) == {name for name, _ in EVERY_GATE_SETTING.values()}


def test_a_configuration_travels(loaded: Loader) -> None:
    """Settings are pickled to Spark tasks and come back equal."""
    configuration = loaded(MINIMAL)
    assert configuration == pickle.loads(pickle.dumps(configuration))
    assert configuration.sha256 == replace(configuration).sha256


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("twinlog.lanes=0", "mm2.properties:6: twinlog.lanes: '0' is not a whole number of at least 1"),
        ("replication.factor=two", "mm2.properties:6: replication.factor: 'two' is not a whole number"),
        ("replication.factor=0", "is not a whole number of at least 1, or -1"),
        ("sync.topic.acls.enabled=yes", "'yes' is neither true nor false"),
        ("emit.checkpoints.interval.seconds=0", "0 is no interval"),
        ("offset-syncs.topic.location=something", "'something' is none of source, target"),
        ("twinlog.on.poison.record=skip", "'skip' is none of fail, quarantine"),
        ("twinlog.metadata.profile=mirror", "'mirror' is none of standby, promoted, mm2"),
        ("twinlog.on.recreated=reset", "'reset' is none of fail, new-incarnation, append"),
        ("twinlog.on.gap=skip", "'skip' is none of fail, record-and-continue"),
        ("twinlog.on.deleted=delete", "'delete' is neither keep nor delete-after:TIME"),
        ("twinlog.on.deleted=delete-after:7", "'delete-after:7' is neither keep nor delete-after:TIME"),
        ("twinlog.on.deleted=delete-after:7s", "'delete-after:7s' is neither keep nor delete-after:TIME"),
        ("twinlog.cycle.rule=4.4", "none of mm2-4.3, mm2-4.4"),
        ("twinlog.transaction.ms=90000", "mm2.properties:6: twinlog.transaction.ms: has left twinlog; remove the"),
        ("twinlog.consistent.cut=true", "mm2.properties:6: twinlog.consistent.cut: has left twinlog; remove the line"),
        ("A->B.twinlog.guarantee=at_least_once", "twinlog.guarantee: has left twinlog; remove the line: records are"),
        ("twinlog.schedule=hourly", "mm2.properties:6: twinlog.schedule: 'hourly' is no cron expression"),
        ("twinlog.audit.schedule=a b c d e", "'a b c d e' is no cron expression"),
        ("twinlog.gate.schedule=61 25 0 13 9", "'61 25 0 13 9' is no cron expression"),
        ("twinlog.spark.master=foo", "mm2.properties:6: twinlog.spark.master: is no Spark master; such as"),
        ("topics=orders-[a", "mm2.properties:6: topics: the regular expression"),
        ("groups.exclude=*bad", "mm2.properties:6: groups.exclude:"),
        ("topics=a{1,3}", "a list is split at every comma"),
        ("A->B.transforms=route", "mm2.properties:6: A->B.transforms: needs transforms.route.type"),
        (
            "A->B.transforms=mask\nA->B.transforms.mask.type=MaskField$Value",
            "mm2.properties:7: A->B.transforms.mask.type: MaskField$Value cannot be applied: it works on the fields",
        ),
        ("topic.filter.class=com.example.Mine", "Java filter classes cannot run here"),
        ("replication.policy.class=com.example.Mine", "mm2.properties:6: replication.policy.class:"),
        ("A->B.source.cluster.alias=X", "contradicts the flow A->B"),
        ("security.protocol=abc", "mm2.properties:6: security.protocol: 'abc' is none of PLAINTEXT"),
        ("A.bootstrap.servers=a", "mm2.properties:6: A.bootstrap.servers: 'a' is not host:port"),
        ("A.consumer.auto.offset.reset=by_duration:P1D", "'by_duration:P1D' is none of earliest, latest"),
        ("B.security.protocol=SASL_SSL", "B.sasl.mechanism is not set, and Java's default GSSAPI needs"),
        (
            "B.security.protocol=SSL\nB.ssl.truststore.location=/none",
            "mm2.properties:7: B.ssl.truststore.location: cannot be read",
        ),
        ("clusters=A,B,,", "clusters: has an empty element"),
        ("clusters=", "clusters names no cluster"),
        ("clusters=A,B,C", "mm2.properties: C.bootstrap.servers is missing"),
        ("config.providers=vault\nconfig.providers.vault.class=V", "config.providers.vault.class: V cannot run here"),
        ("config.providers=vault", "config.providers: vault has no class"),
        ("A->B.topics=${vault:x:y}", "mm2.properties:6: A->B.topics: ${vault:x:y} names no known provider"),
    ],
)  # fmt: skip
def test_mistakes_are_said_with_file_line_and_key(loaded: Loader, line: str, part: str) -> None:
    """One clear line for each thing that cannot be used."""
    assert part in mistakes_of(loaded, MINIMAL + line)


def test_all_mistakes_come_in_one_go(loaded: Loader) -> None:
    """Three mistakes, one error, three lines, in the order of the file, each once."""
    text = MINIMAL + "twinlog.lanes=x\nreplication.factor=y\nA.security.protocol=z\n"
    assert [
        "mm2.properties has 3 mistakes:",
        "  mm2.properties:6: twinlog.lanes: 'x' is not a whole number of at least 1",
        "  mm2.properties:7: replication.factor: 'y' is not a whole number of at least 1, or -1",
        "  mm2.properties:8: A.security.protocol: 'z' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
    ] == mistakes_of(loaded, text).splitlines()


def test_strict_turns_warnings_into_one_error(loaded: Loader) -> None:
    """The same file loads with warnings, and fails under strict with the same lines."""
    text = MINIMAL + "xxx=1\nuse.defaults.from=source\n"
    warnings = loaded(text).warnings
    assert 2 == len(warnings)
    failure = mistakes_of(loaded, text, strict=True)
    assert [True, True] == [line in failure for line in warnings]
    assert () == loaded(MINIMAL, strict=True).warnings


def test_security_protocol_in_any_case(loaded: Loader) -> None:
    """MirrorMakerConfigTest.testLowerCaseSecurityProtocol: accepted, kept as typed among the properties."""
    flow = loaded(MINIMAL + "security.protocol=ssl").flows["A->B"]
    assert ("SSL", "ssl") == (
        flow.source.connection.protocol.value,
        flow.source.consumer["security.protocol"],
    )


WILD = r"""
# as people write them
clusters = us-east, us-west
us-east.bootstrap.servers = kafka1.us-east.example:9092, kafka2.us-east.example:9092
us-west.bootstrap.servers = SASL_PLAINTEXT://kafka1.us-west.example:9092

us-east->us-west.enabled = true   
us-east->us-west.topics = ^((?!us-west\\.).*)$
us-west->us-east.enabled = false
topics.blacklist = .*[\\-\\.]internal, .*\\.replica, __.*
groups.blacklist = console-consumer-.*, connect-.*, \
    __.*
us-east->us-west.sync.topic.configs.enabl = false
replication.factor=1
checkpoints.topic.replication.factor=1
heartbeats.topic.replication.factor=1
offset-syncs.topic.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
config.storage.replication.factor=1
tasks.max = 10
emit.heartbeats = true
us-east.consumer.security.protocol = PLAINTEXT
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
"""  # noqa: W291


def test_a_file_as_found_in_the_wild(loaded: Loader) -> None:
    """Hyphens in aliases, trailing blanks, look-ahead, doubled backslashes and blacklists work."""
    flow = loaded(WILD, TWINLOG_LENIENT="1").flows["us-east->us-west"]
    assert (True, 1, 1) == (flow.enabled, flow.replication_factor, flow.offset_storage_replication_factor)
    assert NameFilter((r"^((?!us-west\.).*)$",), (r".*[\-\.]internal", r".*\.replica", "__.*")) == flow.topics
    names = ["orders", "us-west.orders", "us-west-2", "a-internal", "__consumer_offsets"]
    assert ["orders", "us-west-2"] == [name for name in names if flow.topics.accepts(name)]
    assert (("kafka1.us-west.example", 9092),) == flow.target.connection.bootstrap
    assert ("console-consumer-.*", "connect-.*", "__.*") == flow.groups.exclude


def test_what_a_file_found_in_the_wild_is_warned_about(loaded: Loader) -> None:
    """Each likely mistake by its line, and nothing else."""
    warnings = loaded(WILD, TWINLOG_LENIENT="1").warnings
    assert [7, 10, 11, 13, 22] == [int(line.split(":")[1]) for line in warnings]
    assert "did you mean sync.topic.configs.enabled?" in warnings[3]
    assert "did you mean emit.heartbeats.enabled?" in warnings[4]


def test_a_lost_backslash_means_what_java_makes_of_it(loaded: Loader) -> None:
    r"""`^((?!B\.).*)$` with one backslash reads as `^((?!B.).*)$`, with a warning."""
    configuration = loaded(MINIMAL + "A->B.topics = ^((?!B\\.).*)$")
    assert ("^((?!B.).*)$",) == configuration.flows["A->B"].topics.include
    assert ["mm2.properties:6"] == [line.split(": ")[0] for line in configuration.warnings]


def test_enabled_that_is_neither_true_nor_false(loaded: Loader) -> None:
    """Java's parseBoolean makes `yes` false; that deserves a warning, and leaves no flow."""
    configuration = loaded(MINIMAL + "A->B.enabled=yes")
    assert () == configuration.enabled_flows
    assert any("A->B.enabled: is neither true nor false" in line for line in configuration.warnings)
    assert any("no flow is enabled" in line for line in configuration.warnings)


@pytest.mark.parametrize(
    "line",
    [
        "topics=${env:X}",
        "replication.policy.class=${env:X}",
        "A.bootstrap.servers=${env:X}",
        "security.protocol=${env:X}",
        "twinlog.lanes=${env:X}",
        "twinlog.schedule=${env:X}",
        "offset-syncs.topic.location=${env:X}",
        "A.security.protocol=SASL_SSL\nA.sasl.mechanism=${env:X}",
        "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\nA.sasl.jaas.config=${env:X}",
        "A.security.protocol=SSL\nA.ssl.endpoint.identification.algorithm=${env:X}",
        "A.request.timeout.ms=${env:X}\nA.admin.request.timeout.ms=${env:X}",
        "A->B.source.cluster.alias=${env:X}",
        "A->B.transforms=${env:X}",
        "A->B.transforms=a\nA->B.transforms.a.type=${env:X}",
        "topic.filter.class=${env:X}",
    ],
)
def test_an_error_never_quotes_what_a_reference_led_to(loaded: Loader, line: str) -> None:
    """The value of `${env:X}` may be a password that was put in the wrong place."""
    with pytest.raises(ConfigError) as caught:
        loaded(MINIMAL + line, X="hunter2[")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value.data)


def test_a_mistake_that_follows_from_another_is_not_said(loaded: Loader) -> None:
    """A reference that leads nowhere leaves a login empty: one line says so."""
    lines = "A.security.protocol=SASL_SSL\nA.sasl.mechanism=PLAIN\nA.sasl.jaas.config=${env:X}"
    expected = "mm2.properties:8: A.sasl.jaas.config: ${env:X}: the environment variable X is not set"
    assert expected == mistakes_of(loaded, MINIMAL + lines)


def test_transforms_are_a_flows_own(loaded: Loader) -> None:
    """Written for A->B they hold there, and in no other flow; MM2 drops them at the top level."""
    lines = (
        "A->B.transforms=live\nA->B.transforms.live.type=Filter\nA->B.transforms.live.predicate=gone"
        "\nA->B.predicates=gone\nA->B.predicates.gone.type=RecordIsTombstone\nB->A.enabled=true"
    )
    flows = loaded(MINIMAL + lines).flows
    expected = Chain((Step(Filter(), RecordIsTombstone()),))
    assert (expected, Chain()) == (flows["A->B"].transforms, flows["B->A"].transforms)


class TestObservedFlow:
    """A flow that another engine copies."""

    def test_nothing_of_the_engine_is_written(self, loaded: Loader) -> None:
        """No heartbeats, checkpoints, offset syncs or group positions, whatever the engine's file says."""
        text = f"{MINIMAL}sync.group.offsets.enabled = true\nA->B.twinlog.copied.by = mirrormaker2\n"
        flow = loaded(text).flows["A->B"]
        assert (True, False, False, False, False) == (
            flow.observed,
            *(flow.emit_heartbeats, flow.emit_checkpoints, flow.emit_offset_syncs, flow.sync_group_offsets),
        )
        assert (None, (), None) == (flow.reverse_heartbeats, flow.other_heartbeats, flow.source_heartbeats)
        assert {flow.ledger_topic, flow.offset_map_topic} == {it.name for it in internal_topics(flow)}

    def test_only_a_copy_of_our_own_is_changed(self, loaded: Loader) -> None:
        """Who copies is named, and how to go on with twinlog."""
        loaded(MINIMAL).flows["A->B"].require_copied("a pause")
        flow = loaded(f"{MINIMAL}A->B.twinlog.copied.by = other\n").flows["A->B"]
        with pytest.raises(
            UsageError, match="is copied by other and only observed here: a pause is not for it"
        ):
            flow.require_copied("a pause")
