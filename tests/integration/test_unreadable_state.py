"""What the flow remembers and cannot read: each is answered in a line that says what and where, and nothing is written.

Costs about 25 s: two guarded brokers are started.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from least_privilege import Grant, grants

from lab import Seen, commit_group, configure, create_topic, cycle, produce, read
from twinlog.cli.main import main
from twinlog.client import Ask, open_flow
from twinlog.cluster.admin.access_values import AclBinding
from twinlog.cluster.api import Cluster, open_clusters
from twinlog.cluster.permissions.needs import Names, needs
from twinlog.cluster.values import InternalRecord
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import ExitCode, TwinlogError
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.mm2.connect_offset import partition_for
from twinlog.groups import checkpoints
from twinlog.groups.report import SyncReason, SyncState
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lane.fence.fence import transactional_id
from twinlog.monitoring import heartbeats
from twinlog.offset_sync import emit, map_compaction
from twinlog.offsets.segments import Extent, MapSegment

NOW = int(time.time() * 1000)
RECORDS = [Seen(b"%d" % n, b"v", NOW + n) for n in range(20)]
USER = "User:poor"


@dataclass(frozen=True)
class Guarded:
    """Two clusters that allow nothing by themselves, a flow between them as a user, and its file."""

    admins: tuple[Cluster, Cluster]
    flow: FlowSettings
    config: Path
    group: str
    rights: tuple[Grant, ...]

    def allow(self, rights: tuple[Grant, ...]) -> None:
        """Give the user exactly these rights."""
        for cluster, alias in zip(self.admins, (self.flow.source.alias, "B"), strict=True):
            bindings = {it.binding(USER) for it in rights if it.cluster == alias}
            has = {it for it in cluster.describe_acls() if it.principal == USER}
            cluster.delete_acls(has - bindings).require()
            cluster.create_acls(bindings - has).require()
        time.sleep(0.3)  # until the brokers have heard of it

    def deny_read(self, topic: str, *, on_source: bool) -> AclBinding:
        """Forbid to read one topic, whatever else is allowed."""
        denial = AclBinding("TOPIC", "LITERAL", topic, USER, "*", "READ", "DENY")
        self.admins[0 if on_source else 1].create_acls([denial]).require()
        time.sleep(0.3)
        return denial

    def ends(self) -> Mapping[str, Mapping[TopicPartition, int]]:
        """Where every log of both clusters ends, and where every group stands."""
        found = {}
        for cluster in self.admins:
            topics = cluster.describe_topics(it for it in cluster.topic_names() if it != "__cluster_metadata")
            places = [
                TopicPartition(it.name, each.partition)
                for it in topics.found.values()
                for each in it.partitions
                if it.name != "__consumer_offsets"
                and it.name != "__transaction_state"
                and it.name != "heartbeats"
            ]
            found[cluster.alias] = {it: at.end for it, at in cluster.offsets(places).require().items()}
        found["group"] = {
            it: at.offset
            for it, at in self.admins[1].committed_offsets([self.group]).require()[self.group].items()
        }
        return found


def administrator(cluster: EmbeddedKafka, alias: str) -> Cluster:
    host, port = cluster.bootstrap_servers.split(":")
    connection = ConnectionSettings(alias, ((host, int(port)),))
    return Cluster(ClusterSettings(alias, cluster.bootstrap_servers, connection))


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A flow that has copied something and knows a group, as a user that may do what docs/security.md says."""
    folder = tmp_path_factory.mktemp("guarded")
    options: dict[str, Any] = {
        "listeners": ["SASL_PLAINTEXT"],
        "users": {"poor": "p"},
        "settings": {"allow.everyone.if.no.acl.found": "false"},
    }
    with EmbeddedKafka("GA", folder / "a", **options) as a, EmbeddedKafka("GB", folder / "b", **options) as b:
        topic, group = f"orders-{uuid.uuid4().hex[:5]}", f"billing-{uuid.uuid4().hex[:5]}"
        login = (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="poor" password="p";'
        )
        security = {
            f"{alias}.{key}": value
            for alias in ("A", "B")
            for key, value in {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": login,
            }.items()
        }
        settings = {
            "topics": topic,
            "groups": group,
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "heartbeats.replication.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "sync.group.offsets.enabled": "true",
        }
        config = configure(
            folder,
            {"A": a.address("SASL_PLAINTEXT"), "B": b.address("SASL_PLAINTEXT")},
            ["A->B"],
            **settings,
            **security,
        )
        flow = load(config).flows["A->B"]
        prefix = transactional_id(flow.name, 0).removesuffix("0")
        rights = grants(needs(flow, Names((topic,), (group,)), prefix))
        stage = Guarded((administrator(a, "A"), administrator(b, "B")), flow, config, group, tuple(rights))
        stage.allow(stage.rights)
        workers = AclBinding("GROUP", "LITERAL", f"{flow.source.alias}-mm2", USER, "*", "DESCRIBE", "ALLOW")
        stage.admins[1].create_acls([workers]).require()  # what a take-over asks first
        create_topic(a, topic)
        produce(a, topic, RECORDS)
        commit_group(a, group, topic, 7)
        assert len(RECORDS) == cycle(flow).records
        with open_clusters(flow) as clusters:
            heartbeats.run(flow, clusters)
            assert "" == emit.run(flow, clusters).warning
            assert 1 == checkpoints.run(flow, clusters).committed
        produce(a, topic, RECORDS)
        commit_group(a, group, topic, 9)
        yield stage


