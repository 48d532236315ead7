"""When the records of a skipped batch may be taken from the source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from twinlog.formats.ledger.records import Gap, GapCause
from twinlog.formats.ledger.topics import Incarnation
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.quarantine.whole import left_out, not_as_copied
from twinlog.state.ledger import ledger_from
from twinlog.transforms.chain import Chain, Filter, Step

GAP = Gap("t", 0, 5, 9, GapCause.QUARANTINE, 1, 5, "id", copied_past=True)


def segment(first: int, end: int, *extents: Extent) -> MapSegment:
    return MapSegment(first, end, extents)


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([segment(0, 5, Extent(0, 0, 5)), segment(5, 10), segment(10, 20, Extent(10, 5, 10))], True),
        ([segment(0, 20, Extent(0, 0, 5), Extent(10, 5, 10))], True),
        ([segment(0, 20, Extent(0, 0, 6), Extent(10, 6, 10))], False),
        ([segment(0, 20, Extent(0, 0, 5), Extent(9, 5, 10))], False),
        ([segment(8, 20, Extent(10, 5, 10))], False),
        ([], False),
    ],
)
def test_only_what_the_map_says_was_left_out_is_replayed(segments: list[MapSegment], expected: bool) -> None:
    """A source that was truncated behind the batch has other records there, and they were copied."""
    assert expected is left_out(OffsetMap.of(segments) if segments else None, GAP)


def test_what_the_copy_would_have_changed_is_not_replayed(flow) -> None:
    """Masked fields would be shown, and records of the target's own would come back."""
    ledger = ledger_from([Incarnation("t", "id", 1, "A.t")])
    same_name = ledger_from([Incarnation("t", "id", 1, "t")])
    masked = replace(flow, transforms=Chain((Step(Filter()),)))
    assert "" == not_as_copied(flow, ledger, GAP)
    assert "transforms" in not_as_copied(masked, ledger, GAP)
    assert "both ways" in not_as_copied(flow, same_name, GAP)
    assert "both ways" in not_as_copied(flow, ledger_from([]), GAP)
