"""MirrorClient's questions, with MM2's answers (Kafka's MirrorClientTest)."""

from __future__ import annotations

import re

import pytest
from fake_cluster import FakeCluster

from twinlog.client.mirror_client import Completeness, MirrorClient, RemoteOffset, SourceAndTarget
from twinlog.errors import TerminalError
from twinlog.formats.mm2.records import Checkpoint
from twinlog.kafka_types import TopicPartition
from twinlog.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy


def client(*topics: str, policy: ReplicationPolicy | None = None) -> MirrorClient:
    cluster = FakeCluster("me")
    for name in topics:
        cluster.add_topic(name)
    return MirrorClient(cluster, policy or DefaultReplicationPolicy())


def test_heartbeat_and_checkpoint_topics() -> None:
    """By name, over any number of hops."""
    made = client(
        "topic1",
        "heartbeats",
        "A.heartbeats",
        "B.A.heartbeats",
        "A.checkpoints.internal",
        "checkpoints.internal",
        "__consumer_offsets",
    )
    assert {"heartbeats", "A.heartbeats", "B.A.heartbeats"} == made.heartbeat_topics()
    assert {"A.checkpoints.internal"} == made.checkpoint_topics()


@pytest.mark.parametrize(
    ("topics", "alias", "hops"),
    [
        (["heartbeats", "A.heartbeats"], "A", 1),
        (["B.A.heartbeats"], "A", 2),
        (["B.A.heartbeats", "A.heartbeats"], "A", 1),
        (["C.B.A.heartbeats"], "A", 3),
        (["B.A.heartbeats"], "C", None),
        (["heartbeats"], "A", None),
        ([], "A", None),
    ],
)
def test_hops(topics: list[str], alias: str, hops: int | None) -> None:
    """The shortest way counts."""
    assert hops == client(*topics).replication_hops(alias)


def test_upstream_clusters() -> None:
    """Direct ones and those behind them."""
    assert {"A", "B", "C"} == client("B.A.heartbeats", "C.heartbeats", "D.topic").upstream_clusters()


def test_a_policy_that_leads_in_circles_ends() -> None:
    """As MM2: a source met again ends the way."""

    class Circles(DefaultReplicationPolicy):
        def upstream_topic(self, topic: str) -> str | None:
            return topic

        def is_heartbeats_topic(self, topic: str) -> bool:
            return topic.endswith("heartbeats")

    made = client("A.heartbeats", policy=Circles())
    assert {"A.heartbeats"} == made.heartbeat_topics()
    assert {"A"} == made.upstream_clusters()
    assert (1, None) == (made.replication_hops("A"), made.replication_hops("Z"))


def test_remote_topics() -> None:
    """Not internal, and with a source by name."""
    made = client(
        "orders",
        "A.orders",
        "B.orders",
        "B.A.orders",
        "A.heartbeats",
        "A.checkpoints.internal",
        "mm2-offsets.A.internal",
    )
    assert {"A.orders", "B.orders", "B.A.orders", "A.heartbeats"} == made.remote_topics()
    assert {"B.orders", "B.A.orders"} == made.remote_topics("B")


def test_identity_without_alias_shows_no_remote_topics() -> None:
    """MirrorClient built from mm2.properties knows no source.cluster.alias."""
    assert frozenset() == client("orders", policy=IdentityReplicationPolicy()).remote_topics()


GROUPS = ("g,1", "g:2/é", "other")


@pytest.fixture
def with_checkpoints() -> MirrorClient:
    made = client("A.checkpoints.internal")
    cluster = made.cluster
    assert isinstance(cluster, FakeCluster)
    place = TopicPartition("A.checkpoints.internal", 0)
    for number, group in enumerate(GROUPS):
        for offset in (number, 10 + number):
            it = Checkpoint(group, "A.orders", 3, offset, offset + 5, f"said {offset}")
            cluster.append(place, key=it.key(), value=it.value())
    return made


def test_offsets_of_one_group(with_checkpoints: MirrorClient) -> None:
    """The last record counts; names are plain text, whatever is in them."""
    found = with_checkpoints.remote_consumer_offsets("g:2/é", "A")
    assert {TopicPartition("A.orders", 3): RemoteOffset(16, 11, "said 11")} == found.of("g:2/é")
    assert {} == found.of("g,1") == with_checkpoints.translate_offsets("nobody", "A").of("nobody")
    assert found.completeness.complete


def test_offsets_of_a_pattern(with_checkpoints: MirrorClient) -> None:
    """Whole names match (KAFKA-20229)."""
    found = with_checkpoints.translate_offsets(re.compile(r"g.*"), "A")
    assert {"g,1", "g:2/é"} == set(found.groups)
    assert {} == with_checkpoints.translate_offsets(re.compile("g"), "A").groups


def test_what_could_not_be_read_is_said(with_checkpoints: MirrorClient) -> None:
    """A record of another version is left out, and the answer is not complete."""
    it = Checkpoint("new", "A.orders", 0, 1, 1)
    cluster = with_checkpoints.cluster
    assert isinstance(cluster, FakeCluster)
    place = TopicPartition("A.checkpoints.internal", 0)
    cluster.append(place, key=it.key(), value=b"\x00\x01" + it.value()[2:])
    found = with_checkpoints.remote_consumer_offsets(re.compile(".*"), "A")
    assert (Completeness(4, 1), False) == (found.completeness, found.completeness.complete)
    assert set(GROUPS) == set(found.groups)


def test_no_checkpoints_topic_is_an_error() -> None:
    """Never an empty answer."""
    with pytest.raises(TerminalError, match="nobody writes checkpoints of A") as error:
        client("orders").remote_consumer_offsets("g", "A")
    assert "no-checkpoints" == error.value.code


def test_source_and_target_print_as_a_flow() -> None:
    """And are equal to their like only."""
    assert "A->B" == str(SourceAndTarget("A", "B"))
    assert SourceAndTarget("A", "B") == SourceAndTarget("A", "B") != SourceAndTarget("C", "B")
    assert "A->B" != SourceAndTarget("A", "B")
