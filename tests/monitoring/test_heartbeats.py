"""Heartbeats: written as MM2 writes them, measured where they were copied."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.api import Clusters, open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.formats.mm2.records import Heartbeat
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import heartbeats
from twinlog.policy.replication import IdentityReplicationPolicy
from twinlog.steps import discover


def test_a_beat_is_mm2s_record(flow, clusters, target):
    """Key source and target alias, value the time, which is the record's timestamp too; partition 0."""
    result = heartbeats.run(flow, clusters)
    (record,) = target.topics["heartbeats"].logs[0].records
    assert Heartbeat("A", "B", result.timestamp_ms) == Heartbeat.parse(record.key, record.value)
    assert record.timestamp == result.timestamp_ms
    assert {
        "cleanup.policy": "compact",
        "segment.bytes": "4194304",
        "delete.retention.ms": "86400000",
    } == target.topics["heartbeats"].configs


def test_the_age_of_the_upstreams_beat_is_measured(flow, clusters, target):
    """`A.heartbeats` on B holds what A's own flows wrote: the newest counts."""
    target.add_topic("A.heartbeats")
    now = int(time.time() * 1000)
    for at in (now - 9_000, now - 2_000):
        beat = Heartbeat("C", "A", at)
        target.append(TopicPartition("A.heartbeats", 0), key=beat.key(), value=beat.value(), timestamp=at)
    result = heartbeats.run(flow, clusters)
    assert now - 2_000 == result.upstream_heartbeat_ms
    assert 2_000 <= result.latency_ms < 4_000


def test_without_a_copied_beat_there_is_no_latency(flow, clusters, target):
    """Missing topic or empty topic: None, not zero."""
    assert heartbeats.run(flow, clusters).latency_ms is None
    target.add_topic("A.heartbeats")
    assert heartbeats.run(flow, clusters).latency_ms is None


def test_a_flow_that_does_not_copy_beats_all_the_same(flow, clusters, target):
    """MM2's disabled flow with heartbeats (MM2: MirrorMakerConfig.clusterPairs)."""
    assert heartbeats.run(replace(flow, enabled=False), clusters).emitted
    assert ["heartbeats"] == list(target.topics)


def test_a_flow_without_heartbeats_writes_nothing(flow, clusters, target):
    """`emit.heartbeats.enabled=false`."""
    assert not heartbeats.run(replace(flow, emit_heartbeats=False), clusters).emitted
    assert {} == target.topics


def test_identity_policy_keeps_the_prefix_of_heartbeats(flow, clusters):
    """Otherwise the beats of two clusters would mix."""
    flow = replace(flow, policy=IdentityReplicationPolicy(source_alias="A"))
    assert "A.heartbeats" == heartbeats.run(flow, clusters).remote_topic


def test_a_refused_beat_is_an_error(flow, clusters, with_internal):
    """The step says what is missing."""
    with_internal.refuse(
        "produce", "heartbeats", ClusterRefused("no", hint="grant WRITE on topic heartbeats")
    )
    with pytest.raises(ClusterRefused, match="grant WRITE"):
        heartbeats.run(flow, clusters)


def test_what_is_no_heartbeat_of_the_source_is_passed_over(flow, clusters, target):
    """Anybody may write to the topic: a time that has yet to come, or another flow's key, says nothing of the copy."""
    target.add_topic("A.heartbeats")
    now = int(time.time() * 1000)
    at, beat = TopicPartition("A.heartbeats", 0), Heartbeat("C", "A", now - 9_000)
    for other in (Heartbeat("C", "A", 1 << 62), Heartbeat("C", "Z", now - 1_000)):
        target.append(at, key=other.key(), value=other.value())
    target.append(at, key=b"?", value=b"?")
    target.append(at, key=None, value=None)
    assert heartbeats.run(flow, clusters).latency_ms is None
    target.append(at, key=beat.key(), value=beat.value())
    target.append(at, key=beat.key(), value=None)
    assert now - 9_000 == heartbeats.run(flow, clusters).upstream_heartbeat_ms


