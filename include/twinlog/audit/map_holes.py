"""Find upstream offsets that were copied but that no map segment covers: a part of the map was lost.  Pure.

Lanes leave no offset gap: each map segment begins where the copy stood, and the copy stands where the last one ends.

    begins       segment       segment                   segment       copied to
      |  lost?  [=======)[==============)    lost?     [========)  lost?  |

An offset gap is not a loss of the map if
 - the copies that it would lead to lie below the target's log start, where map compaction drops segments;
 - the copy began there, or the flow does not know where it began (another flow copied into it before);
 - a migration from MirrorMaker 2 noted that it could not prove what lies there (MapHole).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class CopyBounds:
    """Tell where a copy begins and ends: upstream [`begins`, `copied_to`); None if unknown.

    `log_start` and `log_end` bound the target's log.  `known` are the stretches that the map leaves out on purpose.
    """

    begins: int | None
    copied_to: int | None
    log_start: int
    log_end: int
    known: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LostStretch:
    """Upstream offsets [`start`, `end`) that were copied, but no map knows where; at most `records` records.

    Their copies stand between `after` and `before` (downstream).
    """

    start: int
    end: int
    records: int
    after: int
    before: int


def bounds_of(
    ledger: Ledger, life: SourceIncarnation, copied_to: int | None, log_start: int, log_end: int
) -> CopyBounds:
    """Return what the ledger knows of a partition; `copied_to` belongs to the incarnation that is copied now."""
    current = ledger.incarnations.get(life.topic)
    ours = current is None or current.topic_id == life.topic_id
    known = tuple((hole.start, hole.end) for hole in ledger.map_holes if hole.life == life)
    return CopyBounds(_begins(ledger, life), copied_to if ours else None, log_start, log_end, known)


def _begins(ledger: Ledger, life: SourceIncarnation) -> int | None:
    """Return where this flow began to copy; unknown for a first incarnation whose copy already held records."""
    noted, current = ledger.beginnings.get(life.topic), ledger.incarnations.get(life.topic)
    if noted is None or current is None or noted.topic_id != life.topic_id:
        return None
    if not noted.into_empty and current.number == 1:
        return None
    return noted.offsets.get(str(life.partition), 0)


def lost_in(packed: PackedMap, bounds: CopyBounds) -> tuple[LostStretch, ...]:
    """Find the lost parts of a map; opens the map only if something is not covered.  Raises UnreadableMap."""
    if not len(packed.first) or _whole(packed, bounds):
        return ()
    return tuple(lost_stretches(packed.open(), bounds))


def _whole(packed: PackedMap, bounds: CopyBounds) -> bool:
    """Say whether the index alone shows that nothing is missing."""
    apart = packed.first[1:] > np.maximum.accumulate(packed.end)[:-1]
    with_runs = np.flatnonzero(packed.runs > 0)
    expired = len(with_runs) > 0 and int(packed.downstream[with_runs[0]]) <= bounds.log_start
    return not (
        apart.any()
        or (bounds.begins is not None and bounds.begins < packed.first[0] and not expired)
        or (bounds.copied_to is not None and bounds.copied_to > packed.end_upstream)
    )


def lost_stretches(offset_map: OffsetMap, bounds: CopyBounds) -> Iterator[LostStretch]:
    """Find the lost parts of a map that has segments, in order."""
    if bounds.log_start >= bounds.log_end:
        return  # no copy is left
    for start, end in _uncovered(offset_map, bounds):
        behind = int(np.searchsorted(offset_map.upstream, start, side="left"))
        after, before = bounds.log_start, bounds.log_end
        if behind:
            last = int(offset_map.downstream[behind - 1] + offset_map.length[behind - 1])
            after = max(after, last)
        if behind < len(offset_map.length):
            before = int(offset_map.downstream[behind])
        if before <= bounds.log_start:
            continue
        for first, stop in _without(start, end, bounds.known):
            yield LostStretch(first, stop, min(stop - first, max(0, before - after)), after, before)


def _uncovered(offset_map: OffsetMap, bounds: CopyBounds) -> Iterator[tuple[int, int]]:
    at = bounds.begins if bounds.begins is not None else offset_map.first_upstream
    for start, end in zip(offset_map.covered_from.tolist(), offset_map.covered_to.tolist(), strict=True):
        if at < start:
            yield at, start
        at = max(at, end)
    if bounds.copied_to is not None and at < bounds.copied_to:
        yield at, bounds.copied_to


def _without(start: int, end: int, known: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Cut known stretches out of [start, end)."""
    for first, stop in sorted(known):
        if stop <= start or first >= end:
            continue
        if start < first:
            yield start, first
        start = max(start, stop)
    if start < end:
        yield start, end
