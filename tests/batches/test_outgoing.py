"""Stretches of offsets, three numbers each."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twinlog.batches.outgoing import Stretches

PAIRS = st.lists(st.tuples(st.integers(1, 1 << 40), st.integers(1, 1 << 20)), min_size=1, max_size=9)


@given(st.lists(PAIRS, min_size=1, max_size=4))
def test_stretches_are_what_they_were_made_of(batches: list[list[tuple[int, int]]]) -> None:
    """Of one batch, or of several at once; each begins anew."""
    at, placed = 0, []
    for pairs in batches:
        mine = []
        for skipped, length in pairs:
            mine.append((at + skipped, length))
            at += skipped + length
        placed.append(Stretches.of(mine))
        assert (mine, mine[0][0], at, len(mine)) == (
            [*placed[-1]],
            placed[-1].first,
            placed[-1].end,
            len(placed[-1]),
        )
    rows = [pair for made in placed for pair in made]
    edges = [sum(map(len, batches[:n])) for n in range(len(batches) + 1)]
    assert placed == [*Stretches.cut(*np.array(rows).T, edges)]
