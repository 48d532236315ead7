"""Define extents and segments, the units of the offset map, and hold many segments as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twinlog.errors import FormatError


@dataclass(frozen=True, slots=True, order=True)
class Extent:
    """`length` records with upstream offsets from `upstream` and downstream offsets from `downstream`, both dense."""

    upstream: int
    downstream: int
    length: int

    @property
    def upstream_end(self) -> int:
        """Return one past the last upstream offset of the extent."""
        return self.upstream + self.length

    @property
    def downstream_end(self) -> int:
        """Return one past the last downstream offset of the extent."""
        return self.downstream + self.length


LIMIT = 1 << 63


@dataclass(frozen=True, slots=True)
class MapSegment:
    """Extents in order that cover upstream offsets [first_upstream, end_upstream); there may be none.

    An offset of the segment that lies in no extent has no copy (a marker, aborted, compacted away).  Raises
    FormatError if the extents are out of order, overlap on either side, or reach beyond the segment.
    """

    first_upstream: int
    end_upstream: int
    runs: tuple[Extent, ...]

    def __post_init__(self) -> None:
        upstream, downstream = self.first_upstream, 0
        for run in self.runs:
            if run.upstream < upstream or run.downstream < downstream or run.length < 1:
                raise FormatError(f"map segment has {run} out of order", piece=self.first_upstream)
            upstream, downstream = run.upstream_end, run.downstream_end
        if not 0 <= self.first_upstream <= upstream <= self.end_upstream < LIMIT or downstream >= LIMIT:
            raise FormatError(
                f"map segment [{self.first_upstream}, {self.end_upstream}) does not hold its extents",
                piece=self.first_upstream,
            )


def cut(known: MapSegment, at: int) -> MapSegment | None:
    """Return the part of a segment for upstream offsets below `at`; None if there is no such part."""
    if known.first_upstream >= at:
        return None
    runs = tuple(
        Extent(run.upstream, run.downstream, min(run.upstream_end, at) - run.upstream)
        for run in known.runs
        if run.upstream < at
    )
    return MapSegment(known.first_upstream, min(known.end_upstream, at), runs)


Column = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentTable:
    """Segments by row, in any order, each covering upstream offsets [first, end); their extents one behind the other.

    The extents of segment i are rows `run_start[i]` to `run_start[i + 1]` of the three columns of extents.
    """

    first: Column
    end: Column
    run_start: Column
    upstream: Column
    downstream: Column
    length: Column

    @classmethod
    def of(cls, pieces: Sequence[MapSegment]) -> SegmentTable:
        """Put segments into columns."""
        counts = [0, *(len(piece.runs) for piece in pieces)]
        rows = [(run.upstream, run.downstream, run.length) for piece in pieces for run in piece.runs]
        upstream, downstream, length = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return cls(
            np.array([piece.first_upstream for piece in pieces], dtype=np.int64),
            np.array([piece.end_upstream for piece in pieces], dtype=np.int64),
            np.cumsum(counts, dtype=np.int64),
            upstream,
            downstream,
            length,
        )

    @property
    def run_count(self) -> Column:
        """Return the number of extents of each segment."""
        return np.diff(self.run_start)

    def piece(self, row: int) -> MapSegment:
        """Return one segment."""
        rows = slice(int(self.run_start[row]), int(self.run_start[row + 1]))
        columns = (self.upstream[rows].tolist(), self.downstream[rows].tolist(), self.length[rows].tolist())
        runs = tuple(Extent(*run) for run in zip(*columns, strict=True))
        return MapSegment(int(self.first[row]), int(self.end[row]), runs)

    def take(self, rows: Column) -> SegmentTable:
        """Return a table of some segments, in the order given."""
        counts = self.run_count[rows]
        run_start = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts)))
        # Row numbers of all wanted extents: the first of each segment, and those that follow it.
        shift = np.repeat(self.run_start[rows] - run_start[:-1], counts)
        runs = np.arange(run_start[-1], dtype=np.int64) + shift
        return SegmentTable(
            self.first[rows],
            self.end[rows],
            run_start,
            self.upstream[runs],
            self.downstream[runs],
            self.length[runs],
        )
