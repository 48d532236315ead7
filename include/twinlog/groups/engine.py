"""Compare where another engine's own translation puts groups with where the offset map puts them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.plan import Decided
from twinlog.groups.verdict import GroupStanding
from twinlog.kafka_types import OfPartition


@dataclass(frozen=True, slots=True)
class EnginePosition(OfPartition):
    """Where a group would go on in one copy: by the map (`ours`, `exact` or not), and by the engine (`theirs`).

    `by` says where the engine's is from: the position `committed` on the target, or MirrorMaker 2's `checkpoint`.
    `again` counts the offsets that the group would read a second time there, `skipped` the records that it would never
    read; None where one of the two is not known.
    """

    group: str
    topic: str
    remote_topic: str
    partition: int
    upstream_offset: int
    ours: int | None
    exact: bool
    theirs: int | None
    by: str
    again: int | None
    skipped: int | None


def engine_positions(decided: Iterable[Decided]) -> Iterator[EnginePosition]:
    """Compare every position that was decided about."""
    for it in decided:
        standing, row = it.standing, it.row
        theirs, by = _of_engine(standing)
        ours, again, skipped = standing.place.offset, None, None
        if ours is not None and theirs is not None and standing.place.exact:
            again, skipped = max(0, ours - theirs), _skipped(standing, ours, theirs)
        yield EnginePosition(
            row.group,
            row.topic,
            row.remote_topic,
            row.partition,
            row.upstream_offset,
            ours,
            standing.place.exact,
            theirs,
            by,
            again,
            skipped,
        )


def _of_engine(standing: GroupStanding) -> tuple[int | None, str]:
    if standing.there is not None:
        return standing.there.offset, "committed"
    if standing.last is not None:
        return standing.last.checkpoint.downstream_offset, "checkpoint"
    return None, ""


def _skipped(standing: GroupStanding, ours: int, theirs: int) -> int:
    """Count the unread records before the engine's position; offsets where the map does not reach that far yet."""
    known = standing.route.maps.onward
    if theirs <= ours or not isinstance(known, PackedMap) or theirs > known.end_of_copy():
        return max(0, theirs - ours)
    return known.records_between(ours, theirs)
