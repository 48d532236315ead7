"""The offset map behind a take-over: it rises, covers what was proved, and places no reader too late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.migration.alignment import Alignment, Verdict, extents_of
from twinlog.migration.continuation import by_last_copies, continued, segments_of
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment, cut

Pairs = list[tuple[int, int]]

starts = st.integers(0, 50)
steps = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12)


@given(starts, steps, st.integers(0, 80))
def test_pieces_join_to_the_proved_runs_above_the_floor(
    start: int, shape: list[tuple[int, int, int]], floor: int
) -> None:
    """Whatever the map knows already, it takes the pieces, and translates the rest as the proof says."""
    runs, up, down = [], start, 7
    for length, skipped, jumped in shape:
        up, down = up + skipped, down + jumped
        runs.append(Extent(up, down, length))
        up, down = up + length, down + length
    found = Alignment(Verdict.PROVED, up - 1, runs=tuple(runs))
    pieces = list(segments_of(found, floor))
    known = OffsetMap.of(pieces)
    pairs = {run.upstream + n: run.downstream + n for run in runs for n in range(run.length)}
    above = {u: d for u, d in pairs.items() if u >= floor}
    assert above == {run.upstream + n: run.downstream + n for run in known.runs for n in range(run.length)}
    assert not pieces or (pieces[-1].end_upstream == up and pieces[0].first_upstream >= floor)


def proof(pairs: Pairs) -> Alignment:
    """What a comparison of all records finds: a copy in this order, (upstream, downstream)."""
    first: Pairs = []
    for pair in pairs:
        if not first or pair[0] > first[-1][0]:
            first.append(pair)
    return Alignment(Verdict.PROVED, first[-1][0], runs=extents_of(first), pairs=tuple(pairs))


def packed(ours: Pairs) -> PackedMap:
    """The map of what the flow itself has copied, a segment for each record."""
    return PackedMap.of({
        up: encode_segment(MapSegment(up, up + 1, (Extent(up, down, 1),))) for up, down in ours
    })


def both(known: PackedMap, pairs: Pairs) -> OffsetMap:
    """The map as a take-over leaves it."""
    found = continued(known, proof(pairs))
    assert found.fits
    table = known.pieces()
    left = [cut(table.piece(row), found.at) for row in range(len(table.first))]
    return OffsetMap.of([*filter(None, left), *found.segments])


@st.composite
def two_writers(draw: st.DrawFn) -> tuple[Pairs, Pairs]:
    """A copy by MM2, which may fall back, and by the flow, which may go on where MM2 was; and the flow's part of it."""
    pairs: Pairs = []
    ours: Pairs = []
    mine = theirs = 0
    for step in draw(st.lists(st.sampled_from("mmmttttbj"), min_size=1, max_size=40)):
        if step == "j":
            mine = max(mine, theirs)
        elif step == "b":
            theirs = max(0, theirs - 3)
        elif step == "m":
            ours.append((mine, len(pairs)))
            pairs.append((mine, len(pairs)))
            mine += 1
        else:
            pairs.append((theirs, len(pairs)))
            theirs += 1
    return pairs or [(0, 0)], ours


@given(two_writers())
def test_no_reader_is_placed_behind_a_record_that_it_has_not_read(copied: tuple[Pairs, Pairs]) -> None:
    """Also if two programs have copied at once: every later record has a copy from there on."""
    pairs, ours = copied
    known = both(packed(ours), pairs)
    known.check()
    last = dict(pairs)  # the last copy of each record
    assert max(last) + 1 == known.end_upstream
    for upstream in last:
        place = known.translate(upstream)
        assert place is not None
        assert place.exact
        assert all(place.offset <= at for later, at in last.items() if later >= upstream)


def test_a_map_that_agrees_is_not_touched() -> None:
    """Handed over and taken back: what MM2 copied comes behind it, and nothing is written anew."""
    found = continued(packed([(0, 0), (1, 1)]), proof([(0, 0), (1, 1), (2, 2), (2, 3)]))
    assert (2, False, True) == (found.at, found.replaces, found.fits)
    assert (MapSegment(2, 3, (Extent(2, 2, 1),)),) == found.segments


def test_records_that_compaction_took_make_no_difference() -> None:
    """The map has them, and the copy no longer."""
    found = continued(packed([(0, 0), (1, 1), (2, 2)]), proof([(0, 0), (2, 2), (3, 3)]))
    assert (3, False, True) == (found.at, found.replaces, found.fits)


def test_a_map_that_was_wrong_before_what_was_compared_does_not_go_on() -> None:
    """The other program's 2 and 3 lie before our 0 and 1, and only they were compared: a greater depth is needed."""
    found = proof([(2, 0), (3, 1), (0, 2), (1, 3)])
    assert not continued(packed([(0, 2), (1, 3)]), found).fits
    whole = proof([(0, 0), (1, 1), (2, 2), (3, 3), (0, 4), (1, 5)])
    assert (0, True, True) == ((it := continued(packed([(0, 4), (1, 5)]), whole)).at, it.replaces, it.fits)


class TestByLastCopies:
    def test_a_record_stands_where_it_was_copied_last(self) -> None:
        """All after the restart; of a repetition that broke off, the last places that rise."""
        pairs = ((0, 0), (1, 1), (2, 2), (1, 3), (2, 4), (3, 5), (2, 6))
        found = by_last_copies(
            Alignment(Verdict.PROVED, 3, runs=(Extent(0, 0, 3), Extent(3, 5, 1)), pairs=pairs)
        )
        assert ((0, 0), (1, 3), (2, 4), (3, 5)) == found.pairs
        assert (Extent(0, 0, 1), Extent(1, 3, 3)) == found.runs

    def test_nothing_is_said_of_records_that_cannot_be_told_apart(self) -> None:
        """They have no runs before, and none then."""
        assert () == by_last_copies(Alignment(Verdict.PROVED, 0, pairs=((0, 0), (0, 1)))).runs
