"""Define a map segment: the part that one transaction adds to the offset map of a partition."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.errors import FormatError
from twinlog.offsets.run import Extent

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
                raise FormatError(f"offset map piece has {run} out of order", piece=self.first_upstream)
            upstream, downstream = run.upstream_end, run.downstream_end
        if not 0 <= self.first_upstream <= upstream <= self.end_upstream < LIMIT or downstream >= LIMIT:
            raise FormatError(
                f"offset map piece [{self.first_upstream}, {self.end_upstream}) does not hold its runs",
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