def names_of(flow: FlowSettings) -> Mapping[str, str]:
    return {
        "progress": flow.offsets_topic,
        "map": flow.offset_map_topic,
        "ledger": flow.ledger_topic,
        "checkpoints": flow.policy.checkpoints_topic("A"),
        "syncs": flow.policy.offset_syncs_topic("B"),
        "heartbeats": flow.policy.heartbeats_topic(),
    }


def said_by(command: str, stage: Guarded, capsys: pytest.CaptureFixture[str]) -> str:
    """What a user reads who does it: standard error of a command, the error or the warning of a step."""
    config, topic = ["--config", str(stage.config)], stage.flow.topics.include[0]
    commands = {
        "translate group": ["translate", *config, "--group", stage.group],
        "translate offset": ["translate", *config, f"{topic}:0:3"],
        "translate at": ["translate", *config, "--group", stage.group, "--at", "2026-01-01T00:00:00Z"],
        "groups": ["groups", *config],
        "takeover": ["migrate", "takeover", *config, "--dry-run"],
    }
    capsys.readouterr()
    if command in commands:
        assert ExitCode.CLUSTER == main(commands[command])
        return capsys.readouterr().err
    try:
        if command == "copy":
            return str(cycle(stage.flow))
        with open_clusters(stage.flow) as clusters:
            done = {"checkpoints": checkpoints, "syncs": emit, "upkeep": map_compaction}[command]
            return str(getattr(done.run(stage.flow, clusters), "warning", "done"))
    except TwinlogError as error:
        return str(error)


