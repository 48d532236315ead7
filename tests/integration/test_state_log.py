"""A state topic that is read again and again says what reading it at once says."""

import uuid

import pytest
from lab import Seen, create_topic, produce, produce_transaction

from twinlog.config.connection import ConnectionSettings
from twinlog.relay.brokers import Brokers
from twinlog.relay.log_reader import StateLog, read_state

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
