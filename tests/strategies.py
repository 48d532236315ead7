"""Hypothesis strategies more than one room needs.  Names and numbers favour what has hurt before."""

from hypothesis import strategies as st

from twinlog.offsets.segments import Extent, MapSegment

names = st.sampled_from(["t", "A.orders", "orders-v1_x", "é", "日本", '"quoted"\\', "x" * 249]) | st.text(
    st.characters(codec="utf-8"), max_size=40
)
int32s = st.sampled_from([0, 1, (1 << 31) - 1]) | st.integers(0, (1 << 31) - 1)
int64s = st.sampled_from([-1, 0, 1, (1 << 63) - 1, -(1 << 63)]) | st.integers(-(1 << 63), (1 << 63) - 1)
# Gaps of two alternate with runs of one wherever a source is transactional; big ones cross varint lengths.
_steps = st.sampled_from([0, 0, 1, 2, 127, 128, 16384, 1 << 35]) | st.integers(0, 300)
_lengths = st.sampled_from([1, 1, 2, 128]) | st.integers(1, 300)


@st.composite
def pieces(draw, *, first=_steps, max_runs=12, steps=_steps, lengths=_lengths) -> MapSegment:
    """A piece with runs in order; neighbours may continue each other."""
    start = draw(first)
    upstream, downstream, runs = start, draw(steps), []
    for _ in range(draw(st.integers(0, max_runs))):
        run = Extent(upstream + draw(steps), downstream + draw(steps), draw(lengths))
        runs.append(run)
        upstream, downstream = run.upstream_end, run.downstream_end
    return MapSegment(start, upstream + draw(steps), tuple(runs))


small_pieces = pieces(first=st.integers(0, 5), max_runs=6, steps=st.integers(0, 3), lengths=st.integers(1, 4))


@st.composite
def maps(draw) -> list[MapSegment]:
    """Pieces one behind the other, with holes between some of them."""
    result, upstream, downstream = [], 0, 0
    for piece in draw(st.lists(small_pieces, min_size=1, max_size=6)):
        upstream += draw(st.integers(0, 3))
        moved = tuple(
            Extent(run.upstream + upstream, run.downstream + downstream, run.length) for run in piece.runs
        )
        result.append(MapSegment(upstream + piece.first_upstream, upstream + piece.end_upstream, moved))
        upstream = result[-1].end_upstream
        downstream = moved[-1].downstream_end if moved else downstream
    return result