@pytest.mark.parametrize(
    ("kind", "commands"),
    [
        ("progress", ["copy", "takeover"]),
        (
            "map",
            [
                "checkpoints",
                "syncs",
                "upkeep",
                "translate group",
                "translate offset",
                "groups",
            ],
        ),
        ("ledger", ["copy", "checkpoints", "translate offset", "groups", "takeover"]),
        ("checkpoints", ["checkpoints", "groups", "translate at"]),
        ("syncs", ["syncs"]),
    ],
)
def test_without_read_on_an_internal_topic_nothing_is_guessed(
    guarded: Guarded, kind: str, commands: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line names the topic and the right, and neither a log nor a group has moved."""
    topic, on_source = names_of(guarded.flow)[kind], kind == "syncs"
    denial = guarded.deny_read(topic, on_source=on_source)
    try:
        before = guarded.ends()
        for command in commands:
            said = said_by(command, guarded, capsys)
            assert f"does not allow this user to read topic {topic}; grant READ on topic {topic}" in said, (
                command
            )
            assert 1 == len([it for it in said.strip().splitlines() if not it.endswith(" ...")]), said
        after = guarded.ends()
        fence = {
            it for it in after["B"] if it.topic == guarded.flow.ledger_topic
        }  # that a driver came, no more
        assert {
            name: {it: end for it, end in ends.items() if it not in fence} for name, ends in before.items()
        } == {name: {it: end for it, end in ends.items() if it not in fence} for name, ends in after.items()}
    finally:
        guarded.admins[0 if on_source else 1].delete_acls([denial]).require()


def test_one_bad_piece_stops_its_partition_and_no_other(
    cluster_a: Any, cluster_b: Any, tmp_path: Path, unique_topic: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Copying goes on, the other topic's groups are synced, the bad one's are named; a rebuild makes it good."""
    alias = f"A{uuid.uuid4().hex[:5]}"
    good, bad = create_topic(cluster_a, unique_topic("good")), create_topic(cluster_a, unique_topic("bad"))
    path = configure(
        tmp_path,
        {alias: cluster_a, "B": cluster_b},
        [f"{alias}->B"],
        topics=f"{good},{bad}",
        groups=f"readers-{good}",
        sync__group__offsets__enabled="true",
        heartbeats__replication__enabled="false",
        emit__heartbeats__enabled="false",
    )
    flow, group = load(path).flows[f"{alias}->B"], f"readers-{good}"
    for topic in (good, bad):
        produce(cluster_a, topic, RECORDS)
        commit_group(cluster_a, group, topic, 7)
    assert 40 == cycle(flow).records
    with open_clusters(flow) as clusters:
        life = clusters.source.describe_topics([bad]).require()[bad].topic_id
        described = clusters.target.describe_topics([flow.offset_map_topic]).require()
        count = len(described[flow.offset_map_topic].partitions)
        number = partition_for(f"{bad}-0".encode(), count)
        contradicts = encode_segment(MapSegment(3, 9, (Extent(3, 1, 6),)))
        record = InternalRecord(encode_map_key(MapKey(bad, life, 0, 3)), contradicts, number)
        clusters.target.produce(flow.offset_map_topic, [record])
        at = clusters.target.latest_records(flow.offset_map_topic)[record.key].offset
        where = f"offset {at} of {flow.offset_map_topic}-{number}"
        found = {row.topic: row for row in checkpoints.run(flow, clusters).rows}
        assert (SyncState.SYNCED, 7) == (found[good].state, found[good].downstream_offset)
        assert (SyncState.WRONGLY_NOT, SyncReason.MAP_UNREADABLE, None) == (
            found[bad].state,
            found[bad].reason,
            found[bad].committed_there,
        )
        assert f"the offset map of {bad}-0 cannot be read" in found[bad].text and where in found[bad].text
        warned = emit.run(flow, clusters)
        assert (1, True) == (warned.partitions, where in warned.warning)
        assert 0 == map_compaction.run(flow, clusters).joined
    capsys.readouterr()
    code = main(["translate", "--config", str(path), f"{good}:0:7", f"{bad}:0:7", "--output", "json"])
    answers = json.loads(capsys.readouterr().out)
    assert (1, [("", 7), ("map-unreadable", None)]) == (
        code,
        [(it["reason"], it["downstream_offset"]) for it in answers],
    )
    assert where in answers[1]["message"]
    for topic in (good, bad):
        produce(cluster_a, topic, RECORDS)
    assert 40 == cycle(flow).records, "what was copied is known from progress"
    assert RECORDS * 2 == read(cluster_b, f"{alias}.{bad}")

    assert 0 == main([
        "topics",
        "rebuild",
        "--topic",
        bad,
        "--config",
        str(path),
        "--yes",
        "--output",
        "json",
    ]), capsys.readouterr()
    cycle(flow)
    with open_flow(path, flow.name) as opened:
        assert [(True, 7)] == [(it.exact, it.downstream_offset) for it in opened.translate([Ask(bad, 0, 7)])]
