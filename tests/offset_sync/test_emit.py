"""The step writes MM2's syncs from the map, once, and never stops a copy because of its source."""

from dataclasses import replace

import pytest

from twinlog.errors import ClusterRefused
from twinlog.formats.map.packed_map import PackedMap
from twinlog.formats.mm2.offset_sync_store import OffsetSyncStore
from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import TopicPartition
from twinlog.offset_sync import emit

SYNCS = "mm2-offset-syncs.B.internal"


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
    first, second = (emit.run(flow, clusters) for _ in range(2))
    assert [(2, 1, ""), (0, 0, "")] == [(it.syncs, it.partitions, it.warning) for it in (first, second)]
    host = clusters.source if location == "source" else clusters.target
    assert [OffsetSync("orders", 0, 0, 0), OffsetSync("orders", 0, 4, 4)] == written(host, topic)
    assert host.alias == first.cluster
    assert {"cleanup.policy": "compact"}.items() <= host.topics[topic].configs.items()


def test_later_cycles_go_on_behind_the_last_sync(flow, clusters, orders, copied, source):
    """Only what was copied since."""
    copied(orders, 0, 2)
    emit.run(flow, clusters)
    copied(orders, 2, 5)
    assert 1 == emit.run(flow, clusters).syncs
    assert 4 == written(source, "mm2-offset-syncs.B.internal")[-1].upstream_offset


def test_a_source_that_cannot_be_written_to_is_a_warning(flow, clusters, orders, copied, source):
    """The copy and its translation do not need the syncs."""
    copied(orders, 0, 5)
    source.refuse("create_topics", "mm2-offset-syncs.B.internal", ClusterRefused("A says no"))
    result = emit.run(flow, clusters)
    assert (0, "no offset syncs on A: A says no") == (result.syncs, result.warning)


def test_without_the_setting_nothing_is_written(flow, clusters, orders, copied, source):
    """`emit.offset-syncs.enabled=false`: no topic either."""
    copied(orders, 0, 5)
    assert 0 == emit.run(replace(flow, emit_offset_syncs=False), clusters).syncs
    assert "mm2-offset-syncs.B.internal" not in source.topics


def test_a_dry_run_counts(flow, clusters, orders, copied, source):
    """And writes nothing."""
    copied(orders, 0, 5)
    assert 2 == emit.run(flow, clusters, dry_run=True).syncs
    assert "mm2-offset-syncs.B.internal" not in source.topics


def test_a_foreign_record_is_replaced(flow, clusters, orders, copied, source):
    """What is no sync counts for nothing."""
    copied(orders, 0, 5)
    source.add_topic("mm2-offset-syncs.B.internal")
    source.append(TopicPartition("mm2-offset-syncs.B.internal", 0), key=b"?", value=b"?")
    assert 2 == emit.run(flow, clusters).syncs


@pytest.mark.parametrize("old", [(2, 3), (2, 1), (9, 9), (4, 9)])
def test_a_sync_of_another_copy_counts_for_nothing(flow, clusters, orders, copied, source, old):
    """Made anew, the copy has its records elsewhere: all syncs are written again, once."""
    copied(orders, 0, 2)
    copied(orders, 2, 5)
    source.add_topic(SYNCS)
    stale = OffsetSync("orders", 0, *old)
    source.append(TopicPartition(SYNCS, 0), key=stale.key(), value=stale.value())
    assert [2, 0] == [emit.run(flow, clusters).syncs for _ in range(2)]
    assert [stale, OffsetSync("orders", 0, 0, 0), OffsetSync("orders", 0, 4, 4)] == written(source, SYNCS)


@pytest.mark.parametrize("old", [(2, 30), (3, 9)])
def test_syncs_of_another_copy_are_forgotten_where_the_new_one_begins_behind_them(
    flow, clusters, orders, copied, source, old
):
    """MM2's clients, who forget only when an upstream offset goes back, never translate into the copy before."""
    copied(orders, 3, 5)
    source.add_topic(SYNCS)
    stale = OffsetSync("orders", 0, *old)
    source.append(TopicPartition(SYNCS, 0), key=stale.key(), value=stale.value())
    assert 0 < emit.run(flow, clusters).syncs
    known = OffsetSyncStore.of(written(source, SYNCS))
    assert [-1, 0, 0, 0, 1] == [known.translate("orders", 0, upstream) for upstream in range(5)]
    assert 0 == emit.run(flow, clusters).syncs


def test_only_the_end_of_a_map_is_opened(flow, clusters, orders, copied, monkeypatch):
    """Once the last sync is on it."""
    opened = []
    real = PackedMap.opened_from
    monkeypatch.setattr(PackedMap, "opened_from", lambda it, first: opened.append(first) or real(it, first))
    for start in range(3):
        copied(orders, start, start + 1)
        emit.run(flow, clusters)
    assert [0, 0, 1] == opened


def test_a_sync_from_before_the_map_is_gone_on_behind(flow, clusters, orders, copied, source):
    """Mirror Maker wrote it, or its piece was dropped since: the map begins behind it on both sides."""
    clusters.target.append(TopicPartition("A.orders", 0), key=b"k", value=b"v")
    copied(orders, 1, 5)
    source.add_topic(SYNCS)
    last = OffsetSync("orders", 0, 0, 0)
    source.append(TopicPartition(SYNCS, 0), key=last.key(), value=last.value())
    emit.run(flow, clusters)
    assert [last, OffsetSync("orders", 0, 4, 4)] == written(source, SYNCS)


class TestEmitter:
    """Turn after turn of a flow that is followed."""

    def test_each_turn_leaves_nothing_due_and_reads_only_what_came(
        self, flow, clusters, orders, copied, monkeypatch
    ):
        """Also where nothing was copied, and where what came does not go on from the last sync, of another copy."""
        emitter, source = emit.Emitter(), clusters.source
        emitter.turn(flow, clusters)
        copied(orders, 0, 2)
        emitter.turn(flow, clusters)
        with monkeypatch.context() as patch:
            patch.setattr(emit, "FlowSnapshot", lambda *_: pytest.fail("all of it was read"))
            copied(orders, 2, 3)
            for _ in range(2):
                emitter.turn(flow, clusters)
            copied(orders, 3, 4)
            emitter.turn(flow, clusters)
        assert [0, 1, 2, 3] == [it.upstream_offset for it in written(source, SYNCS)]
        assert 0 == emit.run(flow, clusters).syncs
        stale = OffsetSync("orders", 0, 2, 30)
        source.append(TopicPartition(SYNCS, 0), key=stale.key(), value=stale.value())
        copied(orders, 4, 5)
        emitter.turn(flow, clusters)
        assert OffsetSync("orders", 0, 4, 4) == written(source, SYNCS)[-1]
        assert 0 == emit.run(flow, clusters).syncs

    def test_after_a_turn_that_failed_all_is_read(self, flow, clusters, orders, copied, target):
        """A turn that fails may not have written what it had read: the next reads all of the map."""
        emitter = emit.Emitter()
        copied(orders, 0, 2)
        emitter.turn(flow, clusters)
        flow = replace(flow, offset_syncs_topic_location="target")
        copied(orders, 2, 5)
        target.refuse("create_topics", "mm2-offset-syncs.A.internal", ClusterRefused("B says no"))
        with pytest.raises(ClusterRefused):
            emitter.turn(flow, clusters)
        assert {} == emitter.since
