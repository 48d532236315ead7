"""Looks at groups are packed, and come back as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.errors import FormatError
from twinlog.formats.ledger.groups import GroupLook, Stand

OFFSETS = st.integers(0, 2**63 - 1)
COPIES = {"orders": ("A.orders", "id"), "käse": ("A.käse", "")}
STANDS = st.lists(
    st.builds(
        lambda group, topic, number, up, down, exact: Stand(
            group, topic, number, *COPIES[topic], up, down, exact
        ),
        st.text(max_size=5),
        st.sampled_from(sorted(COPIES)),
        st.integers(0, 3),
        OFFSETS,
        st.none() | OFFSETS,
        st.booleans(),
    ),
    unique_by=lambda it: it[:3],
)


@given(STANDS)
def test_what_is_packed_comes_back_in_order(stands):
    """A look comes back sorted, in whatever order it was given; equal positions are equal text."""
    look = GroupLook.of(7, stands, ["b", "a"])
    assert sorted(stands) == list(look.stands)
    assert (look, ("a", "b")) == (GroupLook.of(7, reversed(stands), ["a", "b"]), look.unseen)


def test_a_look_is_small():
    """20 groups of 50 partitions that read at about the same place take some bytes for each position."""
    stands = [
        Stand(f"g{g}", "t", p, "A.t", "id", 10**9 + p, 10**9 + p, True) for g in range(20) for p in range(50)
    ]
    assert len(GroupLook.of(7, stands).positions) < 10 * len(stands)


@pytest.mark.parametrize("text", ["", "x", "eJw=", "eJyrBQAAewB7"])
def test_what_nobody_wrote_is_an_error(text):
    """No group is placed by half a look."""
    with pytest.raises(FormatError):
        list(GroupLook(7, text).stands)
