"""What a flow may copy back of a topic that both flows call the same."""

from dataclasses import replace

import pytest
from fake_cluster import FakeCluster

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.copying.loopback import uncompared, with_loopback
from twinlog.copying.ranges import ResolvedRanges
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.ledger.writers import TakenOver
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import RangeSpec
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.ledger import read_ledger
from twinlog.topics.reverse_flows import reverse_ledger, unknown_ledgers

BACK = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "BA"))
"""The flow B->A; the way back is A->B, whose ledger and map are on B."""

RANGE = RangeSpec("orders", "life", "orders", 0, 10, 100)
TAKEN = TakenOver("orders", "life", 0, first=0, compared=40, end=60, at_ms=1)
MAP = "mm2-offset-map.A.internal"


@pytest.fixture
def source() -> FakeCluster:
    cluster = FakeCluster("B")
    cluster.add_topic(reverse_ledger(BACK))
    cluster.add_topic(MAP)
    return cluster


def store(source: FakeCluster, topic: str, key: bytes, value: bytes) -> None:
    source.append(TopicPartition(topic, 0), key=key, value=value)


def both(source: FakeCluster) -> Clusters:
    """The clusters of the flow B->A, with its ledger."""
    target = FakeCluster("A")
    target.add_topic(BACK.ledger_topic)
    return Clusters(source, target)


def put_piece(source: FakeCluster, value: bytes) -> None:
    store(source, MAP, encode_map_key(MapKey("orders", "a-life", 0, 0)), value)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [(10, 100, (10, 39)), (0, 5, (0, 4)), (40, 100, None), (60, 100, None)],
)
def test_what_was_not_compared_is_not_copied(start, end, expected):
    """A range that begins behind it, or in what was compared, is free to go."""
    found = uncompared(replace(RANGE, start=start, end=end), [TAKEN])
    assert expected == (None if found is None else (found.first_offset, found.last_offset))


def test_a_partition_with_uncompared_records_stops_and_says_where(source):
    """The others go on; a copy that was made anew since is another."""
    store(source, reverse_ledger(BACK), TAKEN.key(), TAKEN.value())
    anew, other = replace(RANGE, topic_id="new life"), replace(RANGE, partition=1)
    resolved = with_loopback(BACK, both(source), ResolvedRanges((RANGE, anew, other), ()))
    assert (anew, other) == resolved.ranges
    assert [("uncompared", 0, 10, 39)] == [
        (it.code, it.partition, it.first_offset, it.last_offset) for it in resolved.stopped
    ]


def test_all_that_was_compared_is_an_echo_and_so_is_what_the_map_has(source):
    """Mirror Maker's duplicates stand between; no map has them."""
    store(source, reverse_ledger(BACK), TAKEN.key(), TAKEN.value())
    put_piece(source, encode_segment(MapSegment(0, 30, (Extent(0, 41, 3), Extent(3, 70, 5)))))
    (found,) = with_loopback(BACK, both(source), ResolvedRanges((replace(RANGE, start=40),), ())).ranges
    assert ((40, 60), (70, 75)) == found.loopback


@pytest.mark.parametrize(("copy", "echoes"), [("life", ((70, 75),)), ("another", ()), ("", ((70, 75),))])
def test_a_map_of_records_that_lie_there_no_more_knows_no_echoes(source, copy, echoes):
    """A topic that was made anew holds none of what the way back wrote; left out, its own records would be lost."""
    known = Incarnation("orders", "a-life", 1, "orders", copy)
    store(source, reverse_ledger(BACK), known.key(), known.value())
    put_piece(source, encode_segment(MapSegment(0, 5, (Extent(0, 70, 5),))))
    (found,) = with_loopback(BACK, both(source), ResolvedRanges((RANGE,), ())).ranges
    assert echoes == found.loopback


def test_a_map_of_the_way_back_that_cannot_be_read_stops_the_partition(source):
    """What is an echo would be guessed."""
    put_piece(source, b"\x05\x00\x00")
    resolved = with_loopback(BACK, both(source), ResolvedRanges((RANGE,), ()))
    assert ((), ["offset-map"]) == (resolved.ranges, [it.code for it in resolved.stopped])
    assert f"offset 0 of {MAP}-0" in resolved.stopped[0].message


