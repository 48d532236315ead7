"""The exact offset map of one partition: which downstream offset every copied upstream offset has.

The law, both ways: a reader who has read everything before offset u on one side goes on, on the other side, at
the copy of the first copied record at or after u; when every copied record lies before u, right behind the last.

The law needs to know what became of every offset from u to that record.  Between two pieces there may be a hole:
upstream offsets that no piece covers, because somebody else copied there (MM2 before a take-over, or between two
of our runs), or nobody did.  A reader whose next record may lie in a hole goes on right behind the last copied
record before it: it may see records again, it never misses one, and the translation is not called exact.

Inside are sorted columns: one row a run, one row a covered stretch, neighbours joined, searched by bisection.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from twinlog.errors import TerminalError
from twinlog.offsets.piece import MapSegment
from twinlog.offsets.piece_table import Column, Flags, SegmentTable
from twinlog.offsets.run import Extent


@dataclass(frozen=True, slots=True)
class Translation:
    """Where to go on at the other side.

    `exact` is false where the map does not know what became of the next record: below its oldest piece (`offset` is
    then the oldest that is mapped) and in a hole (the end of what is mapped before it).  `ahead` is true when the
    reader was beyond the copy: it goes on at the end of the copy, and will see again what it had read beyond it.
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
        """Take one out."""
        return Translation(int(self.offset[row]), bool(self.exact[row]), bool(self.ahead[row]))


