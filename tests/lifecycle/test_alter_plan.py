"""Where a copy may be moved: never over a record that it has, and never past one without a gap."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import Gap, GapCause, Quarantine
from twinlog.formats.ledger.topics import TopicPause
from twinlog.lifecycle.alter_plan import (
    Alteration,
    Direction,
    Standing,
    gaps_undone,
    offset_wanted,
    plan_alteration,
    why_not_held,
)
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment, cut
from twinlog.state.ledger import Ledger, ledger_from

AT = Standing("t", "id", "A.t", 0, goes_on=10, log_start=4, readable_end=20, begins=0, into_empty=True)
COPIED = OffsetMap.of([MapSegment(0, 10, (Extent(0, 0, 8),))])


def refused(at: Standing, to: int, ledger: Ledger | None = None) -> str:
    with pytest.raises(TerminalError) as error:
        plan_alteration(at, to, ledger or Ledger())
    assert "alter-refused" == error.value.code
    return error.value.message


def test_what_a_move_forward_leaves_out_is_told_apart_from_what_the_source_deleted() -> None:
    """Deleted offsets keep their own cause: nobody decided to leave them out."""
    at = replace(AT, log_start=13)
    expected = Alteration("t", 0, "A.t", 10, 15, Direction.FORWARD, deleted=(10, 13), left_out=(13, 15))
    assert expected == plan_alteration(at, 15, Ledger())
    assert replace(expected, to_offset=12, deleted=(10, 12), left_out=None) == plan_alteration(
        at, 12, Ledger()
    )


def test_a_move_to_where_it_goes_on_is_none() -> None:
    """Nothing would be written."""
    assert Direction.NOWHERE is plan_alteration(AT, 10, Ledger()).direction


def test_nothing_beyond_what_the_source_can_give_is_promised() -> None:
    """Neither past its end, nor past a transaction that is open there."""
    assert "can be read up to 19" in refused(AT, 21)


def test_a_move_back_stops_at_the_last_copy() -> None:
    """Offsets 8 and 9 were passed without a copy: these can be copied after all."""
    at = replace(AT, offset_map=COPIED)
    assert Alteration("t", 0, "A.t", 10, 8, Direction.BACK, again=(8, 10)) == plan_alteration(at, 8, Ledger())
    assert "twice" in refused(at, 7)


def test_what_the_map_does_not_cover_may_have_been_copied() -> None:
    """MirrorMaker 2 copied there, or the map was compacted: a guess could double records."""
    at = replace(AT, offset_map=OffsetMap.of([MapSegment(0, 6, ()), MapSegment(8, 10, ())]))
    assert "the map does not say" in refused(at, 5)
    assert Direction.BACK is plan_alteration(at, 8, Ledger()).direction
    assert "the map does not say" in refused(replace(AT, begins=None), 5)


def test_in_front_of_its_beginning_only_a_copy_that_was_empty_has_nothing() -> None:
    """A copy that held records may have got them from there."""
    at = replace(AT, begins=10)
    assert Direction.BACK is plan_alteration(at, 4, Ledger()).direction
    assert "the map does not say" in refused(replace(at, into_empty=False), 4)


def test_a_record_written_aside_is_not_written_aside_twice() -> None:
    """It would be in the quarantine topic a second time, or there and in the copy."""
    at = replace(AT, offset_map=OffsetMap.of([MapSegment(0, 10, ())]))
    assert "written aside" in refused(at, 5, ledger_from([Quarantine("t", 0, 7, "too large", 1, "id")]))
    assert (
        Direction.BACK is plan_alteration(at, 8, ledger_from([Quarantine("t", 0, 7, "x", 1, "id")])).direction
    )


def test_a_damaged_batch_that_was_skipped_is_copied_after_all() -> None:
    """If nothing was copied behind it, it comes in order."""
    at = replace(AT, offset_map=OffsetMap.of([MapSegment(0, 10, ())]))
    gap = Gap("t", 0, 6, 8, GapCause.QUARANTINE, 1, 3, "id", copied_past=True)
    assert Direction.BACK is plan_alteration(at, 6, ledger_from([gap])).direction
    assert [(gap, None)] == list(gaps_undone(ledger_from([gap]), at, 6))


def test_a_source_that_is_shorter_than_its_copy_is_no_matter_of_offsets() -> None:
    """It lost records, or a transaction is open: a move would hide that."""
    assert "copied up to upstream offset 9" in refused(replace(AT, readable_end=7), 7)


def test_a_place_is_an_offset_or_an_end() -> None:
    """KIP-875 takes offsets; the two words are those of consumers."""
    assert [4, 20, 12] == [offset_wanted(word, AT) for word in ("earliest", "latest", "12")]
    for word in ("-1", "", "1.5", "٣", "first", "9" * 30):
        with pytest.raises(UsageError):
            offset_wanted(word, AT)


def test_a_paused_topic_is_held() -> None:
    """Otherwise a cycle may begin to copy it at any moment."""
    assert "" == why_not_held(ledger_from([TopicPause("t", 1, "me", "why")]), "t")
    assert "twinlog pause --topic t" in why_not_held(Ledger(), "t")


@dataclass
class Model:
    """A source of twenty records, its copy, and what is noted of the two."""

    goes_on: int = 0
    copies: list[int] = field(default_factory=list)
    pieces: list[MapSegment] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)

    def copy(self, end: int) -> None:
        runs = (Extent(self.goes_on, len(self.copies), end - self.goes_on),)
        self.pieces.append(MapSegment(self.goes_on, end, runs))
        self.copies += range(self.goes_on, end)
        self.goes_on = end

    def move(self, to: int) -> None:
        at = replace(AT, goes_on=self.goes_on, log_start=0, offset_map=OffsetMap.of(self.pieces))
        ledger = ledger_from(self.gaps)
        try:
            move = plan_alteration(at, to, ledger)
        except TerminalError:
            return
        if move.left_out is not None:
            first, end = move.left_out
            self.gaps.append(Gap("t", 0, first, end - 1, GapCause.OFFSETS_ALTERED, 1, end - first, "id"))
            self.pieces.append(MapSegment(first, end, ()))
        if move.again is not None:
            undone = dict(gaps_undone(ledger, at, to))
            self.gaps = [left for it in ledger.gaps if (left := undone.get(it, it)) is not None]
            self.pieces = [left for it in self.pieces if (left := cut(it, to)) is not None]
        self.goes_on = to


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=12))
def test_each_record_is_copied_once_or_in_a_gap_whatever_people_do(steps: list[tuple[bool, int]]) -> None:
    """After any copies and moves: no record twice, in order, and those without a copy are exactly the gaps."""
    model = Model()
    for copies, to in steps:
        if not copies:
            model.move(to)
        elif to > model.goes_on:
            model.copy(to)
    without = {offset for gap in model.gaps for offset in range(gap.first_offset, gap.last_offset + 1)}
    assert sorted(set(model.copies)) == model.copies
    assert set(range(model.goes_on)) - set(model.copies) == without
