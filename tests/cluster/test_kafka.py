"""KafkaCluster's verbs against real brokers."""

import random
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka import admin as kafka_admin

from lab import assert_soon, wait_until
from twinlog.cluster.api import Cluster
from twinlog.cluster.kafka import KafkaCluster
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

pytestmark = pytest.mark.integration


def open_cluster(bootstrap: str, alias: str = "A") -> KafkaCluster:
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    return KafkaCluster(ClusterSettings(alias, bootstrap, ConnectionSettings(alias, ((host, int(port)),))))


@pytest.fixture
def cluster(cluster_a) -> Cluster:
    return open_cluster(cluster_a.bootstrap_servers)


def test_a_cluster_says_who_it_is(cluster, cluster_b):
    """Two clusters have two ids, and one broker each here."""
    assert 1 == cluster.broker_count()
    assert cluster.cluster_id() != open_cluster(cluster_b.bootstrap_servers).cluster_id()


def test_topics_are_created_shown_grown_and_deleted(cluster, unique_topic):
    """A verb returns only when metadata shows what it did; a deleted topic alone may be shown for a moment."""
    name = unique_topic("made")
    assert {name: None} == cluster.create_topics([
        NewTopic(name, 2, 1, {"cleanup.policy": "compact"})
    ]).require()
    made = cluster.describe_topics([name]).found[name]
    assert (2, True, 1) == (len(made.partitions), made.led, made.replication_factor)
    assert {name: None} == cluster.create_partitions({name: 5}).require()
    assert {name: None} == cluster.create_partitions({name: 5}).require()  # as when somebody else was quicker
    assert 5 == len(cluster.describe_topics([name]).found[name].partitions)
    assert name in cluster.topic_names()
    cluster.delete_topics([name]).require()
    wait_until(lambda: name in cluster.describe_topics([name]).refused)
    assert "unknown-topic" == cluster.describe_topics([name]).refused[name].code


def test_creating_what_exists_is_a_success(cluster, unique_topic):
    """Two cycles may meet: the second finds the topic made."""
    wanted = [NewTopic(unique_topic(), 1, 1)]
    cluster.create_topics(wanted).require()
    cluster.create_topics(wanted).require()


def test_a_recreated_topic_has_another_id(cluster, unique_topic):
    """The topic id tells one life of a topic from the next."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1)]).require()
    first = cluster.describe_topics([name]).found[name].topic_id
    cluster.delete_topics([name]).require()
    deadline = time.monotonic() + 20
    while name in cluster.topic_names() and time.monotonic() < deadline:
        time.sleep(0.1)
    cluster.create_topics([NewTopic(name, 1, 1)]).require()
    assert first != cluster.describe_topics([name]).found[name].topic_id


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


def test_configurations_say_where_each_value_comes_from(cluster, unique_topic):
    """What was set on the topic is told apart from defaults."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1, {"retention.ms": "1234"})]).require()
    configs = cluster.topic_configs([name]).found[name]
    assert ("1234", ConfigSource.TOPIC) == (configs["retention.ms"].value, configs["retention.ms"].source)
    assert ConfigSource.DEFAULT == configs["flush.ms"].source


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


def test_offsets_at_a_time(cluster, unique_topic):
    """The first record at or after a time, None when all are older."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1, {"retention.ms": "-1"})]).require()
    cluster.produce(name, [InternalRecord(b"k", b"v", 0, timestamp) for timestamp in (1000, 2000, 3000)])
    at = TopicPartition(name, 0)
    found = [cluster.offsets_at([at], timestamp).found[at] for timestamp in (1, 1500, 3001)]
    assert [0, 1, None] == found


def test_records_are_read_from_a_start_to_a_limit(cluster, unique_topic):
    """Up to `limit` records a partition; an empty rest is an empty tuple and not a wait."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 2, 1, {"retention.ms": "-1"})]).require()
    cluster.produce(
        name, [InternalRecord(b"k%d" % n, None if n == 2 else b"v", 0, 1000 + n) for n in range(5)]
    )
    full, empty = TopicPartition(name, 0), TopicPartition(name, 1)
    read = cluster.read_records({full: 1, empty: 0}, limit=2)
    assert [(1, 1001, b"k1", b"v"), (2, 1002, b"k2", None)] == [
        (it.offset, it.timestamp, it.key, it.value) for it in read[full]
    ]
    assert () == read[empty]


def test_latest_is_the_last_value_of_each_key(cluster, unique_topic):
    """A tombstoned key is gone."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1, {"cleanup.policy": "compact"})]).require()
    pairs = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"b", None)]
    cluster.produce(name, [InternalRecord(key, value) for key, value in pairs])
    assert {b"a": b"2"} == cluster.latest(name)


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


def test_writing_to_a_topic_that_is_not_there_creates_nothing(cluster, unique_topic):
    """It is refused at once, and stays absent."""
    name = unique_topic()
    with pytest.raises(ClusterRefused, match=name):
        cluster.produce(name, [InternalRecord(b"k", b"v")])
    assert name not in cluster.topic_names()


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
    return KafkaCluster(ClusterSettings("S", secure_cluster.bootstrap_servers, connection))


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
        KafkaCluster(ClusterSettings("S", "", connection)).cluster_id()


def test_the_wrong_listener_is_said(secure_cluster):
    """TLS spoken to a port without it ends in a line, not in a wait for ever."""
    host, _, port = secure_cluster.bootstrap_servers.rpartition(":")
    connection = ConnectionSettings("S", ((host, int(port)),), SecurityProtocol.SSL)
    started = time.monotonic()
    with pytest.raises((ClusterRefused, ClusterUnreachable), match="S"):
        KafkaCluster(ClusterSettings("S", "", connection)).cluster_id()
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
