"""Where a group goes on at the other side: the map's answer, held within the log that is there.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from twinlog.cluster.ledger import Ledger
from twinlog.cluster.progress import SourceLife
from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger import GapCause
from twinlog.formats.packed_map import PackedMap
from twinlog.offsets.offset_map import OffsetMap, Translation, Translations
from twinlog.offsets.piece_table import Column

LOST = frozenset({GapCause.RETENTION, GapCause.DELETE_RECORDS})
"""Gaps in which nothing was ever copied."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read on the other side.

    `offset` lies within the log there.  `slack` is how many records may come again although the group starts right
    there: 0 when `exact` and not `ahead`; beyond the copy what the group had read beyond it, in a hole what lies
    behind the last record known to be read.  Both are counted in offsets, so at most that many records.

    `missing` is at most how many records that the group has not read, and that its own side still has, are not on
    the other side: they have expired there, or were never copied.  Such a position is not `exact`.
    """

    offset: int
    exact: bool
    ahead: bool
    slack: int = 0
    missing: int = 0


def never_copied(ledger: Ledger) -> Mapping[SourceLife, Sequence[tuple[int, int]]]:
    """List the upstream offsets [first, end) that the ledger knows to be in no copy, by partition of a life.

    Gaps, and what the source had deleted when the copy of a topic began, if nobody else had written into that copy.
    """
    found: defaultdict[SourceLife, list[tuple[int, int]]] = defaultdict(list)
    for it in ledger.beginnings.values():
        for number, log_start in it.log_starts.items() if it.into_empty else ():
            found[SourceLife(it.topic, it.topic_id, int(number))].append((0, log_start))
    for gap in ledger.gaps:
        if gap.cause in LOST:
            life = SourceLife(gap.topic, gap.topic_id, gap.partition)
            found[life].append((gap.first_offset, gap.last_offset + 1))
    return found


def positions(
    packed: PackedMap | None,
    committed: Sequence[int],
    there: PartitionOffsets,
    gaps: Iterable[tuple[int, int]] = (),
    here: PartitionOffsets | None = None,
) -> list[Position | None]:
    """Translate the committed offsets of one partition; `there` is the other side's log.

    `gaps` are upstream offsets [first, end) that are known to be lost.  `here` is the log the offsets are from, None
    while it cannot be asked: what has expired there as well is missed by nobody.

    None where nothing is known: an offset below everything mapped, while records that nobody mapped may still be read
    there (somebody else copied them).
    Raises FormatError and TerminalError for a map that cannot be used.
    """
    unread = _still_unread(committed, here)
    opened = packed.opened_at([*committed, *unread]).with_gaps(gaps) if packed is not None else None
    if packed is None or opened is None or not len(opened.length):
        return [_without_records(opened, offset, there) for offset in committed]
    way = _Way(
        opened.translate_many,
        packed.records_between,
        opened.upstream,
        opened.downstream,
        opened.length,
        there,
    )
    return way.placed(committed, unread)


def positions_back(
    packed: PackedMap | None,
    committed: Sequence[int],
    there: PartitionOffsets,
    here: PartitionOffsets | None = None,
) -> list[Position | None]:
    """Translate committed offsets of a copy back to the partition it was copied from; as `positions`."""
    unread = _still_unread(committed, here)
    opened = packed.opened_back_at([*committed, *unread]) if packed is not None else None
    if packed is None or opened is None or not len(opened.length):
        return [None for _ in committed]
    froms, tos, length = opened.downstream, opened.upstream, opened.length
    way = _Way(opened.reverse_many, packed.upstream_records_between, froms, tos, length, there)
    return way.placed(committed, unread)


def positions_both_ways(
    packed: PackedMap | None,
    way_back: PackedMap,
    committed: Sequence[int],
    there: PartitionOffsets,
    gaps: Iterable[tuple[int, int]] = (),
    here: PartitionOffsets | None = None,
) -> list[Position | None]:
    """Translate where flows run both ways with unchanged names: each log holds its own records and the other's.

    A group that goes over must find every record it has not read: those of the source, by the map of the way there,
    and those of the other side, by the map of the way back (`way_back`).  The position is the earlier of the two, never
    a later one; `slack` counts exactly the copied records behind it that the group had read already, and beyond the
    copy the offsets it had read.  None below everything that was copied there, as in `positions`: the way back knows
    nothing of the source's own records.
    """
    opened = way_back.open()
    unread = _still_unread(committed, here)
    result: list[Position | None] = []
    ways_there = positions(packed, committed, there, gaps, here)
    for offset, still, own in zip(committed, unread, ways_there, strict=True):
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
        again += _copied_back(opened, start, others)
        slack = (beyond if own.ahead else own.slack) + again
        gone = _copied_back(
            opened, _unread_of_the_other_side(opened, still, there.log_start), there.log_start
        )
        exact, missing = own.exact and not gone, own.missing + gone
        result.append(Position(start, exact, own.ahead, slack, missing))
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


def _copied_back(way_back: OffsetMap, start: int, end: int) -> int:
    """Count records of the other side in [start, end) there that have a copy here."""
    inside = np.minimum(way_back.upstream + way_back.length, end) - np.maximum(way_back.upstream, start)
    return int(np.maximum(inside, 0).sum())


def _still_unread(committed: Sequence[int], here: PartitionOffsets | None) -> list[int]:
    """Where readers would go on in their own log: what has expired there is behind all of them."""
    begins = here.log_start if here is not None else 0
    return [max(offset, begins) for offset in committed]


@dataclass(frozen=True, slots=True)
class _Way:
    """One way over: translations, the count of mapped records between two offsets there, runs, and the log there.

    Runs are from where, to where, and how long.
    """

    translate: Callable[[Sequence[int]], Translations]
    count: Callable[[int, int], int]
    froms: Column
    tos: Column
    length: Column
    there: PartitionOffsets

    def placed(self, committed: Sequence[int], unread: Sequence[int]) -> list[Position | None]:
        """Hold translations within the log; `unread` is where each reader would go on in its own."""
        found, following = self.translate(committed), self.translate(unread)
        after = np.searchsorted(self.froms, np.asarray(committed, dtype=np.int64), side="right")
        read_to = np.where(after > 0, self.froms[after - 1] + self.length[after - 1], 0).tolist()
        there, first = self.there, int(self.froms[0])
        result: list[Position | None] = []
        for row, offset in enumerate(committed):
            one = found.one(row)
            below = offset < first and not one.exact
            if below and int(self.tos[0]) > there.log_start:
                result.append(None)  # what lies there before the first mapped record may be what comes next
                continue
            slack = max(0, offset - read_to[row]) if one.ahead or not (one.exact or below) else 0
            missing = self._missing(one, following.one(row), unread[row])
            exact = (one.exact or below) and one.offset <= there.end and not missing
            held = min(max(one.offset, there.log_start), there.end)
            result.append(Position(held, exact, one.ahead, slack, missing))
        return result

    def _missing(self, one: Translation, following: Translation, unread: int) -> int:
        """Count the unread records that are not there; the offsets, where the map does not know which are records."""
        unmapped = 0 if following.exact else max(0, int(self.froms[0]) - unread)
        if one.offset >= self.there.log_start:
            return unmapped
        if following.exact:
            return self.count(following.offset, self.there.log_start)
        return unmapped + max(0, self.there.log_start - following.offset)


def _without_records(opened: OffsetMap | None, committed: int, there: PartitionOffsets) -> Position | None:
    """Nothing was copied yet: the next copied record comes at the end, unless somebody else wrote there."""
    if there.log_start != there.end:
        return None
    # All of the copy from there on is known to hold nothing; what was in it before may have expired there.
    end = opened.end_upstream if opened is not None else -1
    covered = opened is not None and committed <= end and opened.covers_all(committed, end)
    return Position(there.end, exact=covered, ahead=not covered, slack=0 if covered else committed)
