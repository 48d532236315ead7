"""Map pieces come back as they were written, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import int32s, names, pieces
from twinlog.errors import FormatError
from twinlog.formats.map.offset_map import (
    MapKey,
    SegmentDraft,
    decode_map_key,
    decode_segment,
    encode_map_key,
    encode_segment,
)
from twinlog.offsets.segments import Extent, MapSegment

KEY = MapKey("orders", "5ocRvdKDSTmBYqRHlBKdeQ", 3, 1000)
PIECE = MapSegment(1000, 1300, (Extent(1000, 5, 10), Extent(1012, 15, 200)))


def key_of(piece: MapSegment) -> MapKey:
    return MapKey("t", "id", 0, piece.first_upstream)


def test_the_bytes_of_a_key_and_a_piece_stay():
    """Stored maps must be read by every later release."""
    assert encode_map_key(KEY).hex() == (
        "01" "00066f7264657273" "0016356f635276644b4453546d4259715248" "6c424b646551" "00000003" "00000000000003e8"
    )  # fmt: skip
    # version, 300 offsets, 2 runs, (0, 5, 10), (2, 0, 200)
    assert encode_segment(PIECE).hex(" ") == "01 ac 02 02 00 05 0a 02 00 c8 01"
    assert (decode_map_key(encode_map_key(KEY)), decode_segment(KEY, encode_segment(PIECE))) == (KEY, PIECE)


@given(st.builds(MapKey, names, names, int32s, st.integers(0, (1 << 63) - 1)))
def test_reading_a_key_undoes_writing_it(key):
    """Any names and offsets."""
    assert decode_map_key(encode_map_key(key)) == key


@given(pieces())
def test_reading_a_piece_undoes_writing_it(piece):
    """Any runs in order, none included."""
    assert decode_segment(key_of(piece), encode_segment(piece)) == piece


@given(pieces(), st.data())
def test_a_piece_that_grew_is_the_piece_written_at_once(piece, data):
    """Wherever its runs are cut into transactions."""
    cut = 3 * data.draw(st.integers(0, len(piece.runs)))
    numbers, upstream, downstream = [], piece.first_upstream, 0
    for run in piece.runs:
        numbers += (run.upstream - upstream, run.downstream - downstream, run.length)
        upstream, downstream = run.upstream_end, run.downstream_end
    draft = SegmentDraft.begin(piece.first_upstream).extended(numbers[:cut]).extended(numbers[cut:])
    assert encode_segment(piece) == draft.value(piece.end_upstream)


@given(pieces())
def test_every_truncation_and_every_addition_raises(piece):
    """No shorter and no longer bytes pass for a piece."""
    value = encode_segment(piece)
    for cut in range(len(value)):
        with pytest.raises(FormatError):
            decode_segment(key_of(piece), value[:cut])
    with pytest.raises(FormatError, match="goes on"):
        decode_segment(key_of(piece), value + b"\x00")


def test_every_truncation_and_every_addition_of_a_key_raises():
    """No shorter and no longer bytes pass for a key."""
    data = encode_map_key(KEY)
    for cut in range(len(data)):
        with pytest.raises(FormatError):
            decode_map_key(data[:cut])
    with pytest.raises(FormatError, match="goes on"):
        decode_map_key(data + b"\x00")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_piece_or_a_format_error(value):
    """What decodes at all encodes to a piece that decodes to the same."""
    try:
        piece = decode_segment(KEY, b"\x01" + value)
    except FormatError:
        return
    assert decode_segment(KEY, encode_segment(piece)) == piece


@pytest.mark.parametrize("decode", [decode_map_key, lambda data: decode_segment(KEY, data)])
def test_an_unknown_version_is_named(decode):
    """A later release's map must not be half understood."""
    with pytest.raises(FormatError, match="version 2; only version 1 is known"):
        decode(b"\x02\x00\x00")


def test_alternating_runs_take_three_bytes_each():
    """The worst usual case: a transactional source, a marker after every record."""
    runs = tuple(Extent(2 * i, i, 1) for i in range(10_000))
    assert len(encode_segment(MapSegment(0, 20_000, runs))) <= 3 * 10_000 + 8


@pytest.mark.parametrize(
    ("first", "end", "runs"),
    [
        (-1, 5, ()),
        (5, 4, ()),
        (0, 1 << 63, ()),
        (5, 9, (Extent(4, 0, 1),)),
        (0, 9, (Extent(8, 0, 2),)),
        (0, 9, (Extent(0, 0, 0),)),
        (0, 9, (Extent(0, -1, 1),)),
        (0, 9, (Extent(0, 0, 3), Extent(2, 3, 1))),
        (0, 9, (Extent(0, 0, 3), Extent(3, 2, 1))),
        (0, 9, (Extent(5, 5, 1), Extent(0, 0, 1))),
        (0, 9, (Extent(0, (1 << 63) - 1, 1),)),
    ],
)
def test_a_piece_that_cannot_be_is_refused_when_made(first, end, runs):
    """Out of order, overlapping, outside its bounds or beyond 63 bits."""
    with pytest.raises(FormatError, match="map segment"):
        MapSegment(first, end, runs)
