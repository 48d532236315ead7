"""What `sync_topics` does with its plan."""

from dataclasses import replace

import pytest

from twinlog.cluster.api import open_clusters
from twinlog.cluster.values import NewTopic
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.formats.ledger.topics import Incarnation, LeaderEpoch
from twinlog.jsonable import to_json
from twinlog.kafka_types import TopicPartition
from twinlog.lifecycle import sync_topics
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.steps import discover


def test_a_broker_that_is_down_takes_no_replica_away_for_good(flow, clusters, source, target):
    """The target describes three brokers of four: it can hold four replicas, and is asked for them."""
    source.add_topic("orders")
    target.fenced = 1
    wanted = replace(flow, replication_factor=4, offset_storage_replication_factor=5)
    assert sync_topics.run(wanted, clusters).complete
    assert 4 == target.topics["A.orders"].replication_factor
    assert 3 == target.topics[flow.offsets_topic].replication_factor


def test_a_dry_run_shows_the_plan_and_does_nothing(flow, clusters, source, target):
    """The same list, walked by nobody."""
    source.add_topic("orders")
    shown = sync_topics.run(flow, clusters, dry_run=True)
    assert {} == target.topics
    assert shown.changes == sync_topics.run(flow, clusters).changes


def test_after_a_run_every_topic_is_ready(flow, clusters, source):
    """And a second run has nothing to do."""
    source.add_topic("orders", 3)
    source.add_topic("payments")
    assert sync_topics.run(flow, clusters).complete
    assert ["orders", "payments"] == [topic.topic for topic in discover.run(flow, clusters).ready_topics]
    assert () == sync_topics.run(flow, clusters).changes


def test_one_refused_topic_does_not_stop_the_others(flow, clusters, source, target):
    """It is reported with what it needs; its incarnation is not noted, as nothing of it was copied."""
    source.add_topic("orders")
    source.add_topic("payments")
    target.refuse(
        "create_topics", "A.orders", ClusterRefused("B does not allow", hint="grant CREATE on topic A.orders")
    )
    result = sync_topics.run(flow, clusters)
    assert ["A.orders"] == [it.name for it in result.refused]
    assert "A.payments" in target.topics
    assert ["payments"] == list(read_ledger(flow, target).incarnations)
    assert not result.complete


def test_a_refused_growth_is_reported(flow, clusters, source, with_internal):
    """A copy that could not grow is named."""
    source.add_topic("orders", 2)
    with_internal.add_topic("A.orders", 1)
    with_internal.refuse("create_partitions", "A.orders", ClusterRefused("no", code="unauthorised"))
    assert [("A.orders", "unauthorised")] == [
        (it.name, it.code) for it in sync_topics.run(flow, clusters).refused
    ]


def test_a_source_that_does_not_tell_where_its_leader_epochs_end_is_named(
    flow, clusters, source, with_internal, orders, copied
):
    """A log that lost records and has grown again looks like one that only grew."""
    copied(orders, 0, 2)
    topic_id = source.topics["orders"].topic_id
    life = Incarnation(
        "orders", topic_id, 1, "A.orders", with_internal.topics["A.orders"].topic_id, "cluster-A"
    )
    write_ledger(flow, with_internal, [life, LeaderEpoch("orders", topic_id, 0, 0, 0)])
    assert () == sync_topics.run(flow, clusters).notes
    source.refuse("epoch_ends", "A", ClusterRefused("no"))
    (note,) = sync_topics.run(flow, clusters).notes
    assert note.startswith("A does not answer OffsetForLeaderEpoch for orders-0: records that it lost")


def test_without_its_state_topics_a_flow_stops_before_any_other_change(flow, clusters, source, target):
    """What exactly-once rests on comes first."""
    source.add_topic("orders")
    target.refuse("create_topics", "mm2-ledger.A.internal", ClusterRefused("no", hint="grant CREATE"))
    with pytest.raises(ClusterRefused, match="grant CREATE"):
        sync_topics.run(flow, clusters)
    assert "A.orders" not in target.topics


