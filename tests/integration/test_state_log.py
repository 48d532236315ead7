"""A state topic that is read again and again says what reading it at once says."""

import uuid

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from lab import Seen, create_topic, produce, produce_transaction
from twinlog.config.security.connection import ConnectionSettings
from twinlog.logs.log_reader import StateLog, read_state
from twinlog.protocol.brokers import Brokers

pytestmark = pytest.mark.integration


def test_reading_on_is_reading_anew(cluster_b):
    """Over committed and aborted transactions, overwritten keys and tombstones."""
    topic = create_topic(cluster_b, f"state-{uuid.uuid4().hex[:6]}", cleanup_policy="compact")
    host, port = cluster_b.bootstrap_servers.split(",")[0].rsplit(":", 1)
    log = StateLog(topic)
    seen = []
    with Brokers(ConnectionSettings("B", ((host, int(port)),))) as brokers:
        for turn in range(4):
            produce(cluster_b, topic, [Seen(b"plain", b"%d" % turn, turn), Seen(b"k%d" % turn, b"v", turn)])
            produce_transaction(cluster_b, topic, [Seen(b"txn", b"%d" % turn, turn)], commit=turn % 2 == 0)
            produce(cluster_b, topic, [Seen(b"k0", None if turn == 2 else b"again", turn)])
            seen.append(log.read(brokers))
            assert read_state(brokers, topic) == seen[-1]
    assert {b"plain": b"3", b"txn": b"2", b"k0": b"again", **{b"k%d" % n: b"v" for n in (1, 2, 3)}} == seen[
        -1
    ].committed
    assert (b"k0" in seen[2].committed, {b"txn": b"2"}) == (False, seen[-1].overshadowed)


def test_what_is_deleted_by_offset_is_forgotten(cluster_b):
    """DeleteRecords leaves no tombstone: reading on finds no more than reading anew."""
    topic = create_topic(
        cluster_b, f"state-{uuid.uuid4().hex[:6]}", cleanup_policy="compact,delete", retention_ms="-1"
    )
    host, port = cluster_b.bootstrap_servers.split(",")[0].rsplit(":", 1)
    log = StateLog(topic)
    with Brokers(ConnectionSettings("B", ((host, int(port)),))) as brokers:
        produce(cluster_b, topic, [Seen(b"old", b"1", 1), Seen(b"both", b"1", 1), Seen(b"both", b"2", 1)])
        assert {b"old": b"1", b"both": b"2"} == log.read(brokers).committed
        admin = AdminClient({"bootstrap.servers": cluster_b.bootstrap_servers})
        for future in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
            future.result()
        assert {b"both": b"2"} == log.read(brokers).committed == read_state(brokers, topic).committed
