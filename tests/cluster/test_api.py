"""Cluster's verbs against real brokers."""

import random
import time
import uuid

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka import admin as kafka_admin

from lab import assert_soon, commit_group
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import ConfigSource, InternalRecord, NewTopic, PartitionOffsets
from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
    SaslSettings,
    SecurityProtocol,
)
from twinlog.errors import ClusterRefused, ClusterUnreachable
from twinlog.kafka_types import TopicPartition
from twinlog.lab.kafka.broker import EmbeddedKafka

pytestmark = pytest.mark.integration


def open_cluster(bootstrap: str, alias: str = "A") -> Cluster:
    hosts = tuple((host, int(port)) for host, _, port in (it.rpartition(":") for it in bootstrap.split(",")))
    return Cluster(ClusterSettings(alias, bootstrap, ConnectionSettings(alias, hosts)))


@pytest.fixture
def cluster(cluster_a) -> Cluster:
    return open_cluster(cluster_a.bootstrap_servers)


def test_a_cluster_says_who_it_is(cluster, cluster_b):
    """Two clusters have two ids, and one broker each here."""
    assert 1 == cluster.broker_count()
    assert cluster.cluster_id() != open_cluster(cluster_b.bootstrap_servers).cluster_id()


def test_it_is_told_as_another_client_library_tells_it(cluster, cluster_a, unique_topic):
    """Topic, settings, offsets and a group of one cluster, by confluent-kafka's admin client."""
    name, group = unique_topic("told"), unique_topic("group")
    cluster.create_topics([NewTopic(name, 2, 1, {"retention.ms": "-1"})]).require()
    cluster.produce(name, [InternalRecord(b"k", b"v", 0)] * 3)
    commit_group(cluster_a, group, name, 2)
    other = kafka_admin.AdminClient({"bootstrap.servers": cluster_a.bootstrap_servers})
    its = other.describe_topics(TopicCollection([name]), include_authorized_operations=True)[name].result(20)
    mine = cluster.describe_topics([name]).found[name]
    assert str(its.topic_id) == mine.topic_id.replace("-", "+").replace("_", "/")
    assert mine.operations == {it.name for it in its.authorized_operations}
    assert [(it.partition, it.leader, it.replicas, it.in_sync) for it in mine.partitions] == [
        (it.id, it.leader.id, tuple(node.id for node in it.replicas), tuple(node.id for node in it.isr))
        for it in its.partitions
    ]
    resource = kafka_admin.ConfigResource(kafka_admin.ResourceType.TOPIC, name)
    entries = other.describe_configs([resource])[resource].result(20)
    sources = {1: "topic", 3: "dynamic-default-broker", 4: "static-broker", 5: "default"}
    assert {
        it.name: (it.value, sources[int(it.source)], it.is_read_only, it.is_sensitive)
        for it in entries.values()
    } == {
        it.name: (it.value, it.source, it.read_only, it.sensitive)
        for it in cluster.topic_configs([name]).found[name].values()
    }
    place = ClientPartition(name, 0)
    end = other.list_offsets({place: kafka_admin.OffsetSpec.latest()})[place].result(20)
    assert end.offset == cluster.offsets([TopicPartition(name, 0)]).found[TopicPartition(name, 0)].end
    described = other.describe_consumer_groups([group])[group].result(20)
    assert (described.state.name.lower(), 0) == (
        cluster.describe_groups([group]).found[group].state,
        len(described.members),
    )


def test_one_refused_creation_does_not_stop_the_others(cluster, unique_topic):
    """A bad configuration, a bad name and too many replicas are refused by name; the good one is made."""
    good, bad, wide = unique_topic("good"), unique_topic("bad"), unique_topic("wide")
    answers = cluster.create_topics([
        NewTopic(bad, 1, 1, {"no.such.key": "1"}),
        NewTopic(wide, 1, 9),
        NewTopic("not a name!", 1, 1),
        NewTopic(good, 1, 1),
    ])
    assert {good} == set(answers.found)
    assert {bad, wide, "not a name!"} == set(answers.refused)
    assert "no.such.key" in str(answers.refused[bad])


def test_offsets_tell_what_is_decided_from_what_is_open(cluster, cluster_a, unique_topic):
    """An open transaction holds the stable end back while the end moves on."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 2, 1)]).require()
    cluster.produce(name, [InternalRecord(b"k", b"v", 0)] * 3)
    stranger = Producer({
        "bootstrap.servers": cluster_a.bootstrap_servers,
        "transactional.id": f"stranger-{uuid.uuid4()}",
    })
    stranger.init_transactions(30)
    stranger.begin_transaction()
    stranger.produce(name, b"open", partition=0)
    stranger.flush(10)
    here, there, nowhere = (TopicPartition(name, partition) for partition in (0, 1, 7))
    answers = cluster.offsets([here, there, nowhere])
    stranger.abort_transaction(30)
    assert {here: PartitionOffsets(0, 3, 4), there: PartitionOffsets(0, 0, 0)} == answers.found
    assert "unknown-topic" == answers.refused[nowhere].code


def test_a_record_larger_than_a_message_may_be_is_refused_by_name(cluster, unique_topic):
    """The ledger's large records go in parts (formats/ledger/parts.py): none comes here in one piece."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})]).require()
    with pytest.raises(ClusterRefused, match=name):
        cluster.produce(name, [InternalRecord(b"k", random.Random(1).randbytes(2_000_000))])
    assert {} == cluster.latest(name)


