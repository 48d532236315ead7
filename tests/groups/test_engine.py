"""Where another engine lets a group go on is compared with the map."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.formats.map.offset_map import encode_segment
from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.engine import EnginePosition, engine_positions
from twinlog.groups.maps import PartitionMaps
from twinlog.groups.place import Place
from twinlog.offsets.segments import Extent, MapSegment

# The records 0 to 49 stand where they are; 50 to 99 were copied twice, and stand at 100.
MAP = PackedMap.of({0: encode_segment(MapSegment(0, 100, (Extent(0, 0, 50), Extent(50, 100, 50))))})


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
    )
    row = SimpleNamespace(group="g", topic="t", remote_topic="A.t", partition=0, upstream_offset=60)
    decided: Any = SimpleNamespace(standing=standing, row=row)
    (found,) = engine_positions([decided])
    return found


@pytest.mark.parametrize(
    ("there", "again", "skipped"), [(110, 0, 0), (60, 50, 0), (130, 0, 20), (0, 110, 0), (170, 0, 60)]
)
def test_what_is_read_again_and_skipped(there: int, again: int, skipped: int):
    """A position before the map's reads again what lies between; one behind it skips records."""
    found = judged(Place(110, exact=True), there)
    assert (again, skipped, "committed") == (found.again, found.skipped, found.by)


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
