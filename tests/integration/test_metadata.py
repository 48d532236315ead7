"""Metadata between two clusters that allow nothing by themselves, with a user that may do no more than it must.

Costs about 45 s: two more brokers are started.  Two long tests take minutes: that no right can be left out, and a
plan over 1,000 topics, timed.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from least_privilege import Grant, grants

from lab import Seen, ThreadRunner, commit_group, create_topic, cycle, grow_topic, produce, read
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.audit.result import AuditResult
from twinlog.cli.main import main
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity
from twinlog.cluster.api import Cluster, Clusters, open_clusters
from twinlog.cluster.permissions.needs import Kind, Names, needs
from twinlog.config.flow.load import load
from twinlog.config.flow.metadata import Profile
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import TwinlogError
from twinlog.follow import follow
from twinlog.groups import checkpoints
from twinlog.judge import validate
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.fence.fence import transactional_id
from twinlog.lifecycle import sync_topics
from twinlog.metadata import sync
from twinlog.migration.copier import Origin, traces
from twinlog.monitoring import heartbeats
from twinlog.offset_sync import emit

USERS = {"twinlog": "t", "jo": "j", "poor": "p"}
TWINLOG = "User:twinlog"
GIVEN_OTHERWISE = {
    "write checkpoints",  # by the copies' prefix
    "audit the copy, and see what is open in it",  # by the ACL sync: this user may read the source
}
RECORDS = [Seen(b"%d" % n, b"v", 1_700_000_000_000 + n) for n in range(5)]


@dataclass(frozen=True)
class Pair:
    """Two guarded clusters, and an administrator's view of both."""

    a: EmbeddedKafka
    b: EmbeddedKafka
    admin: Clusters


def as_administrator(cluster: EmbeddedKafka, alias: str) -> Cluster:
    host, port = cluster.bootstrap_servers.split(":")
    connection = ConnectionSettings(alias, ((host, int(port)),))
    return Cluster(ClusterSettings(alias, cluster.bootstrap_servers, connection))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Everything is forbidden that no ACL allows."""
    folder = tmp_path_factory.mktemp("metadata")
    options: dict[str, Any] = {
        "listeners": ["SASL_PLAINTEXT"],
        "users": USERS,
        "settings": {"allow.everyone.if.no.acl.found": "false"},
    }
    with (
        EmbeddedKafka("GA", folder / "a", **options) as a,
        EmbeddedKafka("GB", folder / "b", **options) as b,
    ):
        yield Pair(a, b, Clusters(as_administrator(a, "A"), as_administrator(b, "B")))


@dataclass(frozen=True)
class Stage:
    """One flow with an alias, a topic and a configuration file of its own, run as some user."""

    flow: FlowSettings
    topic: str
    config: Path

    @property
    def remote(self) -> str:
        return f"{self.flow.source.alias}.{self.topic}"

    @property
    def alias(self) -> str:
        return self.flow.source.alias

    @property
    def group(self) -> str:
        return f"{self.topic}-readers"


@pytest.fixture
def staged(pair: Pair, tmp_path: Path) -> Callable[..., Stage]:
    """`staged(user)` makes a flow with one topic; the topic exists on the source."""

    def stage(user: str = "twinlog", **properties: str) -> Stage:
        alias, topic = f"A{uuid.uuid4().hex[:5]}", f"orders-{uuid.uuid4().hex[:5]}"
        login = (
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="{user}" password="{USERS[user]}";'
        )
        lines = [f"clusters = {alias}, B", f"{alias}->B.enabled = true"]
        for name, cluster in ((alias, pair.a), ("B", pair.b)):
            lines += [
                f"{name}.bootstrap.servers = {cluster.address('SASL_PLAINTEXT')}",
                f"{name}.security.protocol = SASL_PLAINTEXT",
                f"{name}.sasl.mechanism = SCRAM-SHA-512",
                f"{name}.sasl.jaas.config = {login}",
            ]
        settings = {
            "topics": topic,
            "groups": f"{topic}.*",
            "replication.factor": "1",
            "offset.storage.replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "heartbeats.replication.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "emit.offset-syncs.enabled": "false",
        } | {key.replace("__", "."): value for key, value in properties.items()}
        lines += [f"{key} = {value}" for key, value in settings.items()]
        path = tmp_path / f"{alias}.properties"
        path.write_text("\n".join(lines) + "\n")
        create_topic(pair.a, topic)
        produce(pair.a, topic, RECORDS)
        return Stage(load(path).flows[f"{alias}->B"], topic, path)

    return stage


def least(stage: Stage) -> tuple[Grant, ...]:
    """What docs/security.md says this flow needs."""
    prefix = transactional_id(stage.flow.name, 0).removesuffix("0")
    return grants(needs(stage.flow, Names((stage.topic,), (stage.group,)), prefix))


def allow(pair: Pair, wanted: Sequence[Grant], principal: str = TWINLOG) -> None:
    """Give a user exactly these rights, and take everything else."""
    for cluster, is_target in ((pair.admin.source, False), (pair.admin.target, True)):
        bindings = {it.binding(principal) for it in wanted if (it.cluster == "B") == is_target}
        has = {it for it in cluster.describe_acls() if it.principal == principal}
        cluster.delete_acls(has - bindings).require()
        cluster.create_acls(bindings - has).require()
    time.sleep(0.3)  # until the brokers have heard of it


def on_source(stage: Stage, text: str) -> AclBinding:
    """`TOPIC * jo READ ALLOW`; `T` is the stage's topic, `..` makes a prefix."""
    kind, name, user, operation, permission = text.replace(" T", f" {stage.topic}", 1).split()
    pattern = "PREFIXED" if name.endswith("..") else "LITERAL"
    return AclBinding(kind, pattern, name.removesuffix(".."), f"User:{user}", "*", operation, permission)


