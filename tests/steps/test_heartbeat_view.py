"""Heartbeats tell where a cluster's data comes from."""

import pytest

from twinlog.cluster.values import TopicPartition
from twinlog.formats.heartbeat import Heartbeat
from twinlog.policy.replication import DefaultReplicationPolicy
from twinlog.steps import status
from twinlog.steps.heartbeat_view import UpstreamBeat, chain_of, upstream_beats


@pytest.mark.parametrize(
    ("topic", "chain"),
    [
        ("heartbeats", ()),
        ("A.heartbeats", ("A",)),
        ("C.B.A.heartbeats", ("C", "B", "A")),
        ("A.A.heartbeats", ("A",)),
        ("A.orders", ()),
        ("my-heartbeats", ()),
    ],
)
def test_the_chain_is_in_the_name(topic, chain):
    """The nearest cluster first; a name that leads in circles ends."""
    assert chain == chain_of(DefaultReplicationPolicy(), topic)


def test_the_newest_beat_of_each_flow(target):
    """What is no heartbeat is passed over."""
    for topic in ("B.A.heartbeats", "A.heartbeats"):
        target.add_topic(topic)
        for beat in (Heartbeat("B", "A", 1_000), Heartbeat("B", "A", 3_000), Heartbeat("C", "A", 2_000)):
            target.append(TopicPartition(topic, 0), key=beat.key(), value=beat.value())
        target.append(TopicPartition(topic, 0), key=b"?", value=b"?")
    expected = [
        UpstreamBeat(topic, chain, source, "A", at, 5_000 - at)
        for topic, chain in (("A.heartbeats", ("A",)), ("B.A.heartbeats", ("B", "A")))
        for source, at in (("B", 3_000), ("C", 2_000))
    ]
    assert expected == list(upstream_beats(DefaultReplicationPolicy(), target, now_ms=5_000))


def test_status_tells_of_them(flow, clusters, orders, target):
    """Also while the source is gone, they are read from the target."""
    target.add_topic("A.heartbeats")
    beat = Heartbeat("B", "A", 1_000)
    target.append(TopicPartition("A.heartbeats", 0), key=beat.key(), value=beat.value())
    assert [("A",)] == [it.chain for it in status.run(flow, clusters).upstream]
