"""Compare where another engine's own translation puts groups with where the offset map puts them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinlog.groups.plan import Decided
from twinlog.groups.verdict import GroupStanding
from twinlog.kafka_types import OfPartition


@dataclass(frozen=True, slots=True)
class EnginePosition(OfPartition):
    """Where a group would go on in one copy: by the map (`ours`, `exact` or not), and by the engine (`theirs`).

    `by` says where the engine's is from: the position `committed` on the target, or MirrorMaker 2's `checkpoint`.
    `again` and `skipped` count the records that the group would read a second time by the engine's position, at most,
    and those known by the map that it would never read; None where one of the two positions is not known.  By the map
    it skips none, and reads `again_by_map` a second time: those that the engine has doubled behind it, and those that
    it has read and the engine has not copied yet.
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
    again_by_map: int | None


def engine_positions(decided: Iterable[Decided]) -> Iterator[EnginePosition]:
    """Compare every position that was decided about."""
    for it in decided:
        standing, row = it.standing, it.row
        theirs, by = _of_engine(standing)
        ours, again, skipped, by_map = standing.place.offset, None, None, None
        if ours is not None and standing.place.exact:
            by_map = standing.again(ours)
            if theirs is not None:
                again = standing.again(theirs)
                skipped = standing.skips(theirs)
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
            by_map,
        )


def _of_engine(standing: GroupStanding) -> tuple[int | None, str]:
    if standing.there is not None:
        return standing.there.offset, "committed"
    if standing.last is not None:
        return standing.last.checkpoint.downstream_offset, "checkpoint"
    return None, ""