def everything(pair: Pair, stage: Stage) -> list[str]:
    """Let a flow do all it can do: create, copy, grow, beat, sync; return what went wrong."""
    trouble: list[str] = []

    def attempt(what: str, step: Callable[[], Any], judge: Callable[[Any], Any]) -> None:
        try:
            said = judge(step())
        except TwinlogError as error:
            said = str(error)
        if said:
            trouble.append(f"{what}: {said}")

    with open_clusters(stage.flow) as clusters:
        attempt("topics", lambda: sync_topics.run(stage.flow, clusters), _in_the_way)
        attempt("copy", lambda: cycle(stage.flow), lambda it: it.records != len(RECORDS) and it)
        grow_topic(pair.a, stage.topic, 2)
        produce(pair.a, stage.topic, RECORDS, 1)
        attempt("growth", lambda: sync_topics.run(stage.flow, clusters), _in_the_way)
        attempt("more", lambda: cycle(stage.flow), lambda it: it.records != len(RECORDS) and it)
        attempt("beat", lambda: heartbeats.run(stage.flow, clusters), lambda it: it.warning)
        attempt("validate", lambda: validate.run(stage.flow, clusters), lambda it: None)
        attempt("metadata", lambda: sync.run(stage.flow, clusters), lambda it: it.refused)
    return trouble


