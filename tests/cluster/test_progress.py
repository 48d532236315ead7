"""Progress and map, read from what MM2's and our own records say."""

import pytest

from twinlog.cluster.fake import FakeCluster
from twinlog.cluster.progress import SourceLife, all_runs, read_pieces, read_progress
from twinlog.cluster.values import TopicPartition
from twinlog.config.connection import ConnectionSettings
from twinlog.config.settings import ClusterSettings, FlowSettings
from twinlog.errors import FormatError
from twinlog.formats.connect_offset import offset_value, source_offset_key
from twinlog.formats.offset_map import MapKey, MapPiece, encode_map_key, encode_piece
from twinlog.offsets.run import Run

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
    assert ({}, {}) == (read_progress(FLOW, FakeCluster("B")), read_pieces(FLOW, FakeCluster("B")))


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


def test_pieces_are_kept_apart_by_life_and_in_order(target):
    """Offsets of two lives of a topic are different offsets."""
    pieces = [MapPiece(10, 20, (Run(10, 5, 10),)), MapPiece(0, 10, (Run(0, 0, 2), Run(7, 2, 3)))]
    for piece in pieces:
        key = MapKey("orders", "one", 0, piece.first_upstream)
        store(target, FLOW.offset_map_topic, encode_map_key(key), encode_piece(piece))
    other = MapPiece(0, 4, (Run(0, 15, 4),))
    store(target, FLOW.offset_map_topic, encode_map_key(MapKey("orders", "two", 0, 0)), encode_piece(other))
    found = read_pieces(FLOW, target)
    assert {
        SourceLife("orders", "one", 0): (pieces[1], pieces[0]),
        SourceLife("orders", "two", 0): (other,),
    } == found
    assert (Run(0, 0, 2), Run(7, 2, 3), Run(10, 5, 10)) == all_runs(found[SourceLife("orders", "one", 0)])
