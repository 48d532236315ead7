"""What was fetched stays where it is for as long as a lane needs it."""

from __future__ import annotations

from twinlog.relay.fetcher import _Buffers


def test_an_answer_lost_half_way_takes_no_turn() -> None:
    """Else the next one would be read over the answer before it, which may still be under way to the target."""
    buffers = _Buffers(2)
    taken = buffers.allocate(100_000)
    taken[:] = b"x" * len(taken)
    buffers.turn()
    buffers.allocate(100_000)  # and its connection was lost
    buffers.allocate(100_000)[:] = b"y" * len(taken)
    assert b"x" * len(taken) == taken


def test_buffers_have_their_turns() -> None:
    """An answer is kept while the next is read, and its memory used again by the one after that."""
    buffers = _Buffers(2)
    places = []
    for _ in range(4):
        places.append(id(buffers.allocate(1000).obj))
        buffers.turn()
    assert places[:2] == places[2:]
    assert places[0] != places[1]
