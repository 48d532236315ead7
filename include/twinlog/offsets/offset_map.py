"""Map every copied upstream offset of one partition to its downstream offset, exactly.

The law, in both directions: a reader has read everything before offset u on one side.  On the other side it goes on at
the copy of the first copied record at or after u; if every copied record lies before u, right behind the last copy.

    upstream     10 11 12  .  . 15 16 | uncovered | 30 31     13 and 14: known to hold no copied record
    downstream   70 71 72       73 74 |           | 80 81

    reader at 12   ->  72, exact
    reader at 14   ->  73, exact       the first copied record at or after 14 is 15
    reader at 20   ->  75, not exact   the next record may be uncovered: right behind the last copy before it
    reader at 40   ->  82, ahead       beyond the copy: at its end

The law needs to know what happened to every offset from u to that record.  Between two map segments there may be
upstream offsets that no segment covers.  Either another process copied there (MM2 before a migration, or between two
of our own copies), or none did.  If the next record of a reader may lie there, the reader goes on right behind the
last copied record before: it may see records again but never misses one, and the translation is not exact.

The map is stored as sorted columns: one row an extent, one row a covered stretch.  Neighbours are joined, and lookups
use bisection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from twinlog.errors import TerminalError
from twinlog.offsets.segments import Column, Extent, Flags, MapSegment, SegmentTable


@dataclass(frozen=True, slots=True)
class Translation:
    """The offset at which a reader goes on, on the other side.

    `exact` is false if the map does not know what happened to the reader's next record: below its oldest segment
    (`offset` is then the oldest mapped offset), or in an uncovered stretch (`offset` is then the end of the mapped
    part before it).  `ahead` is true if the reader was beyond the copy: it goes on at the copy's end, and will see
    again the records that it had read beyond it.
    """

    offset: int
    exact: bool
    ahead: bool


@dataclass(frozen=True, slots=True, eq=False)
class Translations:
    """Many translations, as columns in the order of the question."""

    offset: Column
    exact: Flags
    ahead: Flags

    def one(self, row: int) -> Translation:
        """Return one translation."""
        return Translation(int(self.offset[row]), bool(self.exact[row]), bool(self.ahead[row]))


@dataclass(frozen=True, slots=True, eq=False)
class OffsetMap:
    """All extents of one partition, and the stretches [covered_from, covered_to) of upstream offsets that they cover.

    Immutable; make one with `of`, extend it with `add`.  Callers that know the bounds of the target's log keep
    translations within them: the map knows only what was copied.
    """

    upstream: Column
    downstream: Column
    length: Column
    covered_from: Column
    covered_to: Column

    @classmethod
    def of(cls, pieces: Iterable[MapSegment]) -> OffsetMap:
        """Join segments, in any order.

        A segment may repeat others (a joined segment may stand beside those that it replaces).  Raises TerminalError
        if two segments contradict each other.
        """
        return cls.joined(SegmentTable.of(list(pieces)))

    @classmethod
    def joined(cls, table: SegmentTable) -> OffsetMap:
        """Join segments that are already columns.  Raises as `of`."""
        order = np.lexsort((-table.end, table.first))
        order = order[table.first[order] < table.end[order]]
        reached = np.maximum.accumulate(table.end[order]) if order.size else order
        new = np.ones(order.size, dtype=bool)
        new[1:] = table.first[order][1:] >= reached[:-1]
        chosen = table.take(order[new])
        runs = _continued(chosen.upstream, chosen.downstream, chosen.length)
        result = cls(*runs, *_stretches(chosen.first, chosen.end))
        result.check()
        for row in order[~new].tolist():
            result = result.add(table.piece(row))
        return result

    def add(self, piece: MapSegment) -> OffsetMap:
        """Return the map with `piece` added: a segment behind the map, between its stretches, or equal to a part.

        Raises TerminalError if the segment contradicts the map, or overlaps it only in part.
        """
        first, end = piece.first_upstream, piece.end_upstream
        if first == end:
            return self
        touching = (self.covered_from < end) & (self.covered_to > first)
        if not touching.any():
            return self._with(piece)
        if not self.covers_all(first, end):
            self._fail(f"overlaps the piece [{first}, {end}) only in part", first)
        if OffsetMap.of([piece]).runs != self._cut(first, end):
            self._fail(f"contradicts the piece [{first}, {end})", first)
        return self

    def _with(self, piece: MapSegment) -> OffsetMap:
        added = SegmentTable.of([piece])
        upstream = np.concatenate((self.upstream, added.upstream))
        order = np.argsort(upstream, kind="stable")
        downstream = np.concatenate((self.downstream, added.downstream))[order]
        length = np.concatenate((self.length, added.length))[order]
        firsts = np.concatenate((self.covered_from, added.first))
        ends = np.concatenate((self.covered_to, added.end))
        by_first = np.argsort(firsts)
        runs = _continued(upstream[order], downstream, length)
        result = OffsetMap(*runs, *_stretches(firsts[by_first], ends[by_first]))
        result.check()
        return result

    def with_gaps(self, gaps: Iterable[tuple[int, int]]) -> OffsetMap:
        """Return the map with upstream offsets [first, end) of `gaps` covered: no record there was or will be copied.

        Only offsets that no segment covers are taken from a gap.
        """
        stretches = [*zip(self.covered_from.tolist(), self.covered_to.tolist(), strict=True), *gaps]
        firsts: list[int] = []
        ends: list[int] = []
        for first, end in sorted(stretches):
            if ends and first <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            elif first < end:
                firsts.append(first)
                ends.append(end)
        covered = (np.array(firsts, dtype=np.int64), np.array(ends, dtype=np.int64))
        return replace(self, covered_from=covered[0], covered_to=covered[1])

    def translate(self, upstream: int) -> Translation | None:
        """Translate a committed upstream offset to the target; None if no record was ever mapped."""
        return self.translate_many([upstream]).one(0) if len(self.length) else None

    def reverse(self, downstream: int) -> Translation | None:
        """Translate a committed downstream offset back to the source; None if no record was ever mapped."""
        return self.reverse_many([downstream]).one(0) if len(self.length) else None

    def translate_many(self, upstream: Sequence[int] | Column) -> Translations:
        """Translate many upstream offsets at once.  The map must have extents."""
        wanted = np.asarray(upstream, dtype=np.int64)
        after = np.searchsorted(self.upstream, wanted, side="right")
        inside, offset = _in_run(self.upstream, self.downstream, self.length, wanted, after)
        stretch = np.searchsorted(self.covered_from, wanted, side="right") - 1
        known_to = np.where(stretch >= 0, self.covered_to[np.maximum(stretch, 0)], -1)
        next_run = np.minimum(after, len(self.length) - 1)
        connected = (after < len(self.length)) & (self.upstream[next_run] < known_to)
        behind = self.downstream[after - 1] + self.length[after - 1]
        nothing_between = (after < len(self.length)) & (behind == self.downstream[next_run])
        first = after == 0
        choices = [offset, self.downstream[next_run]]
        result = np.select([inside, connected | first], choices, default=behind)
        ahead = wanted > self.end_upstream
        # Behind the last extent is exact if every offset from there up to the reader is known to hold no record.
        known_from = np.where(stretch >= 0, self.covered_from[np.maximum(stretch, 0)], 0)
        nothing_skipped = self.upstream[after - 1] + self.length[after - 1] >= known_from
        behind_all = ((wanted <= known_to) | ahead) & nothing_skipped
        exact = inside | connected | (~first & (behind_all | nothing_between))
        return Translations(result, exact, ahead)

    def reverse_many(self, downstream: Sequence[int] | Column) -> Translations:
        """Translate many downstream offsets back at once.  The map must have extents."""
        wanted = np.asarray(downstream, dtype=np.int64)
        after = np.searchsorted(self.downstream, wanted, side="right")
        inside, offset = _in_run(self.downstream, self.upstream, self.length, wanted, after)
        next_run = np.minimum(after, len(self.length) - 1)
        behind = self.upstream[after - 1] + self.length[after - 1]
        # The part between two extents is known if one stretch holds the end of the first and the begin of the second.
        stretch = np.searchsorted(self.covered_from, behind, side="right") - 1
        connected = (after < len(self.length)) & (self.upstream[next_run] < self.covered_to[stretch])
        first = after == 0
        result = np.select([inside, connected | first], [offset, self.upstream[next_run]], default=behind)
        end = self.end_downstream
        last_read = self.downstream[after - 1] + self.length[after - 1]
        exact = inside | (~first & (connected | (wanted == last_read) | (after == len(self.length))))
        return Translations(result, exact, wanted > end)

    def covers_all(self, first: int, end: int) -> bool:
        """Say whether the map knows what happened to every upstream offset in [first, end)."""
        return bool(((self.covered_from <= first) & (self.covered_to >= end)).any())

    @property
    def first_upstream(self) -> int:
        """Return the upstream offset at which the oldest stretch begins; 0 for an empty map."""
        return int(self.covered_from[0]) if len(self.covered_from) else 0

    def first_upstream_at(self, downstream: int) -> int:
        """Return the first upstream offset whose copy is at or after `downstream`; the map's end if there is none."""
        ends = self.downstream + self.length
        index = int(np.searchsorted(ends, downstream, side="right"))
        if index == len(ends):
            return self.end_upstream
        into = max(0, downstream - int(self.downstream[index]))
        first = int(self.upstream[index]) + into
        return first if index or into else self.first_upstream

    @property
    def end_downstream(self) -> int:
        """Return the downstream offset at which the newest extent ends; 0 for a map without extents."""
        return int(self.downstream[-1] + self.length[-1]) if len(self.length) else 0

    @property
    def end_upstream(self) -> int:
        """Return the upstream offset at which the newest stretch ends, the end of the copy; 0 for an empty map."""
        return int(self.covered_to[-1]) if len(self.covered_to) else 0

    @property
    def records(self) -> int:
        """Return the number of records mapped."""
        return int(self.length.sum())

    def records_between(self, start: int, end: int) -> int:
        """Count the records that are mapped at upstream offsets [start, end)."""
        low, high = np.maximum(self.upstream, start), np.minimum(self.upstream + self.length, end)
        return int(np.maximum(high - low, 0).sum())

    def first_at(self, upstream: int) -> tuple[int, int] | None:
        """Return both offsets of the first mapped record at or behind an upstream offset, None if there is none."""
        row = int(np.searchsorted(self.upstream + self.length, upstream, side="right"))
        if row == len(self.length):
            return None
        into = max(0, upstream - int(self.upstream[row]))
        return int(self.upstream[row]) + into, int(self.downstream[row]) + into

    @property
    def runs(self) -> tuple[Extent, ...]:
        """Return all extents, in order; no two of them continue each other."""
        columns = (self.upstream.tolist(), self.downstream.tolist(), self.length.tolist())
        return tuple(Extent(*row) for row in zip(*columns, strict=True))

    @property
    def pieces(self) -> tuple[MapSegment, ...]:
        """Return the whole map, as one segment for each covered stretch."""
        bounds = zip(self.covered_from.tolist(), self.covered_to.tolist(), strict=True)
        return tuple(MapSegment(first, end, self._cut(first, end)) for first, end in bounds)

    def check(self) -> None:
        """Raise TerminalError, with the map, unless its extents are sorted, apart, joined and within its stretches."""
        upstream_end, downstream_end = self.upstream + self.length, self.downstream + self.length
        skipped = self.upstream[1:] - upstream_end[:-1]
        jumped = self.downstream[1:] - downstream_end[:-1]
        if (self.length < 1).any() or (skipped < 0).any() or (jumped < 0).any():
            self._fail("has runs that overlap or are out of order", self._first_wrong(skipped, jumped))
        if ((skipped == 0) & (jumped == 0)).any():
            self._fail("has runs that continue each other", self.first_upstream)
        stretch = np.searchsorted(self.covered_from, self.upstream, side="right") - 1
        if (stretch < 0).any() or (self.covered_to[stretch] < upstream_end).any():
            self._fail("has runs outside its bounds", self.first_upstream)

    def _cut(self, first: int, end: int) -> tuple[Extent, ...]:
        """Return the parts of extents that lie in upstream offsets [first, end)."""
        start = int(np.searchsorted(self.upstream + self.length, first, side="right"))
        stop = int(np.searchsorted(self.upstream, end, side="left"))
        low = np.maximum(self.upstream[start:stop], first)
        high = np.minimum((self.upstream + self.length)[start:stop], end)
        shift = (self.downstream - self.upstream)[start:stop]
        rows = zip(low.tolist(), (low + shift).tolist(), (high - low).tolist(), strict=True)
        return tuple(Extent(*row) for row in rows)

    def _first_wrong(self, skipped: Column, jumped: Column) -> int:
        """Return the upstream offset of the first extent that is not behind the one before it, on either side."""
        wrong = np.flatnonzero((skipped < 0) | (jumped < 0))
        return int(self.upstream[wrong[0] + 1]) if wrong.size else self.first_upstream

    def _fail(self, why: str, upstream: int = 0) -> NoReturn:
        shown = f"[{self.first_upstream}, {self.end_upstream}) with {len(self.length)} runs"
        raise TerminalError(
            f"offset map {shown} {why}",
            hint="do not commit offsets from this map; audit the partition",
            code="offset-map",
            upstream=upstream,
            runs=[[run.upstream, run.downstream, run.length] for run in self.runs[:100]],
        )


def _in_run(
    froms: Column, tos: Column, length: Column, wanted: Column, after: Column
) -> tuple[Flags, Column]:
    """Return which offsets lie in the extent before `after`, and their offsets on the other side."""
    beyond = wanted - froms[after - 1]
    return (after > 0) & (beyond < length[after - 1]), tos[after - 1] + beyond


def _continued(upstream: Column, downstream: Column, length: Column) -> tuple[Column, Column, Column]:
    """Join extents that continue one another."""
    skipped = upstream[1:] != (upstream + length)[:-1]
    jumped = downstream[1:] != (downstream + length)[:-1]
    starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(length)), dtype=bool), skipped | jumped)))
    joined = np.add.reduceat(length, starts) if starts.size else length
    return upstream[starts], downstream[starts], joined


def _stretches(first: Column, end: Column) -> tuple[Column, Column]:
    """Join segments, given in order, that directly follow one another, into stretches."""
    apart = first[1:] != end[:-1]
    begins = np.concatenate((np.ones(min(1, len(first)), dtype=bool), apart))
    ends = np.concatenate((apart, np.ones(min(1, len(first)), dtype=bool)))
    return first[begins], end[ends]
