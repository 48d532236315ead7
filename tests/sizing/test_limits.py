"""What breaks first is found, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.sizing.size import Break, Limit, first_break, worst


def linear(**used):
    """Bounds that are used in proportion to the load."""
    return lambda times: tuple(Limit(name, share * times, f"{name}'s knob") for name, share in used.items())


@given(st.floats(0.002, 50), st.floats(0.002, 50))
def test_the_bound_that_is_used_most_breaks_first(one, other):
    """At the load at which it is used up, to a hundredth."""
    found = first_break(linear(one=one, other=other), 0)
    assert found.times is not None
    assert found.times == pytest.approx(1 / max(one, other), rel=0.02, abs=0.02)


def test_growth_says_when():
    """A tenth more of today's load each day: twice the load after ten days."""
    found = first_break(linear(lanes=0.5, markers=0.1), 0.1)
    assert ("lanes", "lanes's knob", 10) == (found.name, found.knob, pytest.approx(found.days, rel=0.05))


def test_what_is_broken_now_breaks_today():
    """Not in a day before."""
    found = first_break(linear(lanes=4.0), 0.1)
    assert (0.25, 0) == (pytest.approx(found.times, rel=0.05), found.days)


def test_what_never_breaks_has_no_time():
    """At 1,024 times the load it would still be no more than half used."""
    assert Break("lanes", "lanes's knob", None, None) == first_break(linear(lanes=0.5 / 1024), 0.1)


def test_the_worst_bound():
    """The one with the largest share."""
    assert "b" == worst(linear(a=0.1, b=0.3, c=0.2)(1)).name
