"""What every cluster does, in memory or of brokers: scenarios trust the fake because it passes what brokers pass.

The fake is asked by the unit tests, real brokers by those on machinery (the same cases).
"""

import time

import pytest
from fake_cluster import FakeCluster

from lab import wait_until
from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, GroupState, OffsetChange
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import ConfigSource, InternalRecord, NewTopic, PartitionOffsets
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.errors import ClusterRefused
from twinlog.kafka_types import TopicPartition


@pytest.fixture(params=["in memory", pytest.param("of brokers", marks=pytest.mark.integration)])
def cluster(request) -> Cluster:
    """An empty cluster in memory, or the shared one of brokers."""
    if request.param == "in memory":
        return FakeCluster("A")
    bootstrap = request.getfixturevalue("cluster_a").bootstrap_servers
    host, _, port = bootstrap.partition(",")[0].rpartition(":")
    return Cluster(ClusterSettings("A", bootstrap, ConnectionSettings("A", ((host, int(port)),))))


@pytest.fixture
def topic(cluster, unique_topic) -> str:
    """A topic of two partitions that keeps its records whatever their time, with three records in the first."""
    name = unique_topic("agreed")
    cluster.create_topics([NewTopic(name, 2, 1, {"retention.ms": "-1"})]).require()
    cluster.produce(name, [InternalRecord(b"k", b"v", 0, timestamp) for timestamp in (1000, 2000, 3000)])
    return name


def test_one_refused_creation_does_not_stop_the_others(cluster, unique_topic):
    """A bad name, too many replicas, and a name that differs in `.` and `_` from one that is there, are refused."""
    good, wide, taken = (unique_topic(stem).replace("-", ".") for stem in ("good", "wide", "taken"))
    cluster.create_topics([NewTopic(taken.replace(".", "_"), 1, 1)]).require()
    wanted = [
        NewTopic(wide, 1, 9),
        NewTopic("not a name!", 1, 1),
        NewTopic(taken, 1, 1),
        NewTopic(good, 1, 1),
    ]
    answers = cluster.create_topics(wanted)
    assert ({good}, {wide, "not a name!", taken}) == (set(answers.found), set(answers.refused))
    assert {good, taken.replace(".", "_")} == {good, wide, taken, taken.replace(".", "_")} & {
        *cluster.topic_names()
    }


def test_offsets_say_where_logs_begin_and_end_and_refuse_what_is_not_there(cluster, topic):
    """A partition that does not exist is refused by name; the others are answered."""
    full, empty, nowhere = (TopicPartition(topic, partition) for partition in (0, 1, 7))
    answers = cluster.offsets([full, empty, nowhere])
    assert {full: PartitionOffsets(0, 3, 3), empty: PartitionOffsets(0, 0, 0)} == answers.found
    assert "unknown-topic" == answers.refused[nowhere].code


def test_a_topic_that_is_not_there_is_refused_by_each_question(cluster, unique_topic):
    """With the one code by which it is known to be absent, whatever was asked."""
    name = unique_topic("absent")
    refusals = [
        cluster.describe_topics([name]).refused,
        cluster.topic_configs([name]).refused,
        cluster.create_partitions({name: 3}).refused,
        cluster.delete_topics([name]).refused,
    ]
    assert ["unknown-topic"] * 4 == [refused[name].code for refused in refusals]


def test_a_config_is_set_and_taken_back(cluster, topic):
    """None leaves a config to its default."""
    cluster.alter_topic_configs({topic: {"retention.bytes": "99"}}).require()
    wait_until(lambda: _own(cluster, topic) == {"retention.ms": "-1", "retention.bytes": "99"})
    cluster.alter_topic_configs({topic: {"retention.bytes": None}}).require()
    wait_until(lambda: _own(cluster, topic) == {"retention.ms": "-1"})


def _own(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """The configs that are set on a topic."""
    configs = cluster.topic_configs([topic]).found[topic].values()
    return {it.name: it.value for it in configs if it.source is ConfigSource.TOPIC}


def test_a_position_is_written_where_it_was_expected_and_nowhere_else(cluster, topic):
    """Compare and set: a group that was moved meanwhile is left as it is, and said."""
    at, group = TopicPartition(topic, 0), f"group-{topic}"
    cluster.alter_offsets({group: {at: OffsetChange(1, None, "first")}}).require()
    cluster.alter_offsets({group: {at: OffsetChange(2, 1, "then")}}).require()
    refused = cluster.alter_offsets({group: {at: OffsetChange(3, 1, "late")}}).refused
    assert "offset-moved" == refused[GroupPartition(group, *at)].code
    assert {at: CommittedOffset(2, "then")} == cluster.committed_offsets([group]).found[group]
    assert group in {it.group for it in cluster.groups()}


def test_a_group_that_nobody_heard_of_is_dead_and_has_no_positions(cluster, unique_topic):
    """Asking for it makes none."""
    name = unique_topic("nobody")
    assert (GroupState.DEAD, ()) == (
        cluster.describe_groups([name]).found[name].state,
        cluster.describe_groups([name]).found[name].members,
    )
    assert {} == cluster.committed_offsets([name]).found[name]


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


def test_configurations_say_where_each_value_comes_from(cluster, unique_topic):
    """What was set on the topic is told apart from defaults."""
    name = unique_topic()
    cluster.create_topics([NewTopic(name, 1, 1, {"retention.ms": "1234"})]).require()
    configs = cluster.topic_configs([name]).found[name]
    assert ("1234", ConfigSource.TOPIC) == (configs["retention.ms"].value, configs["retention.ms"].source)
    assert ConfigSource.DEFAULT == configs["flush.ms"].source


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


def test_writing_to_a_topic_that_is_not_there_creates_nothing(cluster, unique_topic):
    """It is refused at once, and stays absent."""
    name = unique_topic()
    with pytest.raises(ClusterRefused, match=name):
        cluster.produce(name, [InternalRecord(b"k", b"v")])
    assert name not in cluster.topic_names()
