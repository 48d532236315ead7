"""When a transaction that the target left open in the copy may be aborted."""

from __future__ import annotations

import pytest

from twinlog.errors import FormatError
from twinlog.formats.offset_map import MapPiece, encode_piece
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.offsets.offset_map import Run
from twinlog.steps.lost_ends import never_counted

BROKEN = PackedMap.of({0: encode_piece(MapPiece(0, 10, (Run(0, 0, 10),)))[:-1]})


def packed(end: int, *runs: Run) -> PackedMap:
    """A map up to upstream `end`."""
    return PackedMap.of({0: encode_piece(MapPiece(0, end, runs))})


@pytest.mark.parametrize(
    ("known", "last_copied", "first_offset", "expected"),
    [
        (None, None, 0, True),  # nothing was ever committed
        (None, 9, 5, False),  # progress is MirrorMaker 2's, or the map is gone
        (packed(10, Run(0, 0, 10)), None, 11, False),
        (packed(10, Run(0, 0, 10)), 9, 11, True),
        (packed(10, Run(0, 0, 10)), 9, 10, True),
        (packed(10, Run(0, 0, 10)), 9, 9, False),  # the map knows a record in it: it was committed
        (packed(10, Run(0, 0, 4), Run(4, 20, 6)), 9, 15, False),
        (packed(10, Run(0, 0, 10)), 19, 11, False),  # progress is further than the map
        (packed(10), 9, 0, True),  # nothing but holes
        (BROKEN, 9, 11, False),
        (UnreadableMap("torn"), 9, 11, False),
    ],
)
def test_only_what_progress_and_map_deny_never_counted(
    known: PackedMap | UnreadableMap | None, last_copied: int | None, first_offset: int, expected: bool
) -> None:
    """On doubt it may have been committed."""
    assert expected == never_counted(first_offset, last_copied, known)


def test_a_broken_map_is_one_that_cannot_be_opened() -> None:
    """The case above tests what it says."""
    with pytest.raises(FormatError):
        BROKEN.open()
