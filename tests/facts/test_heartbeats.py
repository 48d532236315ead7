"""Heartbeats tell where a cluster's data comes from."""

from dataclasses import replace

import pytest

from twinlog.errors import ClusterRefused
from twinlog.facts.heartbeats import (
    UpstreamBeat,
    chain_of,
    copied_heartbeats,
    own_heartbeats,
    upstream_beats,
)
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import status
from twinlog.policy.replication import DefaultReplicationPolicy


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
    """What is no heartbeat, or has a time that has yet to come, is passed over."""
    for topic in ("B.A.heartbeats", "A.heartbeats"):
        target.add_topic(topic)
        for beat in (Heartbeat("B", "A", 1_000), Heartbeat("B", "A", 3_000), Heartbeat("C", "A", 2_000)):
            target.append(TopicPartition(topic, 0), key=beat.key(), value=beat.value())
        target.append(TopicPartition(topic, 0), key=b"?", value=b"?")
        future = Heartbeat("B", "A", 1 << 62)
        target.append(TopicPartition(topic, 0), key=future.key(), value=future.value())
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


def beating(cluster, topic, *beats, partitions=1):
    """Add a topic that ends with these records."""
    cluster.add_topic(topic, partitions)
    for beat in beats:
        cluster.append(TopicPartition(topic, 0), key=beat.key(), value=beat.value())
    return topic


def test_heartbeats_of_clusters_of_the_file_are_known_by_name(flow, source):
    """Also while nothing beats; of others the name says nothing."""
    flow = replace(flow, aliases=frozenset({"A", "B", "C"}))
    names = [
        beating(source, it) for it in ("heartbeats", "C.heartbeats", "D.heartbeats", "device.heartbeats")
    ]
    assert {"heartbeats", "C.heartbeats"} == own_heartbeats(flow, source, names)


def test_heartbeats_of_other_clusters_are_known_by_what_they_hold(flow, source, target):
    """MM2 beats on the target of the flow that beats: the cluster where the chain of names began."""
    beats = Heartbeat("X", "D", 1), Heartbeat("Y", "D", 2)
    name = beating(source, "C.D.heartbeats", *beats)
    beating(target, "A.C.D.heartbeats", *beats)
    assert {name} == own_heartbeats(flow, source, [name]) == copied_heartbeats(flow, target, [name])


@pytest.mark.parametrize(
    "doubt", ["another cluster's", "a user's record", "empty", "wide", "refused", "gone"]
)
def test_what_is_not_sure_is_a_users_topic(flow, source, doubt):
    """It is then held to what every topic is held to."""
    beat = Heartbeat("X", "E" if doubt == "another cluster's" else "D", 1)
    name = beating(
        source, "D.heartbeats", *(() if doubt == "empty" else [beat]), partitions=1 + (doubt == "wide")
    )
    if doubt == "a user's record":
        source.append(TopicPartition(name, 0), key=b"device-7", value=b"alive")
    if doubt == "refused":
        source.refuse("offsets", name, ClusterRefused("no"))
    if doubt == "gone":
        del source.topics[name]
    assert frozenset() == own_heartbeats(flow, source, [name])
