"""A packed map answers as the opened one does, however little of it is opened."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies import maps
from twinlog.errors import FormatError
from twinlog.formats.map.offset_map import MapKey, encode_map_key, encode_segment
from twinlog.formats.map.packed_map import PackedMap, group_segments
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment


def packed(pieces: list[MapSegment], open_runs: int) -> PackedMap:
    return PackedMap.of(
        {it.first_upstream: encode_segment(it) for it in pieces if it.first_upstream < it.end_upstream},
        open_runs,
    )


@given(maps(), st.integers(1, 3))
def test_opening_a_part_answers_as_the_whole(pieces, open_runs):
    """Both ways, at every offset, alone and together."""
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
    assert (whole.end_upstream, len([run for it in pieces for run in it.runs])) == (
        lazy.end_upstream,
        lazy.run_count,
    )


@settings(max_examples=15)
@given(maps(), st.integers(1, 3))
def test_records_between_two_offsets_are_counted(pieces, open_runs):
    """On either side."""
    runs, lazy = OffsetMap.of(pieces).runs, packed(pieces, open_runs)
    pairs = [(run.upstream + at, run.downstream + at) for run in runs for at in range(run.length)]
    for count, offsets in (
        (lazy.upstream_records_between, [up for up, _ in pairs]),
        (lazy.records_between, [down for _, down in pairs]),
    ):
        places = range(max(offsets, default=0) + 3)
        for start in places[::3]:
            expected = [sum(start <= it < end for it in offsets) for end in places]
            assert expected == [count(start, end) for end in places]


def test_counting_opens_the_pieces_it_asks_about_and_no_others() -> None:
    """A hundred groups near the end of a long map are counted without decoding it a hundred times."""
    broken = encode_segment(MapSegment(0, 9, (Extent(0, 0, 4), Extent(5, 5, 4))))[:-1]
    made = {
        10 * n: encode_segment(MapSegment(10 * n, 10 * n + 10, (Extent(10 * n, 20 * n, 10),)))
        for n in (1, 2, 3)
    }
    known = PackedMap.of({0: broken, **made})
    assert (7, 7) == (known.records_between(43, 60), known.upstream_records_between(23, 30))
    with pytest.raises(FormatError, match="cannot be read"):
        known.records_between(0, 60)


def test_records_are_counted_where_pieces_overlap() -> None:
    """A joined piece stands beside those it replaces until they are forgotten; no record counts twice."""
    parts = [MapSegment(0, 5, (Extent(0, 3, 5),)), MapSegment(5, 10, (Extent(6, 9, 4),))]
    joined = MapSegment(0, 10, (Extent(0, 3, 5), Extent(6, 9, 4)))
    known = PackedMap.of({0: encode_segment(joined), 5: encode_segment(parts[1])})
    assert (9, 3) == (known.records_between(0, 99), known.records_between(6, 10))
    assert (9, 2) == (known.upstream_records_between(0, 99), known.upstream_records_between(4, 7))


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
    assert expected == group_segments(records)


@pytest.mark.parametrize("key", [b"", b"\x01short", b"\x02" + bytes(30), bytes(8)])
def test_what_is_no_key_raises(key):
    """A foreign record in the map topic stops everything."""
    with pytest.raises(FormatError, match="offset map key"):
        group_segments([(key, b"")])


@pytest.mark.parametrize(
    "value", [b"", b"\x02\x00\x00", b"\x01" + b"\xff" * 12, b"\x01" + b"\xff" * 9 + b"\x01"]
)
def test_what_is_no_piece_raises(value):
    """Also without opening it."""
    with pytest.raises(FormatError, match="map segment"):
        PackedMap.of({0: value})