def test_more_records_than_the_client_library_queues(cluster, unique_topic):
    """Two hundred thousand, as positions of groups may be: all are written."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1)]).require()
    cluster.produce(name, [InternalRecord(b"k", b"v", 0)] * 200_000)
    assert 200_000 == cluster.offsets([TopicPartition(name, 0)]).found[TopicPartition(name, 0)].end


def test_an_unreachable_cluster_is_said_within_seconds():
    """Nobody listens on port 1."""
    started = time.monotonic()
    with pytest.raises(ClusterUnreachable, match="cluster A cannot be reached"):
        open_cluster("127.0.0.1:1").topic_names()
    assert time.monotonic() - started < 10


@pytest.fixture
def alice(secure_cluster) -> Cluster:
    """The secure cluster as User:alice sees it."""
    host, _, port = secure_cluster.address("SASL_PLAINTEXT").rpartition(":")
    login = SaslSettings("SCRAM-SHA-512", "alice", Secret("wonder land!"))
    connection = ConnectionSettings("S", ((host, int(port)),), SecurityProtocol.SASL_PLAINTEXT, sasl=login)
    return Cluster(ClusterSettings("S", secure_cluster.bootstrap_servers, connection))


def test_a_refusing_acl_is_named(alice, secure_cluster, unique_topic):
    """Who may not write or grow is told what to grant."""
    name = unique_topic("guarded")
    alice.create_topics([NewTopic(name, 1, 1)]).require()
    allow_only_describe(secure_cluster.bootstrap_servers, name)
    wait_until_denied(alice, name)
    with pytest.raises(ClusterRefused, match=f"grant WRITE on topic {name}"):
        alice.produce(name, [InternalRecord(b"k", b"v")])
    with pytest.raises(ClusterRefused, match=f"grant READ on topic {name}"):
        alice.read_records({TopicPartition(name, 0): 0}, limit=1)
    assert "unauthorised" == alice.create_partitions({name: 2}).refused[name].code
    assert "unauthorised" == alice.topic_configs([name]).refused[name].code


def test_a_wrong_password_is_not_retried_for_long(secure_cluster):
    """The line names the login, not the network."""
    host, _, port = secure_cluster.address("SASL_PLAINTEXT").rpartition(":")
    login = SaslSettings("SCRAM-SHA-512", "alice", Secret("guess"))
    connection = ConnectionSettings("S", ((host, int(port)),), SecurityProtocol.SASL_PLAINTEXT, sasl=login)
    with pytest.raises(ClusterRefused, match="does not accept the login"):
        Cluster(ClusterSettings("S", "", connection)).cluster_id()


def test_the_wrong_listener_is_said(secure_cluster):
    """TLS spoken to a port without it ends in a line, not in a wait for ever."""
    host, _, port = secure_cluster.bootstrap_servers.rpartition(":")
    connection = ConnectionSettings("S", ((host, int(port)),), SecurityProtocol.SSL)
    started = time.monotonic()
    with pytest.raises((ClusterRefused, ClusterUnreachable), match="S"):
        Cluster(ClusterSettings("S", "", connection)).cluster_id()
    assert time.monotonic() - started < 30


def allow_only_describe(bootstrap: str, name: str) -> None:
    """With one ACL on a topic, all that it does not allow is forbidden."""
    rule = kafka_admin.AclBinding(
        kafka_admin.ResourceType.TOPIC,
        name,
        kafka_admin.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        kafka_admin.AclOperation.DESCRIBE,
        kafka_admin.AclPermissionType.ALLOW,
    )
    admin = kafka_admin.AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_acls([rule]).values():
        future.result(20)


def wait_until_denied(cluster: Cluster, name: str) -> None:
    """ACLs reach the broker a moment after they were accepted."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if "WRITE" not in cluster.describe_topics([name]).found[name].operations:
            return
        time.sleep(0.1)
    raise AssertionError("the ACL did not arrive")


def test_more_is_made_and_changed_than_a_controller_takes_at_once(cluster, unique_topic):
    """Over 10,000 records of topics, partitions and configs: a controller refuses such a request as a whole."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1)]).require()
    odd = ("remote.", "local.", "leader.", "follower.")
    configs = {
        it.name: it.value
        for it in cluster.topic_configs([name]).found[name].values()
        if it.value and not it.name.startswith(odd)
    }
    wanted = [NewTopic(f"{name}-{number}", 1, 1, configs) for number in range(10_500 // len(configs))]
    names = [it.name for it in wanted]
    try:
        assert dict.fromkeys(names) == cluster.create_topics(wanted).require()
        changes = {it: dict.fromkeys(configs) for it in names}
        assert {} == cluster.alter_topic_configs(changes).refused
        assert_soon([], lambda: of_their_own(cluster, names))
    finally:
        cluster.delete_topics(names)


def of_their_own(cluster: Cluster, names: list[str]) -> list[tuple[str, str]]:
    """Topics and the configs that are set on them."""
    return [
        (topic, it.name)
        for topic, configs in cluster.topic_configs(names).require().items()
        for it in configs.values()
        if it.source is ConfigSource.TOPIC
    ]


@pytest.mark.long
def test_one_dead_broker_of_three_keeps_no_question(tmp_path):
    """Two clients are connected to it; brokers call it the controller until its session ends."""
    with EmbeddedKafka("three", tmp_path / "kafka", nodes=3) as brokers:
        writer, reader = (open_cluster(brokers.bootstrap_servers) for _ in range(2))
        for it in (writer, reader):
            it.topic_names()
        brokers.kill(1)
        started = time.monotonic()
        reader.describe_topics(["orders"])
        assert time.monotonic() - started < 20
        writer.create_topics([NewTopic("orders", 1, 2)]).require()
