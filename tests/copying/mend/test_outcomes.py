"""How a transaction ended that the target left open, by what else it wrote: on doubt, nobody knows."""

from __future__ import annotations

import pytest

from twinlog.copying.mend.outcomes import MapSeen, Outcome, of_copy, of_map, of_progress, together
from twinlog.errors import FormatError
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.lane.fence.lost_progress import LostProgress
from twinlog.lane.open_transactions import HangingTransaction
from twinlog.offsets.segments import Extent, MapSegment

BROKEN = PackedMap.of({0: encode_segment(MapSegment(0, 10, (Extent(0, 0, 10),)))[:-1]})
COMMITTED, ABORTED, EITHER, UNKNOWN = Outcome
LANE, ANOTHER = 7, 8


def packed(end: int, *runs: Extent) -> PackedMap:
    """A map up to upstream `end`."""
    return PackedMap.of({0: encode_segment(MapSegment(0, end, runs))})


TEN = packed(10, Extent(0, 0, 10))
HOLED = PackedMap.of({first: encode_segment(MapSegment(first, first + 10, ())) for first in (0, 20)})


def piece(first: int, end: int, writer: int = LANE) -> tuple[int, MapSegment]:
    """A piece that somebody left open in the map."""
    return writer, MapSegment(first, end, ())


@pytest.mark.parametrize(
    ("known", "last_copied", "first_offset", "log_end", "expected"),
    [
        (None, None, 0, 5, ABORTED),  # nothing was ever committed
        (None, 9, 5, 9, UNKNOWN),  # progress is MirrorMaker 2's, or the map is gone
        (TEN, None, 11, 15, UNKNOWN),
        (TEN, 9, 11, 15, ABORTED),
        (TEN, 9, 10, 15, ABORTED),
        (TEN, 9, 7, 10, COMMITTED),  # the map knows every record of it
        (TEN, 9, 9, 11, UNKNOWN),  # ... but not the last
        (TEN, 9, 5, 9, UNKNOWN),  # the log ends before the map does
        (packed(10, Extent(0, 0, 4), Extent(4, 20, 6)), 9, 10, 20, UNKNOWN),
        (packed(10, Extent(0, 0, 4), Extent(4, 20, 6)), 9, 15, 26, UNKNOWN),
        (packed(10, Extent(0, 0, 4), Extent(4, 20, 6)), 9, 20, 26, COMMITTED),
        (TEN, 19, 11, 15, UNKNOWN),  # progress is further than the map
        (packed(10), 9, 0, 5, ABORTED),  # nothing but holes
        (BROKEN, 9, 11, 15, UNKNOWN),
        (UnreadableMap("torn"), 9, 11, 15, UNKNOWN),
    ],
)
def test_a_copy_is_judged_by_progress_and_map(
    known: PackedMap | UnreadableMap | None,
    last_copied: int | None,
    first_offset: int,
    log_end: int,
    expected: Outcome,
) -> None:
    """Both deny all of what is open, or both know every record of it."""
    assert expected == of_copy(HangingTransaction(LANE, first_offset, log_end), last_copied, known)


@pytest.mark.parametrize(
    ("lost", "last_copied", "seen", "in_copy", "expected"),
    [
        (19, 9, MapSeen(packed(20)), UNKNOWN, COMMITTED),
        (19, None, MapSeen(packed(20)), UNKNOWN, COMMITTED),
        (9, None, MapSeen(None, aborted={0}), UNKNOWN, ABORTED),
        (19, 9, MapSeen(TEN, aborted={10}), UNKNOWN, ABORTED),
        (19, 9, MapSeen(TEN, aborted={3}), EITHER, UNKNOWN),  # nothing shows that it wrote a piece
        (19, 9, MapSeen(TEN), EITHER, UNKNOWN),
        (9, 9, MapSeen(TEN), UNKNOWN, EITHER),  # what was written again says the same
        (19, 9, MapSeen(TEN, (piece(10, 20),)), EITHER, EITHER),  # open everywhere
        (19, 9, MapSeen(TEN, (piece(10, 20),)), COMMITTED, COMMITTED),
        (19, 9, MapSeen(TEN, (piece(10, 20),)), ABORTED, ABORTED),
        (19, 9, MapSeen(TEN, (piece(10, 18),)), COMMITTED, UNKNOWN),
        (19, 9, MapSeen(TEN, (piece(10, 20, ANOTHER),)), COMMITTED, UNKNOWN),
        (19, 8, MapSeen(TEN, aborted={10}), UNKNOWN, UNKNOWN),  # map and progress disagree
        (None, 9, MapSeen(TEN), COMMITTED, UNKNOWN),  # a tombstone
        (19, 9, MapSeen(UnreadableMap("torn")), COMMITTED, UNKNOWN),
        (19, None, MapSeen(), COMMITTED, UNKNOWN),
    ],
)
def test_progress_is_judged_by_the_map(
    lost: int | None, last_copied: int | None, seen: MapSeen, in_copy: Outcome, expected: Outcome
) -> None:
    """A piece that ends with it was committed, or was not; where the map does not know either, the copy does."""
    record = LostProgress("orders", 0, lost, LANE, ("mm2-offsets", 3))
    assert expected == of_progress(record, last_copied, seen, in_copy)


@pytest.mark.parametrize(
    ("last_copied", "seen", "expected"),
    [
        (9, MapSeen(TEN, (piece(10, 20),)), ABORTED),
        (None, MapSeen(None, (piece(0, 20),)), ABORTED),
        (19, MapSeen(TEN, (piece(10, 20),)), COMMITTED),
        (19, MapSeen(TEN, (piece(10, 15), piece(15, 20))), COMMITTED),
        (19, MapSeen(None, (piece(5, 20),)), COMMITTED),
        (14, MapSeen(TEN, (piece(10, 20),)), UNKNOWN),  # progress ends within it
        (29, MapSeen(TEN, (piece(10, 20),)), UNKNOWN),
        (29, MapSeen(packed(30), (piece(10, 20),)), ABORTED),  # the map has what another lane copied there
        (29, MapSeen(HOLED, (piece(10, 20),)), UNKNOWN),  # nobody did
        (19, MapSeen(TEN, (piece(12, 20),)), UNKNOWN),  # what lies between is missing
        (19, MapSeen(TEN, (piece(10, 20, ANOTHER),)), UNKNOWN),
        (19, MapSeen(UnreadableMap("torn"), (piece(10, 20),)), UNKNOWN),
    ],
)
def test_a_map_is_judged_by_progress(last_copied: int | None, seen: MapSeen, expected: Outcome) -> None:
    """With its pieces the map ends where progress does, or without them."""
    assert expected == of_map(LANE, last_copied, seen)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([EITHER], ABORTED),
        ([EITHER, COMMITTED], COMMITTED),
        ([ABORTED, EITHER, ABORTED], ABORTED),
        ([ABORTED, COMMITTED], UNKNOWN),
        ([COMMITTED, UNKNOWN], UNKNOWN),
    ],
)
def test_one_marker_ends_all_that_is_open(verdicts: list[Outcome], expected: Outcome) -> None:
    """So everything under it has to have ended alike."""
    assert expected == together(verdicts)


def test_a_broken_map_is_one_that_cannot_be_opened() -> None:
    """The case above tests what it says."""
    with pytest.raises(FormatError):
        BROKEN.open()
