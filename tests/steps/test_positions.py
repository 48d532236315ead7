"""What a position on the other side is worth: nothing unread lies before it, or it is not called exact."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.cluster.ledger import ledger_from
from twinlog.cluster.progress import SourceLife
from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger_topics import Beginning, Gap, GapCause, Incarnation
from twinlog.formats.offset_map import encode_piece
from twinlog.formats.packed_map import PackedMap
from twinlog.offsets.piece import MapPiece
from twinlog.offsets.run import Run
from twinlog.steps.positions import Position, never_copied, positions, positions_back


def packed(*pieces: MapPiece) -> PackedMap:
    return PackedMap.of({it.first_upstream: encode_piece(it) for it in pieces})


def log(start: int, end: int) -> PartitionOffsets:
    return PartitionOffsets(start, end, end)


DENSE = packed(MapPiece(0, 1000, (Run(0, 0, 1000),)))
TAIL = packed(MapPiece(700, 1000, (Run(700, 700, 300),)))
LATE = packed(MapPiece(1000, 2000, (Run(1000, 0, 1000),)))


@pytest.mark.parametrize(
    ("known", "offset", "there", "here", "expected"),
    [
        # Expired on the target, and not on the source; on both; nobody can say; nothing unread among it.
        (DENSE, 500, log(800, 1000), log(0, 1000), Position(800, False, False, 0, 300)),
        (DENSE, 500, log(800, 1000), log(790, 1000), Position(800, False, False, 0, 10)),
        (DENSE, 500, log(800, 1000), log(800, 1000), Position(800, True, False)),
        (DENSE, 500, log(800, 1000), log(900, 1000), Position(800, True, False)),
        (DENSE, 500, log(800, 1000), None, Position(800, False, False, 0, 300)),
        (DENSE, 800, log(800, 1000), log(0, 1000), Position(800, True, False)),
        # All of it expired, the markers behind it as well.
        (DENSE, 1000, log(1007, 1007), log(0, 1000), Position(1007, True, False)),
        (DENSE, 990, log(1007, 1007), log(0, 1000), Position(1007, False, False, 0, 10)),
        # The map forgets what has expired on the target.
        (TAIL, 500, log(800, 1000), log(0, 1000), Position(800, False, False, 0, 300)),
        (TAIL, 500, log(800, 1000), log(900, 1000), Position(800, True, False)),
        # A copy that began at the end of the source.
        (LATE, 500, log(0, 1000), log(0, 2000), Position(0, False, False, 0, 500)),
        (LATE, 500, log(0, 1000), log(990, 2000), Position(0, False, False, 0, 10)),
        (LATE, 500, log(0, 1000), log(1000, 2000), Position(0, True, False)),
        (LATE, 500, log(0, 1000), None, Position(0, False, False, 0, 500)),
    ],
)
def test_what_is_unread_and_not_there_is_told(
    known: PackedMap, offset: int, there: PartitionOffsets, here: PartitionOffsets | None, expected: Position
) -> None:
    """Whatever keeps the records from the other side; what has expired on both is missed by nobody."""
    assert [expected] == positions(known, [offset], there, here=here)


@pytest.mark.parametrize("into_empty", [True, False])
def test_below_where_a_copy_began(into_empty: bool) -> None:
    """The first record is next, also behind an aborted transaction; unless somebody else had copied before."""
    first = packed(MapPiece(100, 200, (Run(100, 11, 90),)))
    life = Incarnation("t", "id", 1, "A.t")
    begins = Beginning("t", "id", {"0": 100}, {"0": 100}, 1, into_empty)
    gap = Gap("t", 0, 300, 304, GapCause.RETENTION, 1, 5, "id")
    lost = never_copied(ledger_from([life, begins, gap])).get(SourceLife("t", "id", 0), ())
    expected = Position(11, True, False) if into_empty else None
    there, here = log(0, 101), log(100, 200)
    assert [expected, expected, Position(11, True, False)] == positions(
        first, [50, 99, 100], there, lost, here
    )
    assert (300, 305) in lost


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([MapPiece(100, 200, ())], Position(7, True, False)),
        ([MapPiece(150, 200, ())], Position(7, False, True, 50)),
    ],
)
def test_a_copy_without_a_record(pieces: list[MapPiece], expected: Position) -> None:
    """Nothing was copied, or what was copied has expired there and the map forgot it: that is not the same."""
    assert [expected] == positions(packed(*pieces), [50], log(7, 7), [(0, 100)])


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (log(0, 1000), Position(800, False, False, 0, 300)),
        (log(800, 1000), Position(800, True, False)),
    ],
)
def test_and_back(copy: PartitionOffsets, expected: Position) -> None:
    """The source has deleted what a reader of the copy has yet to read."""
    assert [expected] == positions_back(DENSE, [500], log(800, 1000), copy)


@given(st.data())
def test_exact_means_that_nothing_is_missed_and_nothing_comes_twice(data: st.DataObject) -> None:
    """By the records themselves, with holes, markers and both logs cut anywhere."""
    upstream = downstream = 0
    pieces, records = [], {}
    for _ in range(data.draw(st.integers(1, 4))):
        upstream += data.draw(st.integers(0, 3))
        downstream += data.draw(st.integers(0, 3))
        first, length = upstream, data.draw(st.integers(0, 5))
        runs = (Run(upstream, downstream, length),) if length else ()
        records |= {upstream + at: downstream + at for at in range(length)}
        upstream += length + data.draw(st.integers(1, 2))
        downstream += length
        pieces.append(MapPiece(first, upstream, runs))
    here = log(data.draw(st.integers(0, upstream)), upstream + 2)
    end = downstream + data.draw(st.integers(0, 2))
    there = log(data.draw(st.integers(0, end)), end)
    offset = data.draw(st.integers(0, upstream + 2))
    [found] = positions(packed(*pieces), [offset], there, here=here)
    if found is None or not records:
        return
    unread = {up: down for up, down in records.items() if up >= max(offset, here.log_start)}
    missed = [down for down in unread.values() if down < found.offset]
    assert len(missed) <= found.missing
    assert all(down < there.log_start for down in missed)
    if found.exact:
        assert not missed
        assert not [down for up, down in records.items() if up < offset and down >= found.offset]
