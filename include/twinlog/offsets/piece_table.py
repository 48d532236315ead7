"""Hold many segments of one partition's map as columns: the result of decoding, and the input of a map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from twinlog.offsets.piece import MapSegment
from twinlog.offsets.run import Extent

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
