"""Continue the offset map of a partition with what a take-over has proved.  Pure.

Usually what was proved begins where the map ends.  If two programs have copied at once, as when MirrorMaker 2 was not
stopped, it does not:

    copy         A B c d e C D      c, d, e are MirrorMaker 2's; A to D are twinlog's, which the map has
    the map      A B       C D      cannot go on with e, which lies before C
    afterwards   A B c d e          C and D are records that were copied twice

A map has to rise on both sides, and a reader who is placed by it must not miss a record. The first copies of all
records do both, and these are what was proved (`Alignment.runs`). So from the first record that the map has elsewhere,
what was proved takes the map's place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlog.formats.map.packed_map import PackedMap
from twinlog.migration.alignment import Alignment, extents_of
from twinlog.offsets.segments import Extent, MapSegment

RUNS_PER_PIECE = 4_000


@dataclass(frozen=True, slots=True)
class Continuation:
    """Say how a map goes on: it is cut at the upstream offset `at`, its end if nothing is replaced, then `segments`.

    `fits` is false if the map would not rise, or readers be placed too late: what was compared does not reach back far
    enough.
    """

    at: int
    segments: tuple[MapSegment, ...]
    replaces: bool
    fits: bool


def continued(known: PackedMap | None, found: Alignment) -> Continuation:
    """Continue a map, None if there is none yet.  Raises UnreadableMap."""
    if known is None:
        return Continuation(0, tuple(segments_of(found, 0)), replaces=False, fits=True)
    end = known.end_upstream
    at = _first_difference(known, found.runs, end)
    segments = tuple(segments_of(found, at))
    before = _end_of_copy(known, at)
    # What is in no segment counts as copied behind the end of the map, too (`map-hole`).
    first = min((downstream for upstream, downstream in found.pairs if upstream >= at), default=before)
    return Continuation(at, segments, replaces=at < end, fits=first >= before)


def by_last_copies(found: Alignment) -> Alignment:
    """Return what was proved with the last copy of each record in place of the first, as an observed map has them.

    Of a copy that ends in the middle of a repetition, the last ones that rise.
    """
    left = sorted({upstream for upstream, _ in found.pairs})
    last: list[tuple[int, int]] = []
    for pair in reversed(found.pairs):
        if left and pair[0] == left[-1]:
            left.pop()
            last.append(pair)
    last.reverse()
    return replace(found, runs=extents_of(last) if found.runs else (), pairs=tuple(last))


def _first_difference(known: PackedMap, runs: Sequence[Extent], end: int) -> int:
    """Return the first proved upstream offset that the map does not have at the same place; its end if there is none.

    Records that the map has, and the copy no longer, make no difference: compaction took them.
    """
    start = runs[0].upstream if runs else end
    if start >= end:
        return end
    mapped = {
        run.upstream + n: run.downstream + n
        for run in known.opened_from(start).runs
        for n in range(run.length)
    }
    for run in runs:
        for n in range(run.length):
            upstream = run.upstream + n
            if upstream >= end:
                return end
            if mapped.get(upstream) != run.downstream + n:
                return upstream
    return end


def _end_of_copy(known: PackedMap, at: int) -> int:
    """Return the downstream offset behind the last record that the map has before an upstream offset, 0 without one."""
    opened = known.open()
    row = int(np.searchsorted(opened.upstream, at, side="left")) - 1
    if row < 0:
        return 0
    return int(opened.downstream[row] + min(opened.length[row], at - opened.upstream[row]))


def segments_of(found: Alignment, floor: int) -> Iterator[MapSegment]:
    """Cut the proved extents into segments that cover everything from the first one to the end of the copy. Pure.

    Upstream offsets below `floor` are left out.
    """
    runs = [
        Extent(run.upstream + cut, run.downstream + cut, run.length - cut)
        for run in found.runs
        if run.length > (cut := max(0, floor - run.upstream))
    ]
    for at in range(0, len(runs), RUNS_PER_PIECE):
        part = runs[at : at + RUNS_PER_PIECE]
        behind = runs[at + RUNS_PER_PIECE : at + RUNS_PER_PIECE + 1]
        end = behind[0].upstream if behind else found.last_upstream + 1
        # Begin at the floor if the proof reaches down to it: then no uncovered range is left between the two.
        first = floor if at == 0 and found.runs[0].upstream <= floor else part[0].upstream
        yield MapSegment(first, end, tuple(part))
