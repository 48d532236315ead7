"""Where another engine lets a group go on is compared with the map."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.formats.ledger.observed import Observed, ObservedFinding
from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.engine import EnginePosition, engine_positions
from twinlog.groups.maps import PartitionMaps
from twinlog.groups.place import Place
from twinlog.offsets.segments import Extent, MapSegment

# The records 0 to 49 stand where they are; 50 to 99 were copied twice, and stand at 100.
MAP = PackedMap.of({0: encode_segment(MapSegment(0, 100, (Extent(0, 0, 50), Extent(50, 100, 50))))})


DOUBLED = ObservedFinding("doubled", (50, 100), (100, 150), 50, (), 1)
OBSERVED = Observed(
    "t", "", 0, "A.t", "", 0, 100, 100, 150, 150, {"doubled": 50}, {}, (DOUBLED,), 0, 0, 1, {}
)


def judged(ours: Place, there: int | None, checkpoint: int | None = None) -> EnginePosition:
    last = (
        None
        if checkpoint is None
        else SimpleNamespace(checkpoint=SimpleNamespace(downstream_offset=checkpoint))
    )
    standing = SimpleNamespace(
        place=ours,
        there=None if there is None else SimpleNamespace(offset=there),
        last=last,
        route=SimpleNamespace(maps=PartitionMaps(MAP)),
        doubled=lambda offset: OBSERVED.doubled_again(60, offset),
    )
    row = SimpleNamespace(group="g", topic="t", remote_topic="A.t", partition=0, upstream_offset=60)
    decided: Any = SimpleNamespace(standing=standing, row=row)
    (found,) = engine_positions([decided])
    return found


@pytest.mark.parametrize(
    ("there", "again", "skipped"), [(110, 0, 0), (60, 50, 0), (130, 0, 20), (0, 110, 0), (170, 0, 40)]
)
def test_what_is_read_again_and_skipped(there: int, again: int, skipped: int):
    """A position before the map's reads again what lies between; one behind it skips records."""
    found = judged(Place(110, exact=True), there)
    assert (again, skipped, "committed") == (found.again, found.skipped, found.by)


@pytest.mark.parametrize(("offset", "again"), [(60, 10), (104, 6), (110, 0), (149, 0)])
def test_what_the_map_makes_a_group_read_again(offset: int, again: int):
    """Records 50 to 59 were read, and stand a second time from 100 on."""
    assert again == judged(Place(offset, exact=True), None).again_by_map


def test_findings_that_are_not_named_count():
    """At most all of them are met again."""
    assert 120 == replace(OBSERVED, counts={"doubled": 120}, findings=()).doubled_again(0, 0)


def test_a_checkpoint_counts_without_a_position():
    """Clients of MirrorMaker 2 translate by it."""
    found = judged(Place(110, exact=True), None, 90)
    assert (90, "checkpoint", 20) == (found.theirs, found.by, found.again)


@pytest.mark.parametrize("ours", [Place(None), Place(110)])
def test_what_is_not_exact_is_not_judged(ours: Place):
    """Nothing is counted, and so nothing is called right."""
    found = judged(ours, 60)
    assert (None, None) == (found.again, found.skipped)


def test_nowhere():
    """A group that the engine does not pass on has no place there."""
    found = judged(Place(110, exact=True), None)
    assert (None, "", None) == (found.theirs, found.by, found.skipped)
