"""What own topics keep, what this machine keeps of them, and what is forgotten, on real brokers.

Costs about half a minute, brokers included.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from confluent_kafka.admin import ResourceType

from lab import Seen, alter_configs, assert_soon, create_topic, cycle, flow_of, produce, read, wait_until
from twinlog.cluster.api import open_clusters
from twinlog.errors import TerminalError
from twinlog.lifecycle import forget, sync_topics
from twinlog.logs import cache, log_reader
from twinlog.logs.log_reader import StateLog
from twinlog.protocol.brokers import Brokers
from twinlog.state.ledger import read_ledger
from twinlog.state.progress import read_packed, read_progress

pytestmark = pytest.mark.integration

DAY_MS = "86400000"


@pytest.fixture
def flow(cluster_a: Any, cluster_b: Any, tmp_path: Any) -> Any:
    """A flow that has copied three records of a topic of its own."""
    topic = create_topic(cluster_a, f"gone-{uuid.uuid4().hex[:6]}")
    produce(cluster_a, topic, [Seen(b"k", b"%d" % n, 1_000 + n) for n in range(3)])
    flow = flow_of(tmp_path, cluster_a, cluster_b, [topic])
    cycle(flow)
    return flow


def known(flow: Any, topic: str) -> tuple[bool, ...]:
    """Whether progress, map and ledger know the topic."""
    with open_clusters(flow) as clusters:
        return (
            any(it.topic == topic for it in read_progress(flow, clusters.target)),
            any(it.topic == topic for it in read_packed(flow, clusters.target)),
            topic in read_ledger(flow, clusters.target).incarnations,
        )


def delete(cluster: Any, topic: str) -> None:
    """Delete a topic and wait until nobody shows it."""
    cluster.delete_topics([topic]).require()
    wait_until(lambda: topic not in cluster.topic_names())


def test_a_topic_that_both_sides_have_lost_is_forgotten_and_its_name_is_free(
    flow, cluster_a, cluster_b
) -> None:
    """Not before; then one of the same name is copied from its first record."""
    (topic,) = flow.topics.include
    with open_clusters(flow) as clusters:
        for cluster, name in ((clusters.source, topic), (clusters.target, f"A.{topic}")):
            with pytest.raises(TerminalError, match="has"):
                forget.run(flow, clusters, topic)
            delete(cluster, name)
        assert (True,) * 3 == known(flow, topic)
        done = forget.run(flow, clusters, topic)
        assert (1, 1, 1) == tuple(done.dropped[kind] for kind in ("progress", "map", "incarnation"))
    assert (False,) * 3 == known(flow, topic)
    create_topic(cluster_a, topic)
    produce(cluster_a, topic, [Seen(b"k", b"again", 2_000)])
    cycle(flow)
    assert [b"again"] == [it.value for it in read(cluster_b, f"A.{topic}")]


def test_tombstones_of_own_topics_are_kept_for_a_day(flow, cluster_b) -> None:
    """Of those that an earlier release made, too: a cycle sets it."""
    alter_configs(cluster_b, ResourceType.TOPIC, flow.ledger_topic, **{"delete.retention.ms": "1000"})

    def kept() -> set[str]:
        with open_clusters(flow) as clusters:
            configs = clusters.target.topic_configs([
                flow.ledger_topic,
                flow.offset_map_topic,
                flow.offsets_topic,
            ])
            return {str(it["delete.retention.ms"].value) for it in configs.require().values()}

    assert_soon({"1000", DAY_MS}, kept)
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    assert_soon({DAY_MS}, kept)


def test_what_is_kept_on_this_machine_is_of_this_log(flow, tmp_path, monkeypatch) -> None:
    """By the cluster's own id and leader epochs; read on from it says what reading anew does."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path / "state")
    monkeypatch.setattr(log_reader, "COSTLY_RECORDS", 1)
    with Brokers(flow.target.connection) as brokers:
        told = brokers.metadata([flow.ledger_topic])[flow.ledger_topic]
        assert told.cluster_id
        assert told.epochs[0] >= 0
        first = StateLog(flow.ledger_topic, cached=True)
        first.catch_up(brokers)
        (kept,) = (tmp_path / "state").rglob("*.cache")
        assert told.cluster_id == kept.parent.name
        second, anew = StateLog(flow.ledger_topic, cached=True), StateLog(flow.ledger_topic)
        second.catch_up(brokers)
        anew.catch_up(brokers)
        values = [{key: it.value for key, it in log.records.items()} for log in (first, second, anew)]
    assert values[0] == values[1] == values[2]
