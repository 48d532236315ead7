"""The offset map obeys its law: the next record to read is the copy of the first copied record not yet read."""

import itertools
from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies import pieces, small_pieces
from twinlog.errors import TerminalError
from twinlog.offsets.offset_map import OffsetMap, Translation
from twinlog.offsets.segments import Extent, MapSegment

# Offsets 100..119 of the source: 100-104 copied, 105 a marker, 106-109 copied, 110-114 aborted, 115-117 copied,
# the rest markers; on the target a marker of ours after each commit.
PIECES = (
    MapSegment(100, 110, (Extent(100, 7, 5), Extent(106, 12, 4))),
    MapSegment(110, 120, (Extent(115, 17, 3),)),
)
MAP = OffsetMap.of(PIECES)


def naive(piece: MapSegment) -> dict[int, int]:
    """The map a child would make: one entry a record."""
    return {run.upstream + i: run.downstream + i for run in piece.runs for i in range(run.length)}


def follow(mapping: dict[int, int], offset: int) -> int:
    """The law, word by word, for records in order."""
    froms = sorted(mapping)
    index = bisect_left(froms, offset)
    return mapping[froms[index]] if index < len(froms) else mapping[froms[-1]] + 1


@st.composite
def cuts(draw, piece: MapSegment) -> list[MapSegment]:
    """The same piece in parts, cut anywhere, also inside runs."""
    inside = st.integers(piece.first_upstream, piece.end_upstream)
    edges = [piece.first_upstream, *sorted(draw(st.lists(inside, max_size=4))), piece.end_upstream]
    return [part(piece, first, end) for first, end in itertools.pairwise(edges)]


def part(piece: MapSegment, first: int, end: int) -> MapSegment:
    runs = []
    for run in piece.runs:
        low, high = max(run.upstream, first), min(run.upstream_end, end)
        if low < high:
            runs.append(Extent(low, run.downstream + low - run.upstream, high - low))
    return MapSegment(first, end, tuple(runs))


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        (0, Translation(7, exact=False, ahead=False)),
        (99, Translation(7, exact=False, ahead=False)),
        (100, Translation(7, exact=True, ahead=False)),
        (104, Translation(11, exact=True, ahead=False)),
        (105, Translation(12, exact=True, ahead=False)),
        (106, Translation(12, exact=True, ahead=False)),
        (110, Translation(17, exact=True, ahead=False)),
        (117, Translation(19, exact=True, ahead=False)),
        (118, Translation(20, exact=True, ahead=False)),
        (120, Translation(20, exact=True, ahead=False)),
        (121, Translation(20, exact=True, ahead=True)),
    ],
)
def test_translation_goes_to_the_first_copied_record_not_yet_read(upstream, expected):
    """Below the oldest piece it is not exact; beyond the copy it is its end, and said to be ahead."""
    assert expected == MAP.translate(upstream)


@pytest.mark.parametrize(
    ("downstream", "expected"),
    [
        (6, Translation(100, exact=False, ahead=False)),
        (7, Translation(100, exact=True, ahead=False)),
        (12, Translation(106, exact=True, ahead=False)),
        (16, Translation(115, exact=True, ahead=False)),
        (20, Translation(118, exact=True, ahead=False)),
        (21, Translation(118, exact=True, ahead=True)),
    ],
)
def test_reverse_obeys_the_same_law(downstream, expected):
    """The way back, for failback."""
    assert expected == MAP.reverse(downstream)


@pytest.mark.parametrize("known", [(), (MapSegment(0, 10, ()),)])
def test_without_any_copied_record_there_is_no_translation(known):
    """An empty map, or one of markers only, knows no offset of the other side."""
    empty = OffsetMap.of(known)
    assert (empty.translate(0), empty.reverse(0), empty.runs, empty.records) == (None, None, (), 0)


