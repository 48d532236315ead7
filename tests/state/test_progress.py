"""Progress and map, read from what MM2's and our own records say."""

import pytest
from fake_cluster import FakeCluster

from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import (
    ClusterSettings,
    ConnectionSettings,
)
from twinlog.errors import FormatError
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.formats.mm2.connect_offset import offset_value, source_offset_key
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.state.progress import read_maps, read_packed, read_progress, stored_segments

FLOW = FlowSettings(*(ClusterSettings(alias, "", ConnectionSettings(alias, ())) for alias in "AB"))
SOURCE = "MirrorSourceConnector"


@pytest.fixture
def target() -> FakeCluster:
    cluster = FakeCluster("B")
    cluster.add_topic(FLOW.offsets_topic, 25)
    cluster.add_topic(FLOW.offset_map_topic, 16)
    return cluster


def store(target: FakeCluster, topic: str, key: bytes, value: bytes | None) -> None:
    target.append(TopicPartition(topic, 0), key=key, value=value)


def test_nothing_is_copied_before_the_topics_exist():
    """A first cycle starts from nothing."""
    assert ({}, {}) == (read_progress(FLOW, FakeCluster("B")), read_maps(FLOW, FakeCluster("B")))


def test_progress_is_the_last_copied_upstream_offset(target):
    """By topic and partition of the source."""
    store(target, FLOW.offsets_topic, source_offset_key(SOURCE, "A", 3, "orders"), offset_value(41))
    assert {("orders", 3): 41} == read_progress(FLOW, target)


def test_a_reset_partition_has_no_progress(target):
    """A tombstone, or MM2's null offset, means never copied."""
    for partition, value in enumerate([None, b"null", b'{"offset":null}']):
        store(target, FLOW.offsets_topic, source_offset_key(SOURCE, "A", partition, "orders"), value)
    assert {} == read_progress(FLOW, target)


@pytest.mark.parametrize(
    "key",
    [
        source_offset_key("A->B.MirrorSourceConnector", "A", 0, "orders"),
        source_offset_key(SOURCE, "C", 0, "orders"),
        b'["MirrorSourceConnector",{"topic":"orders","partition":0,"cluster":"A"}]',
        b'["file-source",{"filename":"x"}]',
        b"not json",
    ],
)
def test_what_is_not_this_flows_is_passed_over(target, key):
    """Other connectors share the topic, and Connect compares keys as bytes."""
    store(target, FLOW.offsets_topic, key, offset_value(7))
    assert {} == read_progress(FLOW, target)


def test_progress_that_makes_no_sense_is_an_error(target):
    """Better no copy than one from the wrong place."""
    store(target, FLOW.offsets_topic, source_offset_key(SOURCE, "A", 0, "orders"), b'{"offset":"many"}')
    with pytest.raises(FormatError):
        read_progress(FLOW, target)


def test_maps_are_kept_apart_by_life(target):
    """Offsets of two lives of a topic are different offsets."""
    pieces = [MapSegment(10, 20, (Extent(10, 5, 10),)), MapSegment(0, 10, (Extent(0, 0, 2), Extent(7, 2, 3)))]
    for piece in pieces:
        key = MapKey("orders", "one", 0, piece.first_upstream)
        store(target, FLOW.offset_map_topic, encode_map_key(key), encode_segment(piece))
    other = MapSegment(0, 4, (Extent(0, 15, 4),))
    store(target, FLOW.offset_map_topic, encode_map_key(MapKey("orders", "two", 0, 0)), encode_segment(other))
    one, two = SourceIncarnation("orders", "one", 0), SourceIncarnation("orders", "two", 0)
    found = read_maps(FLOW, target)
    assert {one, two} == set(found)
    assert ((Extent(0, 0, 2), Extent(7, 2, 13)), other.runs) == (found[one].runs, found[two].runs)
    assert {one: (0, 10), two: (0,)} == stored_segments(FLOW, target)


GOOD = MapSegment(0, 4, (Extent(0, 0, 4),))


def put(target: FakeCluster, topic: str, first: int, value: bytes) -> None:
    store(target, FLOW.offset_map_topic, encode_map_key(MapKey(topic, "id", 0, first)), value)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"\x02\x00\x00", "map segment has version 2; only version 1 is known"),
        (
            encode_segment(MapSegment(4, 8, (Extent(4, 4, 4),)))[:-1],
            "ends in the middle of a number",
        ),
        (encode_segment(MapSegment(4, 8, (Extent(4, 2, 4),))), "has runs that overlap or are out of order"),
    ],
    ids=["unknown version", "truncated", "contradicts the piece before"],
)
def test_a_map_that_cannot_be_read_costs_no_other(target, broken, why):
    """Who asks for it is told topic, partition and record; the others are as they were."""
    put(target, "orders", 0, encode_segment(GOOD))
    put(target, "bills", 0, encode_segment(GOOD))
    put(target, "bills", 4, broken)
    orders, bills = SourceIncarnation("orders", "id", 0), SourceIncarnation("bills", "id", 0)
    opened, packed = read_maps(FLOW, target), read_packed(FLOW, target)
    assert ({orders}, {bills}) == (set(opened), set(opened.broken))
    assert GOOD.runs == packed[orders].open().runs == opened[orders].runs
    for ask in (lambda: opened.get(bills), lambda: opened[bills], lambda: packed[bills].translate_many([1])):
        with pytest.raises(UnreadableMap, match="the offset map of bills-0 cannot be read") as caught:
            ask()
        assert why in caught.value.message
        assert f"offset 2 of {FLOW.offset_map_topic}-0" == caught.value.data["record"]
        assert ("bills", "id", 0) == tuple(
            caught.value.data[name] for name in ("topic", "topic_id", "partition")
        )
    assert {orders: (0,), bills: (0, 4)} == stored_segments(FLOW, target)


def test_a_negative_offset_in_a_key_is_that_partitions_trouble(target):
    """The rest of the key says whose it is."""
    put(target, "bills", -4, encode_segment(GOOD))
    assert {SourceIncarnation("bills", "id", 0)} == set(read_packed(FLOW, target).broken)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"", "offset map key is empty"),
        (b"\x01abc", "offset map key ends"),
        (b"\x07abc", "offset map key has version 7"),
        (b"\x07" + bytes(40), "offset map key has version 7"),
    ],
)
def test_a_record_that_may_be_anybodys_stops_all(target, key, why):
    """Its place is named, and its own version."""
    put(target, "orders", 0, encode_segment(GOOD))
    store(target, FLOW.offset_map_topic, key, b"what")
    with pytest.raises(FormatError) as caught:
        read_packed(FLOW, target)
    assert caught.value.message.startswith(
        f"offset 1 of {FLOW.offset_map_topic}-0 is no record of the offset map: {why}"
    )
