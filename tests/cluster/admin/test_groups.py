"""Groups of a real cluster: what is listed, described, read and written."""

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ClientPartition

from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, GroupState, GroupType, OffsetChange
from twinlog.cluster.api import Cluster
from twinlog.cluster.values import NewTopic
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import FormatError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers

pytestmark = pytest.mark.integration


@pytest.fixture
def cluster(cluster_a) -> Cluster:
    host, _, port = cluster_a.bootstrap_servers.partition(",")[0].rpartition(":")
    settings = ConnectionSettings("A", ((host, int(port)),))
    return Cluster(ClusterSettings("A", cluster_a.bootstrap_servers, settings))


@pytest.fixture
def topic(cluster, unique_topic) -> str:
    name = unique_topic("grouped")
    cluster.create_topics([NewTopic(name, 3, 1)]).require()
    return name


@pytest.fixture
def joined(cluster_a, topic):
    """`joined(group, protocol)` is a group with one member, polled until the test ends."""
    stop = threading.Event()
    threads = []

    def join(group: str, **settings: str) -> None:
        consumer = Consumer({
            "bootstrap.servers": cluster_a.bootstrap_servers,
            "group.id": group,
            **{key.replace("_", "."): value for key, value in settings.items()},
        })
        consumer.subscribe([topic])

        def poll() -> None:
            while not stop.is_set():
                consumer.poll(0.1)
            consumer.close()

        threads.append(threading.Thread(target=poll))
        threads[-1].start()

    yield join
    stop.set()
    for thread in threads:
        thread.join(30)


