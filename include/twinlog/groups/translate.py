"""Where a group goes on at the other side: the map's answer, held within the log that is there.  Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.map.packed_map import PackedMap
from twinlog.offsets.offset_map import OffsetMap, Translation, Translations
from twinlog.offsets.piece_table import Column
from twinlog.state.ledger import Ledger
from twinlog.state.progress import SourceIncarnation

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


def never_copied(ledger: Ledger) -> Mapping[SourceIncarnation, Sequence[tuple[int, int]]]:
    """List the upstream offsets [first, end) that the ledger knows to be in no copy, by partition of a life.

    Gaps, and what the source had deleted when the copy of a topic began, if nobody else had written into that copy.
    """
    found: defaultdict[SourceIncarnation, list[tuple[int, int]]] = defaultdict(list)
    for it in ledger.beginnings.values():
        for number, log_start in it.log_starts.items() if it.into_empty else ():
            found[SourceIncarnation(it.topic, it.topic_id, int(number))].append((0, log_start))
    for gap in ledger.gaps:
        if gap.cause in LOST:
            life = SourceIncarnation(gap.topic, gap.topic_id, gap.partition)
            found[life].append((gap.first_offset, gap.last_offset + 1))
    return found


def begun_empty(ledger: Ledger) -> frozenset[SourceIncarnation]:
    """List the partitions of lives whose copy held no record when it began: all that is in it was copied by the flow.

    Not where the source was truncated since: its copy keeps what it has lost, and the map forgets that.
    """
    truncated = {(it.topic, it.partition) for it in ledger.gaps if it.cause is GapCause.TRUNCATION}
    return frozenset(
        SourceIncarnation(it.topic, it.topic_id, int(number))
        for it in ledger.beginnings.values()
        for number in (it.log_starts if it.into_empty else ())
        if (it.topic, int(number)) not in truncated
    )


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
        return [
            _without_records(opened, offset, still, there)
            for offset, still in zip(committed, unread, strict=True)
        ]
    froms, tos, length = opened.upstream, opened.downstream, opened.length
    begins = _upstream_of(opened, there.log_start)

    def known(still: int, _: Translation) -> bool:
        return opened.covers_all(still, begins)

    way = _Way(opened.translate_many, packed.records_between, known, froms, tos, length, there)
    return way.placed(committed, unread)


def positions_back(
    packed: PackedMap | None,
    committed: Sequence[int],
    there: PartitionOffsets,
    here: PartitionOffsets | None = None,
    gaps: Iterable[tuple[int, int]] = (),
    *,
    begun_empty: bool = False,
) -> list[Position | None]:
    """Translate committed offsets of a copy back to the partition it was copied from; as `positions`.

    With `begun_empty` the copy held no record when it began.  Where the map tells all from upstream offset 0 on, too,
    nothing can be read in front of the first mapped record: markers, and records that were aborted.
    """
    unread = _still_unread(committed, here)
    opened = packed.opened_back_at([*committed, *unread]).with_gaps(gaps) if packed is not None else None
    if packed is None or opened is None or not len(opened.length):
        return [None for _ in committed]
    froms, tos, length = opened.downstream, opened.upstream, opened.length
    nothing_before = begun_empty and opened.covers_all(0, int(tos[0]))

    def translate(wanted: Sequence[int]) -> Translations:
        found = opened.reverse_many(wanted)
        in_front = np.asarray(wanted, dtype=np.int64) < froms[0]
        return replace(found, exact=found.exact | in_front) if nothing_before else found

    def known(_: int, found: Translation) -> bool:
        return opened.covers_all(found.offset, min(there.log_start, opened.end_upstream))

    way = _Way(translate, packed.upstream_records_between, known, froms, tos, length, there)
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
        gone = _gone_there(opened, still, there.log_start)
        if own is None and packed is not None and packed.run_count:
            result.append(None)
            continue
        beyond = max(0, offset - (packed.end_upstream if packed is not None else 0))
        if own is None:
            result.append(Position(others, exact=False, ahead=beyond > 0, slack=beyond, missing=gone))
            continue
        start = min(own.offset, others)
        again = packed.records_between(start, own.offset) if packed is not None else 0
        again += _copied_back(opened, start, others)
        slack = (beyond if own.ahead else own.slack) + again
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


def _gone_there(way_back: OffsetMap, unread: int, log_start: int) -> int:
    """Count records of the other side that have expired there, and whose copies here lie at `unread` or behind it.

    The offsets, where a hole lies among them: others' copies of them may be unread here.
    """
    first = _unread_of_the_other_side(way_back, unread, log_start)
    known = way_back.covers_all(first, min(log_start, way_back.end_upstream))
    return _copied_back(way_back, first, log_start) if known else max(0, log_start - first)


def _upstream_of(opened: OffsetMap, downstream: int) -> int:
    """Upstream offset of the first mapped record at `downstream` or behind it; the end of the copy behind them all.

    Right behind a record it is the next upstream offset, whatever became of that.  A later one, which more has to be
    known for, where the map is opened only in part.
    """
    row = int(np.searchsorted(opened.downstream + opened.length, downstream))
    if row == len(opened.length):
        return opened.end_upstream
    return int(opened.upstream[row]) + max(0, downstream - int(opened.downstream[row]))


def _still_unread(committed: Sequence[int], here: PartitionOffsets | None) -> list[int]:
    """Where readers would go on in their own log: what has expired there is behind all of them."""
    begins = here.log_start if here is not None else 0
    return [max(offset, begins) for offset in committed]


@dataclass(frozen=True, slots=True)
class _Way:
    """One way over: translations, the count of mapped records between two offsets there, runs, and the log there.

    `known` says of an unread offset and its translation whether one stretch of the map holds all from there on to where
    the log there begins: in a hole others may have copied.  Runs are from where, to where, and how long.
    """

    translate: Callable[[Sequence[int]], Translations]
    count: Callable[[int, int], int]
    known: Callable[[int, Translation], bool]
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
            missing = self._missing(following.one(row), unread[row])
            exact = (one.exact or below) and one.offset <= there.end and not missing
            held = min(max(one.offset, there.log_start), there.end)
            result.append(Position(held, exact, one.ahead, slack, missing))
        return result

    def _missing(self, following: Translation, unread: int) -> int:
        """Count the unread records that are not there; the offsets, where the map does not know which are records."""
        unmapped = 0 if following.exact else max(0, int(self.froms[0]) - unread)
        lost = max(0, self.there.log_start - following.offset)
        if lost and self.known(unread, following):
            lost = self.count(following.offset, self.there.log_start)
        return unmapped + lost


def _without_records(
    opened: OffsetMap | None, committed: int, unread: int, there: PartitionOffsets
) -> Position | None:
    """No record is mapped: the next copied record comes at the end, unless somebody else wrote there.

    Nothing was copied yet, or what was copied has expired there and the map forgot it: then all of it that the map does
    not tell may be missing.
    """
    if there.log_start != there.end:
        return None
    if opened is None or not len(opened.covered_to) or committed > opened.end_upstream:
        return Position(there.end, exact=False, ahead=True, slack=committed)
    end = opened.end_upstream
    missing = 0 if opened.covers_all(unread, end) else end - unread
    return Position(there.end, exact=not missing, ahead=False, missing=missing)
