"""The step writes MM2's syncs from the map, once, and never stops a copy because of its source."""

from dataclasses import replace

import pytest

from twinlog.cluster.values import TopicPartition
from twinlog.errors import ClusterRefused
from twinlog.formats.offset_sync import OffsetSync
from twinlog.steps import offset_syncs


def written(cluster, topic):
    return [OffsetSync.parse(it.key, it.value) for it in cluster.topics[topic].logs[0].records]


@pytest.mark.parametrize(
    ("location", "topic"),
    [("source", "mm2-offset-syncs.B.internal"), ("target", "mm2-offset-syncs.A.internal")],
)
def test_syncs_are_written_once(flow, clusters, orders, copied, location, topic):
    """Where the location says, in a topic that is made when it is missing; the first and the last record."""
    copied(orders, 0, 5)
    flow = replace(flow, offset_syncs_topic_location=location)
    first, second = (offset_syncs.run(flow, clusters) for _ in range(2))
    assert [(2, 1, ""), (0, 0, "")] == [(it.syncs, it.partitions, it.warning) for it in (first, second)]
    host = clusters.source if location == "source" else clusters.target
    assert [OffsetSync("orders", 0, 0, 0), OffsetSync("orders", 0, 4, 4)] == written(host, topic)
    assert host.alias == first.cluster
    assert {"cleanup.policy": "compact"}.items() <= host.topics[topic].configs.items()


def test_later_cycles_go_on_behind_the_last_sync(flow, clusters, orders, copied, source):
    """Only what was copied since."""
    copied(orders, 0, 2)
    offset_syncs.run(flow, clusters)
    copied(orders, 2, 5)
    assert 1 == offset_syncs.run(flow, clusters).syncs
    assert 4 == written(source, "mm2-offset-syncs.B.internal")[-1].upstream_offset


def test_a_source_that_cannot_be_written_to_is_a_warning(flow, clusters, orders, copied, source):
    """The copy and its translation do not need the syncs."""
    copied(orders, 0, 5)
    source.refuse("create_topics", "mm2-offset-syncs.B.internal", ClusterRefused("A says no"))
    result = offset_syncs.run(flow, clusters)
    assert (0, "no offset syncs on A: A says no") == (result.syncs, result.warning)


def test_without_the_setting_nothing_is_written(flow, clusters, orders, copied, source):
    """`emit.offset-syncs.enabled=false`: no topic either."""
    copied(orders, 0, 5)
    assert 0 == offset_syncs.run(replace(flow, emit_offset_syncs=False), clusters).syncs
    assert "mm2-offset-syncs.B.internal" not in source.topics


def test_a_dry_run_counts(flow, clusters, orders, copied, source):
    """And writes nothing."""
    copied(orders, 0, 5)
    assert 2 == offset_syncs.run(flow, clusters, dry_run=True).syncs
    assert "mm2-offset-syncs.B.internal" not in source.topics


def test_a_foreign_record_is_replaced(flow, clusters, orders, copied, source):
    """What is no sync counts for nothing."""
    copied(orders, 0, 5)
    source.add_topic("mm2-offset-syncs.B.internal")
    source.append(TopicPartition("mm2-offset-syncs.B.internal", 0), key=b"?", value=b"?")
    assert 2 == offset_syncs.run(flow, clusters).syncs