@given(small_pieces.filter(lambda piece: piece.runs))
def test_it_answers_as_a_dictionary_would(piece):
    """Every offset around the map, both ways."""
    mapping, joined = naive(piece), OffsetMap.of([piece])
    back = {downstream: upstream for upstream, downstream in mapping.items()}
    for upstream in range(piece.end_upstream + 3):
        expected = Translation(
            follow(mapping, upstream), upstream >= piece.first_upstream, upstream > piece.end_upstream
        )
        assert expected == joined.translate(upstream)
    for downstream in range(joined.runs[-1].downstream_end + 3):
        assert follow(back, downstream) == joined.reverse(downstream).offset
    assert len(mapping) == joined.records


@given(small_pieces.filter(lambda piece: piece.runs))
def test_the_first_record_from_an_offset_on_is_the_next_that_a_dictionary_has(piece):
    """Behind the last one there is none."""
    known, every = OffsetMap.of([piece]), naive(piece)
    for offset in range(piece.end_upstream + 2):
        behind = [pair for pair in sorted(every.items()) if pair[0] >= offset]
        assert next(iter(behind), None) == known.first_at(offset)


@given(pieces().filter(lambda piece: piece.runs), st.lists(st.integers(0, 1 << 40), min_size=2))
def test_translation_is_monotone(piece, offsets):
    """Who has read more never goes back further; both ways."""
    joined = OffsetMap.of([piece])
    for translate in (joined.translate, joined.reverse):
        translated = [translate(offset).offset for offset in sorted(offsets)]
        assert sorted(translated) == translated


@given(pieces())
def test_reverse_undoes_translation_for_every_copied_record(piece):
    """At both ends of every run, where mistakes are; the position behind the last record included."""
    joined = OffsetMap.of([piece])
    for run in joined.runs:
        for upstream in (run.upstream, run.upstream_end - 1):
            assert joined.reverse(joined.translate(upstream).offset).offset == upstream
    if joined.runs:
        end = joined.runs[-1].upstream_end
        assert joined.reverse(joined.translate(end).offset).offset == end


@given(st.data())
def test_cutting_into_pieces_and_joining_changes_nothing(data):
    """In any order, and with the whole beside its parts, as after pieces were packed."""
    piece = data.draw(pieces())
    whole = OffsetMap.of([piece])
    parts = data.draw(st.permutations(data.draw(cuts(piece))))
    assert OffsetMap.of(parts).pieces == whole.pieces
    assert OffsetMap.of([*parts, piece]).pieces == whole.pieces


@given(st.data())
def test_adding_one_by_one_is_joining_at_once(data):
    """And adding a part again changes nothing."""
    parts = data.draw(cuts(data.draw(pieces())))
    grown = OffsetMap.of([])
    for each in parts:
        grown = grown.add(each)
    again = grown.add(data.draw(st.sampled_from(parts)))
    assert (grown.pieces, again.pieces) == (OffsetMap.of(parts).pieces, grown.pieces)


@given(pieces())
def test_neighbouring_runs_are_one(piece):
    """One spelling per map: no two runs continue each other."""
    for left, right in itertools.pairwise(OffsetMap.of([piece]).runs):
        assert (left.upstream_end, left.downstream_end) != (right.upstream, right.downstream)


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (MapSegment(100, 110, (Extent(100, 8, 5), Extent(106, 13, 4))), "contradicts"),
        (MapSegment(100, 110, ()), "contradicts"),
        (MapSegment(104, 106, (Extent(104, 11, 2),)), "contradicts"),
        (MapSegment(115, 121, (Extent(115, 17, 3),)), "only in part"),
        (MapSegment(90, 105, (Extent(100, 7, 5),)), "only in part"),
        (MapSegment(120, 125, (Extent(120, 19, 5),)), "overlap or are out of order"),
    ],
)
def test_what_contradicts_the_map_is_refused(piece, words):
    """Two copies of one offset mean that something is wrong: no translation may come of it."""
    with pytest.raises(TerminalError, match=words) as refused:
        MAP.add(piece)
    assert refused.value.code == "offset-map"
    with pytest.raises(TerminalError):
        OffsetMap.of([*PIECES, piece])