def place_group(pair: Pair, stage: Stage) -> None:
    """Commit the group's position on the source, whose coordinator may be new."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return commit_group(pair.a, stage.group, stage.topic, 3)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.3)


def proves(result: AuditResult) -> bool:
    """Whether an audit could read both sides whole, and found them equal."""
    return result.equal and all(it.coverage == 1 for it in result.partitions)


def all_else(pair: Pair, stage: Stage) -> list[str]:
    """Let a flow whose topics are copied do what it does beside that: follow, place groups, prove, look about."""
    trouble: list[str] = []
    flow = stage.flow
    place_group(pair, stage)
    produce(pair.a, stage.topic, RECORDS)
    steps: dict[str, Callable[[Clusters], Any]] = {
        "follow": lambda it: (
            follow.run(flow, it, ThreadRunner(), run_id=uuid.uuid4().hex, seconds=5).records == len(RECORDS)
        ),
        "offset syncs": lambda it: not emit.run(flow, it).warning,
        "more offset syncs": lambda it: not emit.run(flow, it).warning,  # the last ones are read
        "groups": lambda it: checkpoints.run(flow, it).groups_synced == (stage.group,),
        "audit": lambda it: proves(audit.run(flow, it, LocalAuditRunner(), AuditRequest(AuditMode.FULL))),
        "who beats": lambda it: traces(flow, it, Origin.of(flow), ())[
            f"heartbeats of {flow.name} still arrive"
        ],
    }
    with open_clusters(flow) as clusters:
        for what, step in steps.items():
            try:
                if not step(clusters):
                    trouble.append(f"{what}: not done")
            except TwinlogError as error:
                trouble.append(f"{what}: {error}")
    return trouble


def give_the_source_something_to_sync(pair: Pair, stage: Stage) -> None:
    source = pair.admin.source
    source.alter_topic_configs({stage.topic: {"max.message.bytes": "2000000"}}).require()
    source.create_acls([on_source(stage, "TOPIC T jo READ ALLOW")]).require()
    source.alter_quotas({QuotaEntity.of({"user": stage.topic}): {"producer_byte_rate": 1e9}}).require()


def _in_the_way(result: sync_topics.SyncTopicsResult) -> Any:
    return (*result.refused, *result.problems, *(it for it in result.notes if "cannot be checked" in it))


FULL = {
    "twinlog__sync__quotas__enabled": "true",
    "emit__checkpoints__enabled": "true",
    "emit__offset-syncs__enabled": "true",
    "sync__group__offsets__enabled": "true",
}


def test_the_documented_rights_are_enough(pair: Pair, staged: Callable[..., Stage]) -> None:
    """A user with exactly these copies, follows, grows, beats, syncs everything, places groups and audits."""
    stage = staged(**FULL)
    give_the_source_something_to_sync(pair, stage)
    allow(pair, least(stage))
    assert [] == everything(pair, stage)
    assert RECORDS == read(pair.b, stage.remote)
    assert [] == all_else(pair, stage)
    own = pair.admin.target.topic_configs([stage.remote]).require()[stage.remote]
    assert "2000000" == own["max.message.bytes"].value


@pytest.mark.long
def test_none_of_the_documented_rights_can_be_left_out(pair: Pair, staged: Callable[..., Stage]) -> None:
    """Without any single one of them something is refused; but for those that the page calls optional."""
    idle = []
    for number in itertools.count():
        stage = staged(**FULL)
        give_the_source_something_to_sync(pair, stage)
        wanted = [it for it in least(stage) if it.why not in GIVEN_OTHERWISE]
        if number == len(wanted):
            break
        left_out = wanted[number]
        for end in (pair.admin.source, pair.admin.target):
            end.delete_topics(["heartbeats", "mm2-offset-syncs.B.internal"])
        allow(pair, [it for it in wanted if it != left_out])
        trouble = everything(pair, stage) or all_else(pair, stage)
        print(f"{left_out}: {trouble}")
        if not trouble and left_out.required:
            idle.append(left_out)
    assert [] == idle


def login(cluster: EmbeddedKafka, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": cluster.address("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": user,
        "sasl.password": USERS[user],
        "log_level": 0,
    }


def reads(cluster: EmbeddedKafka, user: str, topic: str, group: str, partitions: int = 2) -> int | str:
    """How many records a consumer gets from a topic, or what it is told."""
    consumer = Consumer({
        **login(cluster, user),
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.partition.eof": True,
    })
    consumer.subscribe([topic])
    count, ends, deadline = 0, 0, time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error() is None:
                count += 1
            elif message.error().name() == "_PARTITION_EOF":
                ends += 1
                if ends == partitions:
                    return count
            else:
                return str(message.error().name())
    finally:
        consumer.close()
    raise AssertionError("no answer in 60 s")


def writes(cluster: EmbeddedKafka, user: str, topic: str, transactional_id: str) -> str:
    """ "done", or what a transactional producer is told."""
    producer = Producer({**login(cluster, user), "transactional.id": transactional_id})
    try:
        producer.init_transactions(30)
        producer.begin_transaction()
        told: list[str] = []
        producer.produce(
            topic, b"x", on_delivery=lambda error, _: told.append(error.name() if error else "done")
        )
        producer.flush(30)
        if told == ["done"]:
            producer.commit_transaction(30)
        return told[0]
    except KafkaException as failure:
        return str(failure.args[0].name())


def say(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Run a twinlog command; return its exit code and its JSON document."""
    capsys.readouterr()
    code = main(["metadata", *words, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.long
def test_a_standby_reads_and_a_promoted_one_writes_without_its_source(
    pair: Pair, staged: Callable[..., Stage], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A client of the source works on the target as far as the profile says, after a plan approved beforehand."""
    stage = staged()
    group, transactions = f"{stage.topic}-readers", f"tx-{stage.topic}"
    wanted = [
        on_source(stage, "TOPIC T jo ALL ALLOW"),
        on_source(stage, f"GROUP {group} jo READ ALLOW"),
        on_source(stage, f"TRANSACTIONAL_ID {transactions}.. jo WRITE ALLOW"),
        on_source(stage, "TOPIC T poor WRITE DENY"),
    ]
    pair.admin.source.create_acls(wanted).require()
    allow(pair, least(stage))
    assert [] == everything(pair, stage)
    assert 2 * len(RECORDS) == reads(pair.b, "jo", stage.remote, group)
    assert "done" != writes(pair.b, "jo", stage.remote, f"{transactions}-1")

    saved = str(tmp_path / "promotion.json")
    code, document = say(
        capsys, "plan", "--config", str(stage.config), "--profile", "promoted", "--save", saved
    )
    assert (0, f"{stage.alias}->B") == (code, document["flow"])
    assert [
        ("acl", f"topic {stage.remote}", "User:jo ALL", None, "ALLOW", "set"),
        ("acl", f"transactional ids {transactions}*", "User:jo WRITE", None, "ALLOW", "set"),
    ] == [
        tuple(change[name] for name in ("kind", "resource", "name", "from", "to", "action"))
        for change in document["changes"]
        if "User:jo" in change["name"] and stage.topic in change["resource"]
    ]

    alive = pair.a.address("SASL_PLAINTEXT")
    stage.config.write_text(stage.config.read_text().replace(alive, "127.0.0.1:1"))
    code, document = say(capsys, "apply", "--config", str(stage.config), "--plan", saved)
    assert 0 == code, document
    assert [f"{stage.alias} does not answer: applied as approved"] == document["notes"]
    time.sleep(0.3)
    assert "done" == writes(pair.b, "jo", stage.remote, f"{transactions}-1")
    denied = replace(wanted[3], name=stage.remote)
    assert denied in pair.admin.target.describe_acls()

    code, document = say(capsys, "apply", "--config", str(stage.config), "--plan", saved)
    assert (1, "plan-applied") == (code, document["error"]["code"])


def logs_in(cluster: EmbeddedKafka, user: str, password: str) -> bool:
    """Whether the broker takes this password."""
    failed: list[str] = []
    settings = login(cluster, "jo") | {"sasl.username": user, "sasl.password": password}
    admin = AdminClient(settings | {"error_cb": lambda error: failed.append(error.name())})
    try:
        return bool(admin.list_topics(timeout=5).brokers)
    except KafkaException:
        admin.poll(1)
        assert "_AUTHENTICATION" in failed
        return False


def test_missing_rights_are_named_item_by_item(pair: Pair, staged: Callable[..., Stage]) -> None:
    """Without ALTER on the cluster and ALTER_CONFIGS on the copies the rest is synced all the same."""
    stage = staged("poor", **FULL)
    give_the_source_something_to_sync(pair, stage)
    rights = least(stage)
    allow(pair, rights, "User:poor")
    with open_clusters(stage.flow) as clusters:
        sync_topics.run(stage.flow, clusters)
        pair.admin.source.alter_topic_configs({stage.topic: {"segment.ms": "3600000"}}).require()
        weaker = {"ALTER": "DESCRIBE", "ALTER_CONFIGS": "DESCRIBE_CONFIGS"}
        seeing = [
            it
            if it.operation == "ALTER_CONFIGS" and it.kind is Kind.CLUSTER
            else replace(it, operation=weaker.get(it.operation, it.operation))
            for it in rights
        ]
        allow(pair, seeing, "User:poor")
        result = sync.run(stage.flow, clusters)
    hints = {it.name: it.hint for it in result.refused}
    assert f"grant ALTER_CONFIGS on topic {stage.remote}" == hints[f"topic {stage.remote}: segment.ms"]
    assert "grant ALTER on the cluster" == hints[f"topic {stage.remote}: User:jo READ"]
    assert [f"user {stage.topic}"] == [
        it.row.resource for it in result.applied if stage.topic in it.row.resource
    ]


def given(pair: Pair, stage: Stage) -> set[tuple[str, str, str, str, str, str]]:
    """The target's ACLs for jo and eve on this flow's copies, on its group and transactional ids."""
    names = (stage.alias, stage.topic)
    return {
        (
            it.resource_type,
            it.pattern,
            it.name,
            it.principal.removeprefix("User:"),
            it.operation,
            it.permission,
        )
        for it in pair.admin.target.describe_acls()
        if it.principal in {"User:jo", "User:eve"} and it.name.startswith(names)
    }


def test_acls_of_every_shape_follow_the_copies_and_go_when_they_go(
    pair: Pair, staged: Callable[..., Stage]
) -> None:
    """Wildcards land on the prefix of the copies, a DENY stays one, a principal Kafka does not know is said."""
    stage = staged()
    topic, copy, prefix = stage.topic, stage.remote, f"{stage.alias}."
    wanted = [
        on_source(stage, it)
        for it in (
            "TOPIC * jo READ ALLOW",
            "TOPIC * eve WRITE DENY",
            "TOPIC T eve ALL DENY",
            "TOPIC T.. jo WRITE ALLOW",
            f"GROUP {stage.group} jo ALL ALLOW",
            f"TRANSACTIONAL_ID {topic}-tx.. jo WRITE ALLOW",
        )
    ]
    stranger = replace(wanted[0], name=topic, principal="Group:admins")
    source = pair.admin.source
    source.create_acls([*wanted, stranger]).require()
    try:
        allow(pair, least(stage))
        cycle(stage.flow)
        with open_clusters(stage.flow) as clusters:
            first = sync.run(stage.flow, clusters)
            assert () == first.refused
            assert ["principals of type User only, not Group"] == [
                it.message[it.message.index("principals") :][:39]
                for it in first.drift
                if it.name == "Group:admins READ"
            ]
            denied = {
                ("TOPIC", "PREFIXED", prefix, "eve", "WRITE", "DENY"),
                ("TOPIC", "LITERAL", copy, "eve", "ALL", "DENY"),
            }
            readers = {
                ("TOPIC", "PREFIXED", prefix, "jo", "READ", "ALLOW"),
                ("GROUP", "LITERAL", stage.group, "jo", "READ", "ALLOW"),
            }
            assert denied | readers == given(pair, stage)
            assert len(RECORDS) == reads(pair.b, "jo", copy, stage.group, partitions=1)
            assert "done" != writes(pair.b, "jo", copy, f"{topic}-tx1")

            promoted = replace(stage.flow, metadata=replace(stage.flow.metadata, profile=Profile.PROMOTED))
            sync.run(promoted, clusters)
            writers = {
                ("TOPIC", "PREFIXED", copy, "jo", "WRITE", "ALLOW"),
                ("GROUP", "LITERAL", stage.group, "jo", "ALL", "ALLOW"),
                ("TRANSACTIONAL_ID", "PREFIXED", f"{topic}-tx", "jo", "WRITE", "ALLOW"),
            }
            assert writers | denied <= given(pair, stage)
            time.sleep(0.3)
            assert "done" == writes(pair.b, "jo", copy, f"{topic}-tx1")

            sync.run(stage.flow, clusters)
            assert denied | readers == given(pair, stage)
            source.delete_acls([wanted[0], wanted[2]]).require()
            sync.run(stage.flow, clusters)
            assert {*denied, *readers} - {
                ("TOPIC", "PREFIXED", prefix, "jo", "READ", "ALLOW"),
                ("TOPIC", "LITERAL", copy, "eve", "ALL", "DENY"),
            } == given(pair, stage)

            before = given(pair, stage)
            source.delete_acls([wanted[1]]).require()
            literal = on_source(stage, "TOPIC T jo ALL ALLOW")
            source.create_acls([literal]).require()
            wanted.append(literal)
            as_mm2 = replace(stage.flow, metadata=replace(stage.flow.metadata, profile=Profile.MM2))
            sync.run(as_mm2, clusters)
            assert before | {("TOPIC", "LITERAL", copy, "jo", "READ", "ALLOW")} == given(pair, stage)
    finally:
        source.delete_acls([*wanted, stranger]).require()


def test_rights_to_everything_do_not_reach_the_flows_state(pair: Pair, staged: Callable[..., Stage]) -> None:
    """An application that may do all on A writes to its copy on B, and neither to twinlog's topics nor as a lane."""
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    stage = staged(replication__policy__class=identity, twinlog__metadata__profile="promoted")
    wanted = [
        on_source(stage, "TOPIC * jo ALL ALLOW"),
        on_source(stage, "TRANSACTIONAL_ID * jo WRITE ALLOW"),
    ]
    pair.admin.source.create_acls(wanted).require()
    before = set(pair.admin.target.describe_acls())
    clusters = Clusters(as_administrator(pair.a, stage.alias), as_administrator(pair.b, "B"))
    try:
        sync_topics.run(stage.flow, clusters)
        assert not sync.run(stage.flow, clusters).refused
        time.sleep(0.3)
        assert "done" == writes(pair.b, "jo", stage.topic, f"tx-{stage.topic}")
        refused = writes(pair.b, "jo", stage.flow.ledger_topic, f"tx-{stage.topic}")
        assert "TOPIC_AUTHORIZATION_FAILED" == refused
        assert "done" != writes(pair.b, "jo", stage.topic, transactional_id(stage.flow.name, 0))
    finally:
        pair.admin.source.delete_acls(wanted).require()
        pair.admin.target.delete_acls(set(pair.admin.target.describe_acls()) - before).require()


def test_a_plan_that_drifted_or_was_edited_is_refused(
    pair: Pair, staged: Callable[..., Stage], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """In one line with what to do; the target stays as it was."""
    stage = staged(sync__topic__acls__enabled="false")
    allow(pair, least(stage))
    cycle(stage.flow)
    pair.admin.source.alter_topic_configs({stage.topic: {"segment.ms": "3600000"}}).require()
    saved, config = tmp_path / "plan.json", str(stage.config)
    assert 0 == say(capsys, "plan", "--config", config, "--save", str(saved))[0]
    approved = saved.read_text()

    saved.write_text(approved.replace("3600000", "1"))
    code, document = say(capsys, "apply", "--config", config, "--plan", str(saved))
    assert (2, "plan-file") == (code, document["error"]["code"])

    saved.write_text(approved)
    pair.admin.target.alter_topic_configs({stage.remote: {"segment.ms": "7200000"}}).require()
    code, document = say(capsys, "apply", "--config", config, "--plan", str(saved))
    assert (1, "plan-drifted") == (code, document["error"]["code"])
    assert f"topic {stage.remote}: segment.ms is 7200000 by now, not unset" in document["error"]["message"]

    code, document = say(capsys, "plan", "--config", config)
    assert (0, [], [("segment.ms", "3600000", "7200000")]) == (
        code,
        document["changes"],
        [(it["name"], it["source"], it["target"]) for it in document["drift"]],
    )


@pytest.mark.long
def test_a_plan_over_a_thousand_topics(
    cluster_a: EmbeddedKafka, cluster_b: EmbeddedKafka, tmp_path: Path
) -> None:
    """Configs and ACLs of 1,000 topics, planned and applied; the times are printed."""
    from lab import flow_of
    from twinlog.cluster.values import NewTopic

    flow = flow_of(tmp_path, cluster_a, cluster_b, ["thousand-.*"])
    source = as_administrator(cluster_a, "A")
    names = [f"thousand-{number}" for number in range(1_000)]
    source.create_topics([NewTopic(name, 1, 1, {"retention.ms": "3600000"}) for name in names]).require()
    acls = [AclBinding("TOPIC", "LITERAL", name, "User:jo", "*", "READ", "ALLOW") for name in names]
    source.create_acls(acls).require()
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        source.alter_topic_configs({name: {"segment.ms": "3600000"} for name in names}).require()
        deadline, left = time.monotonic() + 120, 2_000
        while left and time.monotonic() < deadline:
            started, cpu = time.perf_counter(), time.process_time()
            plan = sync.make_plan(flow, clusters)
            planned, cpu_planned = time.perf_counter(), time.process_time()
            left = len(plan.changes)
            assert sync.apply(flow, plan, clusters.target).complete
            print(
                f"{left} changes: plan {planned - started:.2f} s ({cpu_planned - cpu:.2f} CPU),"
                f" apply {time.perf_counter() - planned:.2f} s ({time.process_time() - cpu_planned:.2f} CPU)"
            )
        assert 0 == left
    source.delete_acls(acls).require()
    source.delete_topics(names).require()
    Cluster(flow.target).delete_topics([f"A.{name}" for name in names]).require()
