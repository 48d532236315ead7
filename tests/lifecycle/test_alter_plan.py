"""Where a copy may be moved: never over a record that it has, and never past one without a gap."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import TerminalError, UsageError
from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import TopicPause
from twinlog.lifecycle.alter_plan import (
    Alteration,
    Standing,
    offset_wanted,
    plan_alteration,
    why_not_held,
)
from twinlog.state.ledger import Ledger, ledger_from

AT = Standing("t", "id", "A.t", 0, goes_on=10, log_start=4, readable_end=20)


def refused(at: Standing, to: int) -> str:
    with pytest.raises(TerminalError) as error:
        plan_alteration(at, to)
    assert "alter-refused" == error.value.code
    return error.value.message


def test_what_a_move_forward_leaves_out_is_told_apart_from_what_the_source_deleted() -> None:
    """Deleted offsets keep their own cause: nobody decided to leave them out."""
    at = replace(AT, log_start=13)
    expected = Alteration("t", "id", 0, "A.t", 10, 15, deleted=(10, 13), left_out=(13, 15))
    assert expected == plan_alteration(at, 15)
    assert replace(expected, to_offset=12, deleted=(10, 12), left_out=None) == plan_alteration(at, 12)


def test_a_move_to_where_it_goes_on_is_none() -> None:
    """Nothing would be written."""
    assert not plan_alteration(AT, 10).moves


def test_there_is_no_move_back() -> None:
    """The copy can only be appended to; the line says what copies anew."""
    assert "cannot go back to upstream offset 9" in refused(AT, 9)


def test_nothing_beyond_what_the_source_can_give_is_promised() -> None:
    """Neither past its end, nor past a transaction that is open there."""
    assert "can be read up to 19" in refused(AT, 21)


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
    gaps: list[Gap] = field(default_factory=list)

    def copy(self, end: int) -> None:
        self.copies += range(self.goes_on, end)
        self.goes_on = end

    def move(self, to: int) -> None:
        try:
            move = plan_alteration(replace(AT, goes_on=self.goes_on, log_start=0), to)
        except TerminalError:
            return
        if move.left_out is not None:
            first, end = move.left_out
            self.gaps.append(Gap("t", 0, first, end - 1, GapCause.OFFSETS_ALTERED, 1, end - first, "id"))
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
