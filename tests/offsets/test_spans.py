"""Stretches of offsets: what is left of some without others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.offsets.spans import Spans

stretches = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=5)


def offsets_in(bounds: list[tuple[int, int]]) -> set[int]:
    return {offset for first, length in bounds for offset in range(first, first + length)}


def spans(bounds: list[tuple[int, int]]) -> Spans:
    return Spans.joined(Spans.between(first, first + length) for first, length in bounds)


@given(stretches, stretches)
def test_without(ours: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    """It holds each offset that is in one of these, and in none of the others."""
    left = spans(ours).without(spans(others))
    assert offsets_in(ours) - offsets_in(others) == {it for it in range(50) if left.has(it)}
