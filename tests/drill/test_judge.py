"""A first record is right if the group has not read it, and no record that it has not read lies before it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.drill.judge import Known, judge
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment

FIVE = OffsetMap.of([MapSegment(0, 5, (Extent(0, 10, 2), Extent(3, 12, 2)))])
"""Offsets 0, 1, 3 and 4 of the source are 10 to 13 of the copy."""


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[tuple[int, int]], list[tuple[int, int]], int]:
    """Copies (source, target), the target's own records (source, target), and the end of what came home of these.

    A target's own record lies on the source behind all records that were there when it came: both logs are in order.
    """
    here = there = 0
    copies: list[tuple[int, int]] = []
    own: list[tuple[int, int]] = []
    for kind in draw(st.lists(st.sampled_from(["copy", "own", "gap here", "gap there"]), max_size=20)):
        if kind in {"copy", "own"}:
            (copies if kind == "copy" else own).append((here, there))
        here += kind != "gap there"
        there += kind != "gap here"
    return copies, own, there


def map_of(pairs: list[tuple[int, int]], end: int) -> OffsetMap:
    return OffsetMap.of([MapSegment(0, end, tuple(Extent(up, down, 1) for up, down in pairs))])


@given(logs(), st.integers(0, 22), st.integers(0, 22), st.booleans())
def test_the_law(world, committed: int, read: int, both_ways: bool) -> None:
    """By counting: right is the unread record with no unread one before it; numbers are those of the logs."""
    copies, own, end = world
    own = own if both_ways else []
    forward = map_of(copies, 23)
    reverse = map_of([(there, here) for here, there in own], end) if both_ways else None
    every = copies + own
    at = {there: here for here, there in every}
    verdict = judge(Known.of(forward, reverse), committed, read)
    only_there = both_ways and read not in at and read >= end
    if read not in at and not only_there:
        assert (False, None) == (verdict.right, verdict.skipped)
        return
    before = sum(here >= committed and there < read for here, there in every)
    again = sum(here < committed and there >= read for here, there in every)
    unread = only_there or at[read] >= committed
    assert (unread and not before, at.get(read), again) == (verdict.right, verdict.upstream, verdict.again)
    if unread:
        assert before == verdict.skipped


def test_records_to_read_are_counted_from_both_sides() -> None:
    """From a place on, as many as a group has not read."""
    known = Known.of(FIVE, None)
    assert [2, 2, 1, 0] == [known.to_read(2, it) for it in (10, 12, 13, 14)]


def test_what_the_source_has_no_more_is_not_skipped() -> None:
    """Compaction took offset 1: the next record of a reader there is 3, as on the target."""
    assert (True, 0) == _told(judge(Known.of(FIVE, None), 1, 12, source_next=3))


def test_what_is_in_no_map_is_skipped_if_the_source_has_it() -> None:
    """Offset 2 was never copied, and a reader of the source would read it next."""
    assert (False, 1) == _told(judge(Known.of(FIVE, None), 2, 12, source_next=2))


def _told(verdict) -> tuple[bool, int]:
    return verdict.right, verdict.skipped


def test_what_came_home_and_was_read_there_is_not_skipped() -> None:
    """B's own 7 to 9 came home behind A's 7 and 8, which were copied behind them: a group that read B's own goes on."""
    forward = OffsetMap.of([MapSegment(0, 9, (Extent(0, 0, 7), Extent(7, 10, 2)))])
    reverse = OffsetMap.of([MapSegment(7, 10, (Extent(7, 9, 3),))])
    known = Known.of(forward, reverse)
    assert (True, 0) == _told(judge(known, 7, 10, read_there_to=10))
    assert (False, 1) == _told(judge(known, 7, 10, read_there_to=9)), "the last of them was not read there"
    assert (False, 3) == _told(judge(known, 7, 10)), "nobody read there: a place put so is wrong"
    assert (False, 1) == _told(judge(known, 7, 11, read_there_to=11)), "a copy is not read there"