def test_other_names_need_none_of_it(source):
    """Nothing of the way back is read."""
    put_piece(source, b"\x05\x00\x00")
    resolved = ResolvedRanges((replace(RANGE, remote_topic="B.orders"),), ())
    assert resolved == with_loopback(BACK, both(source), resolved)


def life_of(cluster_id: str, copy: str = "life") -> Incarnation:
    """What a flow from a cluster notes of `orders`, which it copies here."""
    return Incarnation("orders", "a-life", 1, "orders", copy, cluster_id)


class TestByClusterId:
    def test_a_reverse_flow_of_any_name_is_found(self, source: FakeCluster) -> None:
        """Whoever runs it calls the target what he likes."""
        for topic in ("mm2-ledger.west.internal", "mm2-offset-map.west.internal"):
            source.add_topic(topic)
        known = life_of("cluster-A")
        store(source, "mm2-ledger.west.internal", known.key(), known.value())
        key, value = encode_map_key(MapKey("orders", "a-life", 0, 0)), MapSegment(0, 5, (Extent(0, 70, 5),))
        store(source, "mm2-offset-map.west.internal", key, encode_segment(value))
        clusters = both(source)
        (found,) = with_loopback(BACK, clusters, ResolvedRanges((RANGE,), ())).ranges
        assert ((70, 75),) == found.loopback
        (noted,) = read_ledger(BACK, clusters.target).reverse_flows
        assert ("mm2-ledger.west.internal", noted.ledger_topic_id) == (
            noted.ledger_topic,
            source.topics["mm2-ledger.west.internal"].topic_id,
        )

    def test_a_ledger_of_the_targets_name_may_be_of_another_cluster(self, source: FakeCluster) -> None:
        """Its records are new here, and left out they would be lost."""
        known = life_of("another-A")
        store(source, reverse_ledger(BACK), known.key(), known.value())
        put_piece(source, encode_segment(MapSegment(0, 5, (Extent(0, 70, 5),))))
        (found,) = with_loopback(BACK, both(source), ResolvedRanges((RANGE,), ())).ranges
        assert () == found.loopback

    def test_a_ledger_that_was_relied_on_and_is_gone_stops_its_topics(self, source: FakeCluster) -> None:
        """Also when it was made anew: what it said is not in the new one."""
        known = life_of("cluster-A")
        store(source, reverse_ledger(BACK), known.key(), known.value())
        clusters = both(source)
        other = replace(RANGE, remote_topic="B.orders")
        assert () == with_loopback(BACK, clusters, ResolvedRanges((RANGE, other), ())).stopped
        source.delete_topics([reverse_ledger(BACK)])
        for _ in range(2):
            resolved = with_loopback(BACK, clusters, ResolvedRanges((RANGE, other), ()))
            assert ((other,), ["reverse-flow-gone"]) == (
                resolved.ranges,
                [it.code for it in resolved.stopped],
            )
            source.add_topic(reverse_ledger(BACK))

    def test_ledgers_that_do_not_say_whose_they_are_are_told_of(self, source: FakeCluster) -> None:
        """Not the one of the target's name, which is taken for what it is called."""
        source.add_topic("mm2-ledger.west.internal")
        for topic in ("mm2-ledger.west.internal", reverse_ledger(BACK)):
            known = life_of("")
            store(source, topic, known.key(), known.value())
        (note,) = unknown_ledgers(BACK, both(source))
        assert note.startswith("mm2-ledger.west.internal on B does not say which cluster that is")


@pytest.mark.parametrize(
    ("since", "alias", "stops"), [(1, "C", True), (9, "C", False), (5, "A", True), (5, "Z", False)]
)
def test_of_two_flows_that_copy_one_topic_into_one_copy_the_later_one_stops(
    source: FakeCluster, since: int, alias: str, stops: bool
) -> None:
    """The source by two aliases: ledgers apart, the topic the same by its id; of one moment, by their names."""
    clusters = both(source)
    theirs, target = f"mm2-ledger.{alias}.internal", clusters.target
    assert isinstance(target, FakeCluster)
    target.add_topic(theirs)
    for topic, at in ((BACK.ledger_topic, 5), (theirs, since)):
        known = Incarnation("orders", "life", at, "orders", "copy")
        store(target, topic, known.key(), known.value())
    resolved = with_loopback(BACK, clusters, ResolvedRanges((replace(RANGE, remote_topic_id="copy"),), ()))
    assert (["copied-twice"] if stops else []) == [it.code for it in resolved.stopped]
