"""Pieces copied many at once are the pieces copied one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.columns import copy_pieces

SIZES = st.integers(0, 70) | st.sampled_from([127, 128, 129, 1000, 4095, 4096, 4097, 9000])


@given(st.lists(st.tuples(st.integers(0, 5), SIZES, st.integers(0, 3)), max_size=30))
def test_every_piece_arrives_and_nothing_else_changes(plan: list[tuple[int, int, int]]) -> None:
    """Pieces of any size, with gaps of any size between them on either side, and none behind the last."""
    source = bytes(number % 251 for number in range(sum(gap + size for gap, size, _ in plan)))
    expected = bytearray(sum(size + room for _, size, room in plan))
    starts, ends, places = [], [], []
    start = place = 0
    for gap, size, room in plan:
        start, place = start + gap, place + room
        expected[place : place + size] = source[start : start + size]
        starts.append(start)
        ends.append(start + size)
        places.append(place)
        start, place = start + size, place + size
    into = memoryview(bytearray(len(expected)))
    as_array = [np.array(column, np.int64) for column in (starts, ends, places)]
    copy_pieces(memoryview(source), as_array[0], as_array[1], into, as_array[2])
    assert bytes(expected) == bytes(into)


@pytest.mark.parametrize(("start", "place"), [(95, 0), (0, 95)])
def test_nothing_is_read_or_written_beyond_a_buffer(start: int, place: int) -> None:
    """Ten bytes that would reach five beyond the end of either."""
    column = [np.array([value], np.int64) for value in (start, start + 10, place)]
    with pytest.raises(IndexError):
        copy_pieces(memoryview(bytes(100)), column[0], column[1], memoryview(bytearray(100)), column[2])
