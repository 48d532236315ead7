"""Find where a copy goes on if its next record is not the source's next one.  Pure.

The copy's next records are looked for, by their fingerprints, where it costs least: around the place in the source,
where hints put them, further back, further on.  Fingerprints are an index alone: the walk compares the records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinlog.batches.columns import Int64s
from twinlog.observe.likeness import WEAKER
from twinlog.observe.side import BACK, NOTHING_BEHIND, Chunk, Place, Side

PROBE = 64
"""Records of the copy that are looked for at once."""

MOST_LEFT = 2
"""Places that are remembered at which the copy may go on again."""

FAR = 2_000_000
"""Offsets of the source, back and on, within which a copy is looked for that does not go on nearby."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """The copy goes on `behind` that many records without counterpart, at the source record `upstream`."""

    behind: int
    upstream: int


def window(side: Side, offset: int, limit: int = PROBE, end: int = NOTHING_BEHIND) -> list[Place]:
    """Return the next records of a side from an offset on, those before `end`."""
    places: list[Place] = []
    while len(places) < limit and (place := side.at(offset)) is not None and place.offset < end:
        rows = range(place.row, min(len(place.chunk.columns), place.row + limit - len(places)))
        places += [it for row in rows if (it := Place(place.chunk, row)).offset < end]
        offset = places[-1].offset + 1
    return places


@dataclass(slots=True)
class Search:
    """Looks in `source` for what the copy holds; `hints` are (upstream, downstream) that an engine tells of.

    `left` are places that the copy went on far from: of two engines that copy at once, each goes on there again.
    `in_vain` counts the looks far away that have found nothing since the last that did.
    """

    source: Side
    hints: Sequence[tuple[int, int]]
    left: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_LEFT))
    in_vain: int = 0

    def near(self, copy: Sequence[Place], upstream: int, ignored: int) -> Meeting | None:
        """Look around the place in the source; of several candidates take the next one, else the last before it."""
        probes = _prints(copy, ignored)
        found = _first(self.source.around(upstream), probes, upstream, ignored)
        return found if found is None or found.upstream >= upstream else self._earlier(found, probes, ignored)

    def far(self, copy: Sequence[Place], upstream: int, ignored: int) -> Meeting | None:
        """Look where the copy was left, and where hints put it, then further and further back and on."""
        probes = _prints(copy, ignored)
        for chunks in self._elsewhere(copy[0].offset, upstream):
            found = _first(chunks, probes, upstream, ignored)
            if found is not None:
                self.left.append(upstream)
                self.in_vain = 0
                return self._earlier(found, probes, ignored)
        self.in_vain += 1
        return None

    def _earlier(self, found: Meeting, probes: Int64s, ignored: int) -> Meeting:
        """Look right before a meeting for the records that had no counterpart: it may be the first that was read."""
        if not found.behind:
            return found
        before = self._span(found.upstream - BACK, found.upstream)
        return _first(before, probes[: found.behind], found.upstream, ignored) or found

    def weaker(self, copy: Sequence[Place], upstream: int, ignored: int) -> int | None:
        """Return fields without which at least half of the copy's next records are found nearby; None for none."""
        chunks = self.source.around(upstream)
        for fields in WEAKER:
            probes = _prints(copy, ignored | fields)
            known = np.concatenate([chunk.prints(ignored | fields) for chunk in chunks] or [probes[:0]])
            if 2 * int((np.isin(probes, known) & (probes != 0)).sum()) >= len(probes):
                return fields
        return None

    def _elsewhere(self, downstream: int, upstream: int) -> Iterator[Iterable[Chunk]]:
        at = bisect_right(self.hints, downstream, key=lambda it: it[1]) - 1
        hinted = [self.hints[at][0] + downstream - self.hints[at][1]] if at >= 0 else []
        for place in (*reversed(self.left), *hinted, downstream):
            yield self._span(place, place + BACK)
        before, behind, step = upstream, upstream, BACK
        while before > 0 or behind < upstream + FAR:
            start, end = max(0, before - step), behind + step
            yield self._span(start, before)
            yield self._span(behind, end)
            if end > upstream + FAR:
                return
            before, behind, step = start, end, 2 * step

    def _span(self, start: int, end: int) -> Iterator[Chunk]:
        for chunk in self.source.scan(max(0, start)):
            if chunk.begin >= end:
                break
            yield chunk
        self.source.forget_ahead()


def _prints(copy: Sequence[Place], ignored: int) -> Int64s:
    return np.array([it.chunk.prints(ignored)[it.row] for it in copy], np.int64)


def _first(chunks: Iterable[Chunk], probes: Int64s, upstream: int, ignored: int) -> Meeting | None:
    """Return the first record of the copy that a chunk has, and the best of its places."""
    best: tuple[int, bool, int] | None = None
    for chunk in chunks:
        made, order = chunk.index(ignored)
        ordered = made[order]
        left: Int64s = np.searchsorted(ordered, probes)
        right: Int64s = np.searchsorted(ordered, probes, side="right")
        rows = np.flatnonzero((left < right) & (probes != 0))
        if not len(rows) or (best is not None and rows[0] > best[0]):
            continue
        behind = int(rows[0])
        for offset in chunk.columns.offsets[order[left[behind] : right[behind]]].tolist():
            before = offset < upstream
            better = behind, before, -offset if before else offset
            best = better if best is None else min(best, better)
    return None if best is None else Meeting(best[0], abs(best[2]))
