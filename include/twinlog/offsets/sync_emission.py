"""Find the offset syncs that MM2 would have written during the mapped copy (OffsetSyncWriter, MirrorSourceTask).

MM2 considers every record that it copied.  A record becomes an offset sync if it is the first of all, if upstream
offsets were skipped before it, or if `offset.lag.max` downstream offsets have passed since the last sync.  The last
record of all becomes one, too, when the task commits.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from twinlog.offsets.offset_map import OffsetMap

MANY = 1_000
"""With more syncs than this they are thinned out: MM2's store would forget most of them at once (invariants B, C)."""

Pair = tuple[int, int]


def due_syncs(known: OffsetMap, last: Pair | None, lag_max: int) -> list[Pair]:
    """Return (upstream offset, downstream offset) of the syncs that are due behind the `last` one, in order.

    No sync is due twice: with the last of them as `last`, the answer is empty until the map grows.  A `last` that lies
    beyond the map's end (of a recreated topic, or another writer's positions) counts as none.
    """
    if not len(known.length):
        return []
    newest = int(known.upstream[-1] + known.length[-1] - 1), int(known.downstream[-1] + known.length[-1] - 1)
    if last == newest:
        return []
    if last is None or last[0] > newest[0] or last[1] > newest[1]:
        last = None
    runs = _behind(known, last)
    if len(runs) > MANY:
        runs = [runs[at] for at in _spaced(len(runs))]
    step = 1 + max(0, lag_max)
    rows = list(_due(runs, last, step))
    ends = list(accumulate(count for _, _, count in rows))
    total = ends[-1] if ends else 0
    due = [_at(rows, ends, step, place) for place in (range(total) if total <= MANY else _spaced(total))]
    return due if due and due[-1] == newest else [*due, newest]


def holds(known: OffsetMap, pair: Pair) -> bool:
    """Say whether a pair belongs to this copy: the map holds it, or begins behind it on both sides."""
    upstream, downstream = pair
    run = int(np.searchsorted(known.upstream, upstream, side="right")) - 1
    if run < 0:
        return bool(len(known.downstream) and downstream < known.downstream[0])
    behind = upstream - int(known.upstream[run])
    return behind < int(known.length[run]) and downstream == int(known.downstream[run]) + behind


def _behind(known: OffsetMap, last: Pair | None) -> list[tuple[int, int, int]]:
    """Return the extents that begin or go on behind the last sync, cut there: (upstream, downstream, length)."""
    first = last[0] + 1 if last is not None else 0
    start = int(np.searchsorted(known.upstream + known.length, first, side="right"))
    columns = (known.upstream[start:], known.downstream[start:], known.length[start:])
    rows = [tuple(row) for row in np.stack(columns, axis=1).tolist()]
    if rows and rows[0][0] < first:
        upstream, downstream, length = rows[0]
        cut = first - upstream
        rows[0] = (first, downstream + cut, length - cut)
    return rows


def _due(runs: list[tuple[int, int, int]], last: Pair | None, step: int) -> Iterator[tuple[int, int, int]]:
    """Apply MM2's rule extent by extent: yield the first sync in each, and how many follow `step` apart."""
    previous, synced = last if last is not None else (-1, -1)
    for upstream, downstream, length in runs:
        begins = synced < 0 or upstream != previous + 1
        first = 0 if begins else max(0, synced + step - downstream)
        if first < length:
            count = (length - 1 - first) // step + 1
            yield upstream + first, downstream + first, count
            synced = downstream + first + (count - 1) * step
        previous = upstream + length - 1


def _at(rows: Sequence[tuple[int, int, int]], ends: Sequence[int], step: int, place: int) -> Pair:
    """Return one of all the syncs by its number; there may be as many syncs as records."""
    row = bisect_right(ends, place)
    upstream, downstream, count = rows[row]
    into = (place - ends[row] + count) * step
    return upstream + into, downstream + into


def _spaced(count: int) -> list[int]:
    """Choose numbers from 0..count-1 whose distances double towards the beginning, as MM2's store keeps them."""
    back = {count - 1}
    step = 1
    while step < count:
        back |= {count - step, max(0, count - step - step // 2)}
        step *= 2
    return sorted({0} | back)
