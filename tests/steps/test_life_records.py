"""Records that change what progress and the map are about."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run
from twinlog.steps.life_records import cut


@st.composite
def pieces(draw: st.DrawFn) -> MapPiece:
    """A piece of a few runs with holes on both sides."""
    first = upstream = draw(st.integers(0, 20))
    downstream = draw(st.integers(0, 20))
    runs = []
    for _ in range(draw(st.integers(0, 4))):
        upstream += draw(st.integers(0, 3))
        downstream += draw(st.integers(0, 3))
        length = draw(st.integers(1, 5))
        runs.append(Run(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    return MapPiece(first, upstream + draw(st.integers(0, 3)), tuple(runs))


@given(pieces(), st.integers(0, 60))
def test_a_cut_piece_knows_what_lies_before_the_cut_and_nothing_else(piece: MapPiece, at: int) -> None:
    """Every upstream offset below the cut keeps its copy; none at or behind it has one."""

    def pairs(known: MapPiece | None) -> dict[int, int]:
        runs = known.runs if known is not None else ()
        return {run.upstream + n: run.downstream + n for run in runs for n in range(run.length)}

    kept = cut(piece, at)
    assert {u: d for u, d in pairs(piece).items() if u < at} == pairs(kept)
    assert kept is None or kept.end_upstream == min(piece.end_upstream, at)
    if kept is not None:
        OffsetMap.of([kept])
