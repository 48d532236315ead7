"""Offset syncs are due when MM2 would have written them."""

import itertools
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from strategies import small_pieces
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.offsets.sync_emission import MANY, due_syncs, holds


def mm2(known: OffsetMap, last: tuple[int, int] | None, lag: int) -> list[tuple[int, int]]:
    """Record by record, as MM2's OffsetSyncWriter does, and the last one as the task commits."""
    records = [(run.upstream + i, run.downstream + i) for run in known.runs for i in range(run.length)]
    due, (previous, synced) = [], last or (-1, -1)
    for up, down in records:
        if last is not None and up <= last[0]:
            continue
        if synced == -1 or down - (synced + 1) >= lag or up - previous != 1:
            due.append((up, down))
            synced = down
        previous = up
    newest = records[-1]
    return due if due[-1:] == [newest] or last == newest else [*due, newest]


@given(small_pieces.filter(lambda piece: piece.runs), st.integers(0, 5), st.data())
def test_they_are_those_of_mm2(piece, lag, data):
    """From the beginning, and going on behind any record, with or without more records since."""
    known = OffsetMap.of([piece])
    records = [(run.upstream + i, run.downstream + i) for run in known.runs for i in range(run.length)]
    assert mm2(known, None, lag) == due_syncs(known, None, lag)
    last = data.draw(st.sampled_from(records))
    assert mm2(known, last, lag) == due_syncs(known, last, lag)


@given(small_pieces.filter(lambda piece: piece.runs), st.integers(0, 5))
def test_nothing_is_due_twice(piece, lag):
    """The step may run as often as one likes."""
    known = OffsetMap.of([piece])
    assert due_syncs(known, due_syncs(known, None, lag)[-1], lag) == []


def test_many_are_thinned_out_towards_the_past():
    """Ten million records at once: few syncs, dense at the end, each a record of the map, the first and last kept."""
    known = OffsetMap.of([MapSegment(0, 10_000_000, (Extent(0, 5, 10_000_000),))])
    due = due_syncs(known, None, 100)
    assert (len(due) < 100, due[0], due[-1]) == (True, (0, 5), (9_999_999, 10_000_004))
    assert all(down == up + 5 for up, down in due)
    distances = [9_999_999 - up for up, _ in due]
    assert all(one <= 2 * next_one + 202 for one, next_one in itertools.pairwise(distances))
    alternating = OffsetMap.of([MapSegment(0, 200_000, tuple(Extent(2 * i, i, 1) for i in range(100_000)))])
    assert len(due_syncs(alternating, None, 100)) < MANY


def test_a_sync_for_every_record_costs_what_is_kept_of_them():
    """A first cycle over a large topic with `offset.lag.max=0` must not hold one of each record."""
    known = OffsetMap.of([MapSegment(0, 10**8, (Extent(0, 0, 10**7), Extent(5 * 10**7, 10**7 + 3, 10**7)))])
    tracemalloc.start()
    due = due_syncs(known, None, 0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert ((0, 0), (6 * 10**7 - 1, 2 * 10**7 + 2)) == (due[0], due[-1])
    assert all(holds(known, pair) for pair in due)
    assert (True, True) == (len(due) < MANY, peak < 1 << 20)


def test_a_topic_made_anew_begins_anew():
    """A sync from beyond the map's end is of another life."""
    known = OffsetMap.of([MapSegment(0, 3, (Extent(0, 70, 3),))])
    assert due_syncs(known, (500, 60), 100) == [(0, 70), (2, 72)]
    assert due_syncs(OffsetMap.of([]), None, 100) == []
