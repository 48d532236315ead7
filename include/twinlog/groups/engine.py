"""Compare where another engine's own translation puts groups with where the offset map puts them.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from twinlog.groups.plan import Decided
from twinlog.groups.verdict import GroupStanding
from twinlog.observe.observed_copy import EnginePosition


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