@pytest.mark.integration
def test_beats_on_real_clusters(real_flow):
    """The topic is made, beaten into twice, and read back."""
    flow = real_flow("no-such-topic", enabled=False)
    with open_clusters(flow) as clusters:
        first, second = heartbeats.run(flow, clusters), heartbeats.run(flow, clusters)
        latest = clusters.target.latest("heartbeats")
    key = Heartbeat("A", "B", 0).key()
    assert first.timestamp_ms <= second.timestamp_ms == Heartbeat.parse(key, latest[key] or b"").timestamp_ms


@contextmanager
def opened(_flow: FlowSettings, *, target: FakeCluster) -> Iterator[Clusters]:
    yield Clusters(FakeCluster("nobody asks"), target)


def test_a_pair_without_a_flow_beats_on_its_own_target(flow, clusters, monkeypatch):
    """C, which is no end of the flow, gets the beat of A->C; what keeps it from that is a warning."""
    third = FakeCluster("C")
    monkeypatch.setattr(heartbeats, "open_clusters", partial(opened, target=third))
    pair = replace(flow, target=replace(flow.target, alias="C"), enabled=False)
    result = heartbeats.run(replace(flow, other_heartbeats=(pair,)), clusters)
    (record,) = third.topics["heartbeats"].logs[0].records
    assert Heartbeat("A", "C", result.timestamp_ms) == Heartbeat.parse(record.key, record.value)
    third.refuse("produce", "heartbeats", ClusterRefused("C refuses"))
    said = heartbeats.run(replace(flow, other_heartbeats=(pair,)), clusters).warning
    assert "no heartbeat of A->C on C: C refuses" == said


def test_the_sources_heartbeats_are_there_before_it_is_looked_at(flow, clusters, source):
    """The first discovery finds them, and each cycle copies its own beat: none is left for the next cycle."""
    back = replace(flow, source=flow.target, target=flow.source, enabled=False)
    beaten = replace(flow, reverse_heartbeats=back, source_heartbeats=back)
    assert "" == heartbeats.make_ready(beaten, source)
    assert ["heartbeats"] == [topic.topic for topic in discover.run(beaten, clusters).topics]
    assert "" == heartbeats.make_ready(beaten, source)
    assert 2 == len(source.topics["heartbeats"].logs[0].records)
    assert "" == heartbeats.run(beaten, clusters, begun=True).warning
    assert 2 == len(source.topics["heartbeats"].logs[0].records)


def test_a_flow_the_other_way_beats_by_itself(flow, source):
    """Where B->A copies too, only the topic is made: B->A beats into it."""
    back = replace(flow, source=flow.target, target=flow.source)
    assert "" == heartbeats.make_ready(replace(flow, source_heartbeats=back), source)
    assert [] == list(source.topics["heartbeats"].logs[0].records)


@pytest.mark.parametrize("change", [{}, {"heartbeats_replication": False}])
def test_where_nobody_beats_on_the_source_nothing_is_made(flow, source, change):
    """Nor where heartbeats are not copied."""
    back = replace(flow, source=flow.target, target=flow.source) if change else None
    assert "" == heartbeats.make_ready(replace(flow, source_heartbeats=back, **change), source)
    assert {} == dict(source.topics)


def test_a_way_back_that_only_beats_does_so_on_the_source(flow, clusters, source):
    """Its copy on the target shows that records arrive (MM2's heartbeats of disabled flows)."""
    back = replace(flow, source=flow.target, target=flow.source, enabled=False)
    result = heartbeats.run(replace(flow, reverse_heartbeats=back), clusters)
    (record,) = source.topics["heartbeats"].logs[0].records
    assert Heartbeat("B", "A", result.timestamp_ms) == Heartbeat.parse(record.key, record.value)
    assert "" == result.warning
