"""What is told of groups in a copy that another engine makes."""

from __future__ import annotations

from twinlog.observe.observed_copy import EnginePosition, ObservedCopy


def position(again: int | None, skipped: int | None, by_map: int | None) -> EnginePosition:
    return EnginePosition(
        group="billing",
        topic="orders",
        remote_topic="A.orders",
        partition=0,
        upstream_offset=5,
        ours=None if again is None else 5,
        exact=again is not None,
        theirs=3,
        by="committed",
        again=again,
        skipped=skipped,
        again_by_map=by_map,
    )


def told(*groups: EnginePosition) -> str:
    return ObservedCopy("mirrormaker2", (), groups, ()).told


def test_positions_that_are_not_known_are_no_zero():
    """Neither alone, nor beside others."""
    unknown = position(None, None, None)
    assert "of 2 of 2 positions it is not known yet" == told(unknown, unknown)
    assert told(position(2, 7, 1), unknown) == (
        "2 records read again and 7 skipped by the translation of mirrormaker2; 1 and none by the map, where it is"
        " exact; of 1 of 2 positions it is not known yet"
    )
    assert "not known" not in told(position(2, 7, 1))
