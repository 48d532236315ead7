"""Keep where each record's last copy lies, and close what no engine falls back behind any more.  Pure.

    source    a b c d e
    copy      a b c d | c d e        restarted behind b
    extents   a b to 0 1, c d e to 4 5 6: the first copies of c and d are superseded

A map rises on both sides, and a reader who is placed by it must not miss a record.  So a record whose last copy lies
behind that of a later record is in no extent: its reader goes on at the later record's copy, and meets it there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from twinlog.batches.columns import Int64s
from twinlog.observe.values import Stretch
from twinlog.offsets.segments import Extent, MapSegment

RUNS_PER_SEGMENT = 4_000
MOST_OPEN = 20_000
"""Extents that are handed on to the next increment; where there are more, the oldest are never closed."""


MOST_HELD = 10 * MOST_OPEN
"""Extents that are held while an increment is walked: a worker stays small however many transactions it reads."""


class LastCopies:
    """The extents that are not closed yet, in the order of their upstream offsets; `forgotten` are stretches of them.

    If there are too many, the oldest are forgotten: their places are unknown then, never wrong.
    """

    def __init__(self, open_: Iterable[Extent]) -> None:
        self.open = list(open_)
        self.forgotten: set[Stretch] = set()

    def add(self, upstream: Int64s, downstream: Int64s) -> None:
        """Note copies in the order of the log: both columns rise."""
        edges = np.flatnonzero((np.diff(upstream) != 1) | (np.diff(downstream) != 1)) + 1
        starts = np.concatenate(([0], edges))
        lengths = np.diff(starts, append=len(upstream))
        rows = zip(upstream[starts].tolist(), downstream[starts].tolist(), lengths.tolist(), strict=True)
        for row in rows:
            self._put(Extent(*row))
        if len(self.open) > MOST_HELD:
            self.shorten(MOST_HELD // 2)

    def close(self, downstream: int) -> tuple[Extent, ...]:
        """Take away, and return, what no longer changes: extents from the first on whose copies lie before an offset.

        Records that a reader of the map must not be placed at are in none of them.  Where that is due to a later record
        that may yet be copied again, nothing is closed.
        """
        end = next(
            (
                it.upstream + max(0, downstream - it.downstream)
                for it in self.open
                if it.downstream_end > downstream
            ),
            self.open[-1].upstream_end if self.open else 0,
        )
        risen: list[Extent] = []
        lowest = lowest_closed = 1 << 63
        for extent in reversed(self.open):
            length = max(0, min(extent.length, lowest - extent.downstream))
            if extent.upstream + length < min(end, extent.upstream_end) and lowest < lowest_closed:
                end, risen, lowest_closed = extent.upstream + length, [], 1 << 63
            length = min(length, end - extent.upstream)
            if length > 0:
                risen.append(Extent(extent.upstream, extent.downstream, length))
                lowest_closed = extent.downstream
            lowest = min(lowest, extent.downstream)
        self.open = [_part(it, end, it.upstream_end) for it in self.open if it.upstream_end > end]
        return tuple(reversed(risen))

    def shorten(self, most: int = MOST_OPEN) -> None:
        """Forget the oldest extents beyond so many."""
        surplus = len(self.open) - most
        if surplus > 0:
            self.forgotten.add((self.open[0].upstream, self.open[surplus - 1].upstream_end))
            del self.open[:surplus]

    def _put(self, it: Extent) -> None:
        """Put an extent over those it supersedes."""
        first = len(self.open)
        behind = first
        if self.open and self.open[-1].upstream_end > it.upstream:
            first = bisect_left(self.open, it.upstream + 1, key=lambda one: one.upstream_end)
            behind = bisect_left(self.open, it.upstream_end, key=lambda one: one.upstream)
        covered = self.open[first:behind]
        before = [_part(one, one.upstream, it.upstream) for one in covered[:1] if one.upstream < it.upstream]
        after = [
            _part(one, it.upstream_end, one.upstream_end)
            for one in covered[-1:]
            if one.upstream_end > it.upstream_end
        ]
        last = before[-1] if before else self.open[first - 1] if first else None
        if last is not None and (last.upstream_end, last.downstream_end) == (it.upstream, it.downstream):
            it = Extent(last.upstream, last.downstream, last.length + it.length)
            before, first = [], first - (not before)
        self.open[first:behind] = [*before, it, *after]


def segments(
    first: int, end: int, runs: tuple[Extent, ...], unknown: Iterable[Stretch]
) -> tuple[MapSegment, ...]:
    """Cut final extents into segments that cover the upstream offsets [first, end) but for what is unknown."""
    made: list[MapSegment] = []
    # What is copied again after it was closed keeps the place it has.
    runs = tuple(_part(run, first, end) for run in runs if run.upstream_end > first)
    holes = sorted(it for it in unknown if it[1] > first and it[0] < end)
    for hole_start, hole_end in [*holes, (end, end)]:
        inside = [run for run in runs if first <= run.upstream < hole_start]
        while first < hole_start:
            part, inside = inside[:RUNS_PER_SEGMENT], inside[RUNS_PER_SEGMENT:]
            stop = inside[0].upstream if inside else hole_start
            made.append(MapSegment(first, stop, tuple(part)))
            first = stop
        first = max(first, hole_end)
    return tuple(made)


def _part(it: Extent, start: int, end: int) -> Extent:
    """Return the part of an extent with upstream offsets [start, end)."""
    start, end = max(start, it.upstream), min(end, it.upstream_end)
    return Extent(start, it.downstream + start - it.upstream, end - start)