@dataclass(frozen=True, slots=True, eq=False)
class OffsetMap:
    """All runs of one partition, and the stretches [covered_from, covered_to) of upstream offsets they are all of.

    Immutable; make one with `of`, extend it with `add`.  Callers that know the target's log bounds hold
    translations within them: the map knows only what was copied.
    """

    upstream: Column
    downstream: Column
    length: Column
    covered_from: Column
    covered_to: Column

    @classmethod
    def of(cls, pieces: Iterable[MapSegment]) -> OffsetMap:
        """Join pieces, in any order.

        A piece that repeats what others say is fine (joined pieces may stand beside the ones they replace).
        Raises TerminalError when two pieces contradict each other.
        """
        return cls.joined(SegmentTable.of(list(pieces)))

    @classmethod
    def joined(cls, table: SegmentTable) -> OffsetMap:
        """Join pieces that are columns already.  Raises as `of`."""
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
        """Make the map that also knows `piece`: one that follows the map, lies in a hole, or repeats a part of it.

        Raises TerminalError when it says otherwise than the map does, or reaches into it.
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
        """Make the map that knows of upstream offsets [first, end) that nothing in them was or will be copied.

        Only what no piece covers is taken from a gap.
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
        """Translate a committed upstream offset to the target; None when no record was ever mapped."""
        return self.translate_many([upstream]).one(0) if len(self.length) else None

    def reverse(self, downstream: int) -> Translation | None:
        """Translate a committed downstream offset back to the source; None when no record was ever mapped."""
        return self.reverse_many([downstream]).one(0) if len(self.length) else None

    def translate_many(self, upstream: Sequence[int] | Column) -> Translations:
        """Translate many upstream offsets at once.  The map must have runs."""
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
        # Behind the last run is exact when every offset from there on is known to hold nothing, up to the reader.
        known_from = np.where(stretch >= 0, self.covered_from[np.maximum(stretch, 0)], 0)
        nothing_skipped = self.upstream[after - 1] + self.length[after - 1] >= known_from
        behind_all = ((wanted <= known_to) | ahead) & nothing_skipped
        exact = inside | connected | (~first & (behind_all | nothing_between))
        return Translations(result, exact, ahead)

    def reverse_many(self, downstream: Sequence[int] | Column) -> Translations:
        """Translate many downstream offsets back at once.  The map must have runs."""
        wanted = np.asarray(downstream, dtype=np.int64)
        after = np.searchsorted(self.downstream, wanted, side="right")
        inside, offset = _in_run(self.downstream, self.upstream, self.length, wanted, after)
        next_run = np.minimum(after, len(self.length) - 1)
        behind = self.upstream[after - 1] + self.length[after - 1]
        # What was copied between the two runs is known when one stretch holds the end of one and the other's begin.
        stretch = np.searchsorted(self.covered_from, behind, side="right") - 1
        connected = (after < len(self.length)) & (self.upstream[next_run] < self.covered_to[stretch])
        first = after == 0
        result = np.select([inside, connected | first], [offset, self.upstream[next_run]], default=behind)
        end = self.end_downstream
        last_read = self.downstream[after - 1] + self.length[after - 1]
        exact = inside | (~first & (connected | (wanted == last_read) | (after == len(self.length))))
        return Translations(result, exact, wanted > end)

    def covers_all(self, first: int, end: int) -> bool:
        """Whether the map knows what became of every upstream offset in [first, end)."""
        return bool(((self.covered_from <= first) & (self.covered_to >= end)).any())

    @property
    def first_upstream(self) -> int:
        """Where the oldest stretch begins; 0 for an empty map."""
        return int(self.covered_from[0]) if len(self.covered_from) else 0

    @property
    def end_downstream(self) -> int:
        """Where the newest run ends on the target; 0 for a map without runs."""
        return int(self.downstream[-1] + self.length[-1]) if len(self.length) else 0

    @property
    def end_upstream(self) -> int:
        """Where the newest stretch ends: the end of the copy; 0 for an empty map."""
        return int(self.covered_to[-1]) if len(self.covered_to) else 0

    @property
    def records(self) -> int:
        """Number of records mapped."""
        return int(self.length.sum())

    @property
    def runs(self) -> tuple[Extent, ...]:
        """All runs, in order, no two of which continue each other."""
        columns = (self.upstream.tolist(), self.downstream.tolist(), self.length.tolist())
        return tuple(Extent(*row) for row in zip(*columns, strict=True))

    @property
    def pieces(self) -> tuple[MapSegment, ...]:
        """The whole map, one piece a covered stretch."""
        bounds = zip(self.covered_from.tolist(), self.covered_to.tolist(), strict=True)
        return tuple(MapSegment(first, end, self._cut(first, end)) for first, end in bounds)

    def check(self) -> None:
        """Raise TerminalError, showing the map, unless its runs are sorted, apart, joined and inside its stretches."""
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
        """Take the parts of runs that lie in upstream offsets [first, end)."""
        start = int(np.searchsorted(self.upstream + self.length, first, side="right"))
        stop = int(np.searchsorted(self.upstream, end, side="left"))
        low = np.maximum(self.upstream[start:stop], first)
        high = np.minimum((self.upstream + self.length)[start:stop], end)
        shift = (self.downstream - self.upstream)[start:stop]
        rows = zip(low.tolist(), (low + shift).tolist(), (high - low).tolist(), strict=True)
        return tuple(Extent(*row) for row in rows)

    def _first_wrong(self, skipped: Column, jumped: Column) -> int:
        """Upstream offset of the first run that overlaps the one before it, or lies before it, on either side."""
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
    """Say which offsets lie in the run before `after`, and where they are on the other side."""
    beyond = wanted - froms[after - 1]
    return (after > 0) & (beyond < length[after - 1]), tos[after - 1] + beyond


def _continued(upstream: Column, downstream: Column, length: Column) -> tuple[Column, Column, Column]:
    """Make one run of those that continue one another."""
    skipped = upstream[1:] != (upstream + length)[:-1]
    jumped = downstream[1:] != (downstream + length)[:-1]
    starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(length)), dtype=bool), skipped | jumped)))
    joined = np.add.reduceat(length, starts) if starts.size else length
    return upstream[starts], downstream[starts], joined


def _stretches(first: Column, end: Column) -> tuple[Column, Column]:
    """Make one stretch of pieces, in order, that follow one another without a hole."""
    apart = first[1:] != end[:-1]
    begins = np.concatenate((np.ones(min(1, len(first)), dtype=bool), apart))
    ends = np.concatenate((apart, np.ones(min(1, len(first)), dtype=bool)))
    return first[begins], end[ends]
