"""Where a group goes on at the other side: the map's answer, held within the log that is there.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.packed_map import PackedMap
from twinlog.offsets.offset_map import OffsetMap, Translations
from twinlog.offsets.piece_table import Column


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read on the other side.

    `offset` lies within the log there.  `slack` is how many records may come again although the group starts right
    there: 0 when `exact` and not `ahead`; beyond the copy what the group had read beyond it, in a hole what lies
    behind the last record known to be read.  Both are counted in offsets, so at most that many records.
    """

    offset: int
    exact: bool
    ahead: bool
    slack: int = 0


def positions(
    packed: PackedMap | None,
    committed: Sequence[int],
    there: PartitionOffsets,
    gaps: Iterable[tuple[int, int]] = (),
) -> list[Position | None]:
    """Translate the committed offsets of one partition; `there` is the other side's log.

    `gaps` are upstream offsets [first, end) that are known to be lost.  None where nothing is known: an offset below
    everything mapped, while records that nobody mapped may still be read there (somebody else copied them).
    Raises FormatError and TerminalError for a map that cannot be used.
    """
    opened = packed.opened_at(committed).with_gaps(gaps) if packed is not None else None
    if opened is None or not len(opened.length):
        return [_without_records(opened, offset, there) for offset in committed]
    found = opened.translate_many(committed)
    return _placed(found, committed, (opened.upstream, opened.downstream, opened.length), there)


def positions_back(
    packed: PackedMap | None, committed: Sequence[int], there: PartitionOffsets
) -> list[Position | None]:
    """Translate committed offsets of a copy back to the partition it was copied from; as `positions`."""
    opened = packed.opened_back_at(committed) if packed is not None else None
    if opened is None or not len(opened.length):
        return [None for _ in committed]
    found = opened.reverse_many(committed)
    return _placed(found, committed, (opened.downstream, opened.upstream, opened.length), there)


def positions_both_ways(
    packed: PackedMap | None,
    way_back: PackedMap,
    committed: Sequence[int],
    there: PartitionOffsets,
    gaps: Iterable[tuple[int, int]] = (),
) -> list[Position | None]:
    """Translate where flows run both ways with unchanged names: each log holds its own records and the other's.

    A group that goes over must find every record it has not read: those of the source, by the map of the way there,
    and those of the other side, by the map of the way back (`way_back`).  The position is the earlier of the two, never
    a later one; `slack` counts exactly the copied records behind it that the group had read already, and beyond the
    copy the offsets it had read.  None below everything that was copied there, as in `positions`: the way back knows
    nothing of the source's own records.
    """
    opened = way_back.open()
    result: list[Position | None] = []
    for offset, own in zip(committed, positions(packed, committed, there, gaps), strict=True):
        others = max(
            there.log_start, min(there.end, _unread_of_the_other_side(opened, offset, there.log_start))
        )
        if own is None and packed is not None and packed.run_count:
            result.append(None)
            continue
        beyond = max(0, offset - (packed.end_upstream if packed is not None else 0))
        if own is None:
            result.append(Position(others, exact=False, ahead=beyond > 0, slack=beyond))
            continue
        start = min(own.offset, others)
        again = packed.records_between(start, own.offset) if packed is not None else 0
        again += _read_before(opened, start, others)
        result.append(replace(own, offset=start, slack=(beyond if own.ahead else own.slack) + again))
    return result


def _unread_of_the_other_side(way_back: OffsetMap, committed: int, log_start: int) -> int:
    """Offset there of the first record whose copy here lies at `committed` or behind it, or which has none yet.

    What the map covers without a run is nothing to read: echoes, which the way there places.  Before a
    hole in the map, where others may have copied: their copies may lie behind `committed`, too.
    """
    if not len(way_back.length):
        return _covered_to(way_back, log_start)
    row = int(np.searchsorted(way_back.downstream + way_back.length, committed, side="right"))
    if row == len(way_back.length):
        return _covered_to(way_back, int(way_back.upstream[-1] + way_back.length[-1]))
    into = committed - int(way_back.downstream[row])
    first = int(way_back.upstream[row])
    if into > 0:
        return first + into
    before = int(way_back.upstream[row - 1] + way_back.length[row - 1]) if row else log_start
    return min(first, _covered_to(way_back, before))


def _covered_to(way_back: OffsetMap, offset: int) -> int:
    """Up to where the map says what became of every record there, from `offset` on; `offset` itself in a hole."""
    stretch = int(np.searchsorted(way_back.covered_from, offset, side="right")) - 1
    return max(offset, int(way_back.covered_to[stretch])) if stretch >= 0 else offset


def _read_before(way_back: OffsetMap, start: int, end: int) -> int:
    """Count records of the other side in [start, end) there whose copies were read here."""
    inside = np.minimum(way_back.upstream + way_back.length, end) - np.maximum(way_back.upstream, start)
    return int(np.maximum(inside, 0).sum())


def _placed(
    found: Translations,
    committed: Sequence[int],
    runs: tuple[Column, Column, Column],
    there: PartitionOffsets,
) -> list[Position | None]:
    """Hold translations within the log; `runs` are from where, to where, and how long."""
    froms, tos, length = runs
    after = np.searchsorted(froms, np.asarray(committed, dtype=np.int64), side="right")
    read_to = np.where(after > 0, froms[after - 1] + length[after - 1], 0).tolist()
    result: list[Position | None] = []
    for row, offset in enumerate(committed):
        one = found.one(row)
        if not one.exact and offset <= froms[0]:
            # Nothing before it is mapped.  It is the oldest record to read there, or we do not know.
            known = int(tos[0]) <= there.log_start
            result.append(Position(there.log_start, exact=True, ahead=False) if known else None)
            continue
        slack = max(0, offset - read_to[row]) if one.ahead or not one.exact else 0
        held = min(max(one.offset, there.log_start), there.end)
        result.append(Position(held, one.exact and one.offset <= there.end, one.ahead, slack))
    return result


def _without_records(opened: OffsetMap | None, committed: int, there: PartitionOffsets) -> Position | None:
    """Nothing was copied yet: the next copied record comes at the end, unless somebody else wrote there."""
    if there.log_start != there.end:
        return None
    covered = opened is not None and opened.covers(committed)
    return Position(there.end, exact=covered, ahead=not covered, slack=0 if covered else committed)