def test_a_ledger_that_was_deleted_is_not_made_anew(flow, clusters, orders, copied, target):
    """An empty one would forget that a person paused the flow; the map shows that it has run."""
    sync_topics.run(flow, clusters)
    copied(orders, 0, 3)
    del target.topics[flow.ledger_topic]
    with pytest.raises(TerminalError, match="the ledger was deleted") as caught:
        sync_topics.run(flow, clusters)
    assert ("ledger-lost", False) == (caught.value.code, flow.ledger_topic in target.topics)


def test_incarnations_are_noted_once(flow, clusters, source, target):
    """The first sighting stays."""
    topic = source.add_topic("orders")
    sync_topics.run(flow, clusters)
    first = read_ledger(flow, target).incarnations["orders"]
    sync_topics.run(flow, clusters)
    assert (topic.topic_id, "A.orders") == (first.topic_id, first.remote_topic)
    assert first == read_ledger(flow, target).incarnations["orders"]


def test_whether_a_copy_was_empty_when_it_began_is_noted(flow, clusters, source, target):
    """Made now, there and empty, or with records that MM2 may have copied before them."""
    for topic in ("made", "empty", "filled"):
        source.add_topic(topic)
    for copy in ("A.empty", "A.filled"):
        target.add_topic(copy)
    target.append(TopicPartition("A.filled", 0), key=b"k", value=b"MM2's")
    sync_topics.run(flow, clusters)
    begun = read_ledger(flow, target).beginnings
    assert {"made": True, "empty": True, "filled": False} == {it: begun[it].into_empty for it in begun}


def test_the_result_is_json(flow, clusters, source):
    """It travels through XCom."""
    source.add_topic("orders")
    assert "create-internal" == to_json(sync_topics.run(flow, clusters))["changes"][0]["kind"]


@pytest.mark.integration
def test_copies_on_real_clusters(real_flow, unique_topic):
    """A compacted topic of 3 partitions gets a compacted copy of 3, which grows when the source does."""
    name = unique_topic("orders")
    flow = real_flow(name)
    with open_clusters(flow) as clusters:
        clusters.source.create_topics([
            NewTopic(name, 3, 1, {"cleanup.policy": "compact", "segment.ms": "70000"})
        ])
        assert sync_topics.run(flow, clusters).complete
        remote = f"A.{name}"
        configs = clusters.target.topic_configs([remote]).found[remote]
        assert ("compact", "70000") == (configs["cleanup.policy"].value, configs["segment.ms"].value)
        clusters.source.create_partitions({name: 5}).require()
        assert [(remote, 5)] == [(it.name, it.partitions) for it in sync_topics.run(flow, clusters).changes]
        assert 5 == len(clusters.target.describe_topics([remote]).found[remote].partitions)
        source_id = clusters.source.describe_topics([name]).found[name].topic_id
        assert source_id == read_ledger(flow, clusters.target).incarnations[name].topic_id
        assert [name] == [topic.topic for topic in discover.run(flow, clusters).ready_topics]


@pytest.mark.integration
def test_internal_topics_on_real_clusters_are_mm2s(real_flow):
    """25 partitions of progress, 16 of map, one of the others, all compacted; checkpoints may be cut by offset, too."""
    flow = real_flow("no-such-topic")
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
        names = ["mm2-offsets.A.internal", "mm2-offset-map.A.internal", "mm2-ledger.A.internal"]
        names += ["A.checkpoints.internal", "heartbeats"]
        found = clusters.target.describe_topics(names).require()
        assert [25, 16, 1, 1, 1] == [len(found[name].partitions) for name in names]
        configs = clusters.target.topic_configs(names).require()
        policies = {name: configs[name]["cleanup.policy"].value for name in names}
        assert {**dict.fromkeys(names, "compact"), "A.checkpoints.internal": "compact,delete"} == policies