# As PIECES, then offsets 120..499 that no piece covers, then ten more records.
HOLED = OffsetMap.of([*PIECES, MapSegment(500, 512, (Extent(501, 60, 10),))])


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        (117, Translation(19, exact=True, ahead=False)),
        (120, Translation(20, exact=True, ahead=False)),
        (121, Translation(20, exact=False, ahead=False)),
        (499, Translation(20, exact=False, ahead=False)),
        (500, Translation(60, exact=True, ahead=False)),
        (512, Translation(70, exact=True, ahead=False)),
        (513, Translation(70, exact=True, ahead=True)),
    ],
)
def test_in_a_hole_a_reader_goes_on_behind_what_is_known_to_be_read(upstream, expected):
    """Somebody else may have copied there: records may be read again, none is skipped, and it is not exact."""
    assert expected == HOLED.translate(upstream)


@pytest.mark.parametrize(
    ("downstream", "expected"),
    [
        (20, Translation(118, exact=True, ahead=False)),
        (21, Translation(118, exact=False, ahead=False)),
        (59, Translation(118, exact=False, ahead=False)),
        (60, Translation(501, exact=True, ahead=False)),
        (70, Translation(511, exact=True, ahead=False)),
    ],
)
def test_on_the_way_back_a_hole_is_the_same_doubt(downstream, expected):
    """The position right behind the last record before it is known; within it, it is not."""
    assert expected == HOLED.reverse(downstream)


def test_a_hole_with_no_room_on_the_target_holds_no_records():
    """What lies between two records that are neighbours downstream was never copied."""
    joined = OffsetMap.of([*PIECES, MapSegment(500, 510, (Extent(500, 20, 10),))])
    assert joined.translate(300) == Translation(20, exact=True, ahead=False)


def test_a_gap_that_is_known_is_no_hole():
    """Offsets lost to retention: nothing was copied there, so the next record is the next run's."""
    known = HOLED.with_gaps([(90, 130), (125, 500), (505, 506)])
    assert known.translate(300) == Translation(60, exact=True, ahead=False)
    assert [piece.first_upstream for piece in known.pieces] == [90]
    assert known.runs == HOLED.runs


@given(st.data())
def test_holes_never_make_a_reader_skip_a_record(data):
    """Whatever pieces are missing: the position is never beyond that of the whole map, and exact where it says so."""
    piece = data.draw(small_pieces.filter(lambda piece: piece.runs))
    parts = data.draw(cuts(piece))
    kept = [part for part in parts if data.draw(st.booleans())]
    whole, holed = OffsetMap.of([piece]), OffsetMap.of(kept)
    for upstream in range(piece.end_upstream + 3):
        found, truth = holed.translate(upstream), whole.translate(upstream)
        if found is None or found.ahead:
            continue
        below_all = upstream < holed.first_upstream or not any(r.upstream < upstream for r in holed.runs)
        if not below_all:
            assert found.offset <= truth.offset
        if found.exact:
            skipped = range(min(found.offset, truth.offset), max(found.offset, truth.offset))
            assert not set(skipped) & set(naive(piece).values())


def test_a_broken_map_is_shown_when_checked():
    """`check` is what stands between a fault and a wrong offset."""
    bounds = (MAP.covered_from, MAP.covered_to)
    broken = OffsetMap(MAP.upstream[::-1], MAP.downstream[::-1], MAP.length[::-1], *bounds)
    with pytest.raises(TerminalError, match="out of order") as refused:
        broken.check()
    assert [115, 17, 3] in refused.value.data["runs"]
    with pytest.raises(TerminalError, match="outside its bounds"):
        OffsetMap(MAP.upstream, MAP.downstream, MAP.length, MAP.covered_from + 1, MAP.covered_to).check()