def eventually(truth: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not truth():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize("group", ["g,with:all/kinds", "группа-né", "a b"])
def test_what_is_committed_is_read_back(cluster, topic, group):
    """Any name, metadata of any length and alphabet, many groups in one question."""
    texts = ["", "x", "é" * 20, "0123456789ab", "x" * 4000]
    name = f"{group}-{topic}"
    wanted = {TopicPartition(topic, n % 3): OffsetChange(n, None, texts[n]) for n in range(3)}
    cluster.alter_offsets({name: wanted}).require()
    again = {TopicPartition(topic, 0): OffsetChange(9, 0, texts[4])}
    cluster.alter_offsets({name: again}).require()
    found = cluster.committed_offsets([name, "nobody-knows-it"]).require()
    assert {
        name: {
            (topic, 0): CommittedOffset(9, texts[4]),
            (topic, 1): CommittedOffset(1, texts[1]),
            (topic, 2): CommittedOffset(2, texts[2]),
        },
        "nobody-knows-it": {},
    } == found
    listed = {it.group: it for it in cluster.groups()}[name]
    assert (GroupType.CLASSIC, GroupState.EMPTY) == (listed.type, listed.state)
    cluster.delete_groups([name, "nobody-knows-it"]).require()
    assert name not in {it.group for it in cluster.groups()}


def test_a_position_that_has_moved_is_not_written(cluster, topic):
    """Compared right before the write; the other partitions of the group are."""
    group, first, second = f"moved-{topic}", TopicPartition(topic, 0), TopicPartition(topic, 1)
    cluster.alter_offsets({group: {first: OffsetChange(5, None)}}).require()
    answers = cluster.alter_offsets({group: {first: OffsetChange(7, 4), second: OffsetChange(1, None)}})
    assert {GroupPartition(group, *first): "offset-moved"} == {
        it: error.code for it, error in answers.refused.items()
    }
    assert {first: 5, second: 1} == {
        it: found.offset for it, found in cluster.committed_offsets([group]).require()[group].items()
    }


@pytest.mark.parametrize("stands", [None, 5])
def test_a_position_that_a_transaction_is_about_to_replace_is_not_written(cluster, cluster_a, topic, stands):
    """Also where there is none yet: what the group has read in that transaction would be read again."""
    group, first, second = f"pending-{stands}-{topic}", TopicPartition(topic, 0), TopicPartition(topic, 1)
    if stands is not None:
        cluster.alter_offsets({group: {first: OffsetChange(stands, None)}}).require()
    servers = {"bootstrap.servers": cluster_a.bootstrap_servers}
    producer = Producer({**servers, "transactional.id": group})
    producer.init_transactions()
    producer.begin_transaction()
    consumer = Consumer({**servers, "group.id": group})
    ours = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction([ClientPartition(topic, 0, 9)], ours)
    change = {first: OffsetChange(7, stands), second: OffsetChange(1, None)}
    answers = cluster.alter_offsets({group: change})
    assert {GroupPartition(group, *first): "offset-moved"} == {
        it: error.code for it, error in answers.refused.items()
    }
    assert [GroupPartition(group, *second)] == list(answers.found)
    producer.commit_transaction()
    consumer.close()
    expected = CommittedOffset(9)
    eventually(lambda: expected == cluster.committed_offsets([group]).require()[group].get(first))


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_written(cluster, topic, joined, protocol):
    """The broker refuses in the write itself; static members count."""
    group = f"active-{protocol}-{topic}"
    joined(group, group_protocol=protocol, group_instance_id="static-1")
    eventually(lambda: cluster.describe_groups([group]).require()[group].state is GroupState.STABLE)
    described = cluster.describe_groups([group]).require()[group]
    assert (GroupType(protocol), 1) == (described.type, len(described.members))
    answers = cluster.alter_offsets({group: {TopicPartition(topic, 0): OffsetChange(1, None)}})
    assert ["group-active"] == [error.code for error in answers.refused.values()]
    assert ["group-active"] == [error.code for error in cluster.delete_groups([group]).refused.values()]
    listed = {it.group: it for it in cluster.groups()}[group]
    assert (GroupType(protocol), GroupState.STABLE) == (listed.type, listed.state)


def test_an_unknown_group_is_dead(cluster):
    """And has no members."""
    described = cluster.describe_groups(["never-heard-of"]).require()["never-heard-of"]
    assert (GroupState.DEAD, ()) == (described.state, described.members)


def test_what_cannot_be_committed_is_refused_with_its_reason(cluster, topic):
    """Metadata longer than the broker takes, and a topic that does not exist."""
    group = f"refused-{topic}"
    too_long = cluster.alter_offsets({group: {TopicPartition(topic, 0): OffsetChange(1, None, "x" * 5000)}})
    assert ["metadata-too-large"] == [error.code for error in too_long.refused.values()]
    unknown = cluster.alter_offsets({group: {TopicPartition("no-such-topic", 0): OffsetChange(1, None)}})
    assert ["unknown-topic-or-partition"] == [error.code for error in unknown.refused.values()]


def test_a_clients_commit_is_what_we_read(cluster, cluster_a, topic):
    """A simple consumer commits without joining."""
    consumer = Consumer({
        "bootstrap.servers": cluster_a.bootstrap_servers,
        "group.id": f"simple-{topic}",
    })
    consumer.commit(offsets=[ClientPartition(topic, 2, 41)], asynchronous=False)
    consumer.close()
    found = cluster.committed_offsets([f"simple-{topic}"]).require()[f"simple-{topic}"]
    assert {(topic, 2): CommittedOffset(41)} == found


def test_a_group_with_an_assignor_of_its_own_fails_alone(cluster, topic, joined):
    """What its members were given nobody can read: that is not nothing, and the others are described."""
    odd = f"odd-{topic}"
    joined(f"plain-{topic}")
    api = kafka_python
    with Brokers(cluster.connection) as brokers:
        coordinator = brokers.group_coordinators([odd])[0][odd]
        protocol = api.JOIN_GROUP.request.JoinGroupRequestProtocol(
            name="ours", metadata=api.subscription([topic])
        )
        member = coordinator.call(
            api.JOIN_GROUP,
            group_id=odd,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        given = api.SYNC_GROUP.request.SyncGroupRequestAssignment(
            member_id=member.member_id, assignment=b"\0\1\0\0\0\0"
        )
        coordinator.call(
            api.SYNC_GROUP,
            group_id=odd,
            generation_id=member.generation_id,
            member_id=member.member_id,
            assignments=[given],
        )
        answers = cluster.describe_groups([odd, f"plain-{topic}"])
        coordinator.call(api.LEAVE_GROUP, group_id=odd, member_id=member.member_id)
    assert [f"plain-{topic}"] == list(answers.found)
    assert {odd: FormatError} == {name: type(error) for name, error in answers.refused.items()}
