"""Memory used again: never two buffers in one place while both are valid."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.build import MOST_BYTES, Arena


@given(st.lists(st.lists(st.integers(0, 200), max_size=8), max_size=6))
def test_buffers_are_valid_until_the_second_reset(rounds: list[list[int]]) -> None:
    """Each keeps what was written to it, whatever else is handed out."""
    arena = Arena()
    before: list[tuple[memoryview, bytes]] = []
    for number, sizes in enumerate(rounds):
        now = []
        for place, size in enumerate(sizes):
            buffer, written = arena.allocate(size), bytes([number * 10 + place]) * size
            buffer[:] = written
            now.append((buffer, written))
        for buffer, written in before + now:
            assert written == buffer
        arena.reset()
        before = now


def test_memory_is_used_again() -> None:
    """Both halves in turn; only what they cannot hold gets memory of its own."""
    arena = Arena()
    places = []
    for _ in range(4):
        places.append(arena.allocate(60).obj)
        arena.reset()
    assert [id(it) for it in places[:2]] == [id(it) for it in places[2:]]
    first = arena.allocate(MOST_BYTES).obj
    assert arena.allocate(1).obj is not first
