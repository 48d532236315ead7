"""Lanes are opened behind a fence that no other lane was opened behind, whatever happens in between."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import ClusterUnreachable, FencedError
from twinlog.follow.hold import MOVES, Hold, HoldState

AWAY, TAKEN = ClusterUnreachable("B is away"), FencedError("another twinlog took over")


class Owned:
    """State of a flow whose fences are counted; the next one may fail."""

    def __init__(self) -> None:
        self.lanes, self.fences, self.gave_way = 2, 0, 0
        self.error: Exception | None = None

    def take(self) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.fences += 1

    def give_way(self, _accepts: object) -> None:
        self.gave_way += 1

    def require_not_taken(self) -> None:
        raise FencedError("another twinlog, at host b, took over")


def hold() -> Hold:
    owned: Any = Owned()
    return Hold(owned, bool)


@given(st.lists(st.sampled_from(["open", "fence", "end", "more lanes", "open fails", "fence fails"])))
def test_no_fence_has_lanes_of_two_generations(steps: list[str]) -> None:
    """Also where the target did not answer, or Spark got more room."""
    held, opened_behind = hold(), []
    owned: Any = held.owned
    for step in steps:
        owned.error = AWAY if "fails" in step else None
        try:
            match step.split()[0]:
                case "open" if held.state is not HoldState.OPEN:
                    held.open()
                    opened_behind.append(owned.fences)
                case "fence" if held.state is HoldState.OPEN:
                    held.fence()
                case "end":
                    held.end()
                case "more":
                    held.grant(owned.lanes + 1)
        except ClusterUnreachable:
            assert held.state is not HoldState.FENCED
    assert sorted(set(opened_behind)) == opened_behind


def test_a_fence_that_granted_fewer_lanes_is_not_used() -> None:
    """One that granted as many, or more, is."""
    for lanes, fences in ((1, 2), (2, 2), (3, 3)):
        held = hold()
        owned: Any = held.owned
        held.open()
        held.fence()
        held.grant(lanes)
        held.open()
        assert (lanes, fences) == (owned.lanes, owned.fences)


def test_it_gives_way_only_once_it_has_had_the_flow() -> None:
    """Before, nobody could have taken it from this driver."""
    held = hold()
    owned: Any = held.owned
    held.open()
    assert 0 == owned.gave_way
    held.fence()
    assert 1 == owned.gave_way


def test_another_driver_is_named() -> None:
    """The refusal of a fence does not say who has the flow."""
    held = hold()
    held.owned = SimpleNamespace(take=_taken, require_not_taken=Owned().require_not_taken)  # type: ignore[assignment]
    with pytest.raises(FencedError, match="at host b"):
        held.open()
    assert HoldState.CLOSED is held.state


def _taken() -> None:
    raise TAKEN


def test_lanes_beside_lanes_are_no_move() -> None:
    """The table has none from there but an end, and a fence."""
    assert {"ended", "fenced"} == {event for state, event in MOVES if state is HoldState.OPEN}
