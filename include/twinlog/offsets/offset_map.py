"""The exact offset map of one partition: which downstream offset every copied upstream offset has.

The law, both ways: a reader who has read everything before offset u on one side goes on, on the other side, at
the copy of the first copied record at or after u; when every copied record lies before u, right behind the last.

Inside are three sorted columns, one row a run, neighbours joined, searched by bisection.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from twinlog.errors import TerminalError
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run

Column = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Translation:
    """Where to go on at the other side.

    `exact` is false below the oldest piece that is left: then `offset` is the oldest offset that is mapped.
    `ahead` is true when the reader was beyond the copy: it goes on at the end of the copy, and will see again
    what it had read beyond it.
    """

    offset: int
    exact: bool
    ahead: bool


@dataclass(frozen=True, slots=True, eq=False)
class OffsetMap:
    """All runs of one partition, covering upstream offsets [first_upstream, end_upstream).

    Immutable; make one with `of`, extend it with `add`.  Callers that know the target's log bounds hold
    translations within them: the map knows only what was copied.
    """

    first_upstream: int
    end_upstream: int
    upstream: Column
    downstream: Column
    length: Column

    @classmethod
    def of(cls, pieces: Iterable[MapPiece]) -> OffsetMap:
        """Join pieces, in any order.

        A piece that repeats what others say is fine (joined pieces may stand beside the ones they replace).
        Raises TerminalError when two pieces contradict each other.
        """
        covering = (piece for piece in pieces if piece.first_upstream < piece.end_upstream)
        longest_first = sorted(covering, key=lambda piece: (piece.first_upstream, -piece.end_upstream))
        new: list[MapPiece] = []
        repeated: list[MapPiece] = []
        for piece in longest_first:
            known = bool(new) and piece.first_upstream < new[-1].end_upstream
            (repeated if known else new).append(piece)
        bounds = (new[0].first_upstream, new[-1].end_upstream) if new else (0, 0)
        joined = cls._joined(*bounds, _rows(new))
        for piece in repeated:
            joined = joined.add(piece)
        return joined

    @classmethod
    def _joined(cls, first: int, end: int, rows: Column) -> OffsetMap:
        """Build from rows (upstream, downstream, length) in order; those that continue one another become one."""
        upstream, downstream, length = rows.T
        skipped = upstream[1:] != (upstream + length)[:-1]
        jumped = downstream[1:] != (downstream + length)[:-1]
        starts = np.flatnonzero(np.concatenate((np.ones(min(1, len(rows)), dtype=bool), skipped | jumped)))
        joined_length = np.add.reduceat(length, starts) if starts.size else length
        joined = cls(first, end, upstream[starts], downstream[starts], joined_length)
        joined.check()
        return joined

    def add(self, piece: MapPiece) -> OffsetMap:
        """Make the map that also knows `piece`: one that follows the map, or repeats a part of it.

        Raises TerminalError when it says otherwise than the map does, or reaches into it.
        """
        if self.first_upstream == self.end_upstream:
            return OffsetMap.of([piece])
        if piece.first_upstream == piece.end_upstream:
            return self
        if piece.first_upstream >= self.end_upstream:
            known = np.stack((self.upstream, self.downstream, self.length), axis=1)
            rows = np.concatenate((known, _rows([piece])))
            return OffsetMap._joined(self.first_upstream, piece.end_upstream, rows)
        if piece.first_upstream < self.first_upstream or piece.end_upstream > self.end_upstream:
            self._fail(f"overlaps the piece [{piece.first_upstream}, {piece.end_upstream}) only in part")
        if OffsetMap.of([piece]).runs != self._cut(piece.first_upstream, piece.end_upstream):
            self._fail(f"contradicts the piece [{piece.first_upstream}, {piece.end_upstream})")
        return self

    def translate(self, upstream: int) -> Translation | None:
        """Translate a committed upstream offset to the target; None when no record was ever mapped."""
        if not len(self.length):
            return None
        offset = _follow(self.upstream, self.downstream, self.length, upstream)
        return Translation(offset, upstream >= self.first_upstream, upstream > self.end_upstream)

    def reverse(self, downstream: int) -> Translation | None:
        """Translate a committed downstream offset back to the source; None when no record was ever mapped."""
        if not len(self.length):
            return None
        offset = _follow(self.downstream, self.upstream, self.length, downstream)
        first, end = int(self.downstream[0]), int(self.downstream[-1] + self.length[-1])
        return Translation(offset, downstream >= first, downstream > end)

    def covers(self, upstream: int) -> bool:
        """Whether the map knows what became of everything before `upstream`, from its first offset on."""
        return self.first_upstream <= upstream <= self.end_upstream

    @property
    def records(self) -> int:
        """Number of records mapped."""
        return int(self.length.sum())

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, in order, no two of which continue each other."""
        columns = (self.upstream.tolist(), self.downstream.tolist(), self.length.tolist())
        return tuple(Run(*row) for row in zip(*columns, strict=True))

    @property
    def piece(self) -> MapPiece:
        """The whole map as one piece."""
        return MapPiece(self.first_upstream, self.end_upstream, self.runs)

    def check(self) -> None:
        """Raise TerminalError, showing the map, unless its runs are sorted, apart, joined and inside its bounds."""
        upstream_end, downstream_end = self.upstream + self.length, self.downstream + self.length
        skipped = self.upstream[1:] - upstream_end[:-1]
        jumped = self.downstream[1:] - downstream_end[:-1]
        if (self.length < 1).any() or (skipped < 0).any() or (jumped < 0).any():
            self._fail("has runs that overlap or are out of order")
        if ((skipped == 0) & (jumped == 0)).any():
            self._fail("has runs that continue each other")
        bounds = [self.first_upstream, *self.upstream[:1], *upstream_end[-1:], self.end_upstream]
        if bounds != sorted(bounds):
            self._fail("has runs outside its bounds")

    def _cut(self, first: int, end: int) -> tuple[Run, ...]:
        """Take the parts of runs that lie in upstream offsets [first, end)."""
        start = int(np.searchsorted(self.upstream + self.length, first, side="right"))
        stop = int(np.searchsorted(self.upstream, end, side="left"))
        low = np.maximum(self.upstream[start:stop], first)
        high = np.minimum((self.upstream + self.length)[start:stop], end)
        shift = (self.downstream - self.upstream)[start:stop]
        rows = zip(low.tolist(), (low + shift).tolist(), (high - low).tolist(), strict=True)
        return tuple(Run(*row) for row in rows)

    def _fail(self, why: str) -> NoReturn:
        shown = f"[{self.first_upstream}, {self.end_upstream}) with {len(self.length)} runs"
        raise TerminalError(
            f"offset map {shown} {why}",
            hint="do not commit offsets from this map; audit the partition",
            code="offset-map",
            runs=[[run.upstream, run.downstream, run.length] for run in self.runs[:100]],
        )


def _rows(pieces: list[MapPiece]) -> Column:
    rows = [(run.upstream, run.downstream, run.length) for piece in pieces for run in piece.runs]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def _follow(froms: Column, tos: Column, length: Column, offset: int) -> int:
    """Find the first mapped offset at or after `offset` and give its other side; behind the last one, the end."""
    after = int(np.searchsorted(froms, offset, side="right"))
    if after and offset < froms[after - 1] + length[after - 1]:
        return int(tos[after - 1]) + offset - int(froms[after - 1])
    return int(tos[after]) if after < len(froms) else int(tos[-1] + length[-1])
