"""A packed map answers as the opened one does, however little of it is opened."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import pieces, small_pieces
from twinlog.errors import FormatError
from twinlog.formats import packed_map
from twinlog.formats.offset_map import MapKey, encode_map_key, encode_piece
from twinlog.formats.packed_map import PackedMap, group_pieces
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run


@st.composite
def maps(draw) -> list[MapPiece]:
    """Pieces one behind the other, with holes between some of them."""
    result, upstream, downstream = [], 0, 0
    for piece in draw(st.lists(small_pieces, min_size=1, max_size=6)):
        upstream += draw(st.integers(0, 3))
        moved = tuple(
            Run(run.upstream + upstream, run.downstream + downstream, run.length) for run in piece.runs
        )
        result.append(MapPiece(upstream + piece.first_upstream, upstream + piece.end_upstream, moved))
        upstream = result[-1].end_upstream
        downstream = moved[-1].downstream_end if moved else downstream
    return result


def packed(pieces: list[MapPiece], open_runs: int) -> PackedMap:
    return PackedMap.of(
        {it.first_upstream: encode_piece(it) for it in pieces if it.first_upstream < it.end_upstream},
        open_runs,
    )


@settings(deadline=None, max_examples=40)
@given(maps(), st.integers(1, 3))
def test_opening_a_part_answers_as_the_whole(pieces, open_runs):
    """Both ways, at every offset, alone and together; and counts."""
    whole, lazy = OffsetMap.of(pieces), packed(pieces, open_runs)
    if not whole.runs:
        assert (None, None) == (lazy.translate_many([0]), lazy.reverse_many([0]))
        return
    upstream = list(range(whole.end_upstream + 3))
    downstream = list(range(whole.runs[-1].downstream_end + 3))
    together, back = lazy.translate_many(upstream), lazy.reverse_many(downstream)
    for at in upstream:
        assert whole.translate(at) == lazy.translate_many([at]).one(0) == together.one(at)
    for at in downstream:
        assert whole.reverse(at) == lazy.reverse_many([at]).one(0) == back.one(at)
    before = whole.records_before(downstream)
    for start in downstream[::3]:
        expected = [max(0, int(before[end] - before[start])) for end in downstream]
        assert expected == [lazy.records_between(start, end) for end in downstream]
    assert (whole.end_upstream, len([run for it in pieces for run in it.runs])) == (
        lazy.end_upstream,
        lazy.run_count,
    )


def test_keys_are_sorted_by_partition_and_life():
    """Two lives of a topic have two maps."""
    records = [
        (encode_map_key(MapKey("orders", life, partition, first)), b"%d" % first)
        for life in ("one", "two")
        for partition in (0, 1)
        for first in (0, 300)
    ]
    expected = {
        MapKey("orders", life, partition, 0): {0: b"0", 300: b"300"}
        for life in ("one", "two")
        for partition in (0, 1)
    }
    assert expected == group_pieces(records)


@pytest.mark.parametrize("key", [b"", b"\x01short", b"\x02" + bytes(30), bytes(8)])
def test_what_is_no_key_raises(key):
    """A foreign record in the map topic stops everything."""
    with pytest.raises(FormatError, match="offset map key"):
        group_pieces([(key, b"")])


@pytest.mark.parametrize(
    "value", [b"", b"\x02\x00\x00", b"\x01" + b"\xff" * 12, b"\x01" + b"\xff" * 9 + b"\x01"]
)
def test_what_is_no_piece_raises(value):
    """Also without opening it."""
    with pytest.raises(FormatError, match="offset map piece"):
        PackedMap.of({0: value})


@given(st.lists(pieces(), max_size=6))
def test_heads_are_the_same_read_one_by_one_and_all_at_once(some) -> None:
    """The short way for few pieces is not another reading."""
    values = [encode_piece(piece) for piece in some]
    few = [list(column) for column in packed_map._heads(values)]
    assert few == [list(column) for column in packed_map._many_heads(values)]
