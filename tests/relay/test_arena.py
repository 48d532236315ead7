"""Memory used again: never two buffers in one place at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.relay.arena import Arena


@given(st.lists(st.lists(st.integers(0, 200), max_size=8), max_size=6))
def test_buffers_between_two_resets_do_not_overlap(rounds: list[list[int]]) -> None:
    """Each keeps what was written to it, whatever else is handed out."""
    arena = Arena()
    for sizes in rounds:
        buffers = [arena.allocate(size) for size in sizes]
        for number, buffer in enumerate(buffers):
            buffer[:] = bytes([number]) * len(buffer)
        assert [bytes([number]) * size for number, size in enumerate(sizes)] == [bytes(it) for it in buffers]
        arena.reset()


def test_memory_is_used_again() -> None:
    """From the second round on, of the same size or less."""
    arena = Arena()
    arena.allocate(100)
    arena.reset()
    first = arena.allocate(60)
    arena.reset()
    assert first.obj is arena.allocate(100).obj
