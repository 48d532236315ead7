"""Translate a group's position to the other side: the map's answer, clamped to the log there. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.ledger.topics import LEFT_BY_A_PERSON
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.offset_map import OffsetMap, Translation, Translations
from twinlog.offsets.segments import Column
from twinlog.state.ledger import Ledger

LOST = LEFT_BY_A_PERSON | {GapCause.RETENTION, GapCause.DELETE_RECORDS}
"""Causes of lost ranges that were never copied."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read on the other side.

    `offset` lies within the log there.

    `max_duplicates` is how many records may be read again although the group starts exactly at `offset`. It is 0 if
    `exact` and not `ahead`. For a group ahead of the copy, it is what the group has read beyond the copy. In a range
    that no map segment covers, it is the distance from the last record known to be read. Both are counted in offsets,
    so they are upper bounds.

    `missing` is an upper bound of the records that the group has not read, and its own side still has, but not the
    other side: they have expired there, or were never copied. Such a position is not `exact`.
    """

    offset: int
    exact: bool
    ahead: bool
    max_duplicates: int = 0
    missing: int = 0


def never_copied(ledger: Ledger) -> Mapping[SourceIncarnation, Sequence[tuple[int, int]]]:
    """List the upstream offsets [first, end) that the ledger knows to be in no copy, by partition of an incarnation.

    These are the gaps, and the offsets that the source had deleted when the copy of a topic began, if that copy was
    empty then.
    """
    found: defaultdict[SourceIncarnation, list[tuple[int, int]]] = defaultdict(list)
    for it in ledger.beginnings.values():
        for number, log_start in it.log_starts.items() if it.into_empty else ():
            found[SourceIncarnation(it.topic, it.topic_id, int(number))].append((0, log_start))
    for gap in ledger.gaps:
        if gap.cause in LOST:
            found[gap.life].append((gap.first_offset, gap.last_offset + 1))
    return found


def begun_empty(ledger: Ledger) -> frozenset[SourceIncarnation]:
    """List the partitions of incarnations whose copy held no record at its beginning: the flow copied all it holds.

    Partitions whose source was truncated since are left out: the copy keeps the records the source lost, and the map
    has forgotten them.
    """
    truncated = {it.topic_partition for it in ledger.gaps if it.cause is GapCause.TRUNCATION}
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

    `gaps` are upstream offsets [first, end) that are known to be lost. `here` is the log the offsets are from, None if
    it cannot be read: records that have expired in it as well do not count as missing.

    The result is None for an offset whose translation is unknown: an offset below everything mapped, while records
    without a map, copied by another writer, may still be read there. Raises FormatError and TerminalError for a map
    that cannot be used.
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
    return way.held_within(committed, unread)


def positions_back(
    packed: PackedMap | None,
    committed: Sequence[int],
    there: PartitionOffsets,
    here: PartitionOffsets | None = None,
    gaps: Iterable[tuple[int, int]] = (),
    *,
    begun_empty: bool = False,
) -> list[Position | None]:
    """Translate committed offsets of a copy back to the partition it was copied from; otherwise as `positions`.

    With `begun_empty` the copy held no record at its beginning. If the map also covers all from upstream offset 0 on,
    then no readable record lies before the first mapped one: only markers, and records that were aborted.
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
    return way.held_within(committed, unread)


def positions_both_ways(
    packed: PackedMap | None,
    reverse: PackedMap,
    committed: Sequence[int],
    there: PartitionOffsets,
    gaps: Iterable[tuple[int, int]] = (),
    here: PartitionOffsets | None = None,
    *,
    reverse_stands: bool = False,
) -> list[Position | None]:
    """Translate between logs of flows both ways: each log has its own records and the other's.

    A group that moves over must find every record it has not read: the source's, by the map of the flow there, and the
    other side's own, by the map of the reverse flow (`reverse`). So the position is the earlier of the two:

        there:   ...... others ............ own ......
                        |                   translation by the map of the flow there
                        first unread record of the other side, by the map of the reverse flow
                 the group goes on at min(others, own)

    Behind the last record of its own that the flow has copied, its map knows no further place, and the other side's own
    records may follow. If a group has read the copy of one of these here, it has read all records that lie before it
    there: their originals or copies lay here before that copy came.

    `max_duplicates` counts exactly the copied records after that position that the group has read already, and, for a
    group ahead of the copy, the offsets read beyond it. The result is None below everything that was copied there, as
    in `positions`: the reverse flow's map knows nothing of the source's own records.

    With `reverse_stands` the reverse flow copies only on a way home, and nothing came from there behind its map.
    """
    opened = reverse.open()
    all_of_it = opened.with_gaps([(opened.end_upstream, there.end)]) if reverse_stands else opened
    # A map without records that covers all that a group may have read: none of it was copied there.
    covers = packed.open() if packed is not None and not packed.run_count else None
    begins = here.log_start if here is not None else 0
    unread = _still_unread(committed, here)
    result: list[Position | None] = []
    ways_there = positions(packed, committed, there, gaps, here)
    for offset, still, own in zip(committed, unread, ways_there, strict=True):
        known = opened if own is None else all_of_it
        unread_there = _unread_of_the_other_side(known, offset, there.log_start)
        others = max(there.log_start, min(there.end, unread_there))
        gone = _gone_there(opened, still, there.log_start)
        if own is None and packed is not None and packed.run_count:
            result.append(None)
            continue
        beyond = max(0, offset - (packed.end_upstream if packed is not None else 0))
        if own is None:
            exact = not (beyond or gone) and covers is not None and covers.covers_all(begins, still)
            result.append(Position(others, exact, ahead=beyond > 0, max_duplicates=beyond, missing=gone))
            continue
        ours = max(own.offset, min(_read_of_the_other_side(opened, offset), there.end))
        start = min(ours, others)
        again = packed.records_between(start, ours) if packed is not None else 0
        again += _copied_back(opened, start, others)
        max_duplicates = (beyond if own.ahead else own.max_duplicates) + again
        exact, missing = own.exact and not gone, own.missing + gone
        result.append(Position(start, exact, own.ahead, max_duplicates, missing))
    return result


def before_the_end_of(
    home: PackedMap,
    packed: PackedMap | None,
    committed: Sequence[int],
    there: PartitionOffsets,
    here: PartitionOffsets,
    back: Sequence[Position | None],
) -> list[Position | None]:
    """Translate readers of a copy back to its topic, where `home` has brought records of the copy itself.

    Behind the end of that map a reader has read all that came home, and the way `back` by the flow's own map (`packed`)
    is right.  Before it, a position by that map alone might lie behind records that came home and are unread.
    """
    nothing = PackedMap.of({})
    both = positions_both_ways(home, packed or nothing, committed, there, (), here)
    return [
        alone if offset >= home.end_upstream else mixed
        for offset, alone, mixed in zip(committed, back, both, strict=True)
    ]


def _unread_of_the_other_side(reverse: OffsetMap, committed: int, log_start: int) -> int:
    """Return the offset there of the other side's first record whose copy here is missing, or at or after `committed`.

    Offsets that the map covers without an extent need no reading: they are loopback records, found by the map of the
    flow there. The result lies before a range that the map does not cover: other writers may have copied there, and
    their copies here may also lie after `committed`.
    """
    if not len(reverse.length):
        return _covered_to(reverse, log_start)
    row = int(np.searchsorted(reverse.downstream + reverse.length, committed, side="right"))
    if row == len(reverse.length):
        return _covered_to(reverse, int(reverse.upstream[-1] + reverse.length[-1]))
    into = committed - int(reverse.downstream[row])
    first = int(reverse.upstream[row])
    if into > 0:
        return first + into
    before = int(reverse.upstream[row - 1] + reverse.length[row - 1]) if row else log_start
    return min(first, _covered_to(reverse, before))


def _read_of_the_other_side(reverse: OffsetMap, committed: int) -> int:
    """Return the offset there behind the other side's last record whose copy here lies before `committed`, or 0."""
    row = int(np.searchsorted(reverse.downstream, committed)) - 1
    if row < 0:
        return 0
    return int(reverse.upstream[row]) + min(
        int(reverse.length[row]), committed - int(reverse.downstream[row])
    )


def _covered_to(reverse: OffsetMap, offset: int) -> int:
    """Return the end of the covered range that `offset` lies in; `offset` itself if the map does not cover it."""
    stretch = int(np.searchsorted(reverse.covered_from, offset, side="right")) - 1
    return max(offset, int(reverse.covered_to[stretch])) if stretch >= 0 else offset


def _copied_back(reverse: OffsetMap, start: int, end: int) -> int:
    """Count records of the other side in [start, end) there that have a copy here."""
    inside = np.minimum(reverse.upstream + reverse.length, end) - np.maximum(reverse.upstream, start)
    return int(np.maximum(inside, 0).sum())


def _gone_there(reverse: OffsetMap, unread: int, log_start: int) -> int:
    """Count records of the other side that have expired there, and whose copies here lie at or after `unread`.

    If the map does not cover their whole range, count offsets instead: copies by other writers may be unread here.
    """
    first = _unread_of_the_other_side(reverse, unread, log_start)
    known = reverse.covers_all(first, min(log_start, reverse.end_upstream))
    return _copied_back(reverse, first, log_start) if known else max(0, log_start - first)


def _upstream_of(opened: OffsetMap, downstream: int) -> int:
    """Return the upstream offset of the first mapped record at or after `downstream`, or the copy's end if none.

    Right after a mapped record this is the next upstream offset, whether or not that was copied. If the map is opened
    only in part, the result may be later; the map must then cover more for an exact answer.
    """
    row = int(np.searchsorted(opened.downstream + opened.length, downstream))
    if row == len(opened.length):
        return opened.end_upstream
    return int(opened.upstream[row]) + max(0, downstream - int(opened.downstream[row]))


def _still_unread(committed: Sequence[int], here: PartitionOffsets | None) -> list[int]:
    """Return where readers would go on in their own log: after all records that have expired in it."""
    begins = here.log_start if here is not None else 0
    return [max(offset, begins) for offset in committed]


@dataclass(frozen=True, slots=True)
class _Way:
    """One direction of translation, with the extents of its map and the log there.

    `count` counts the mapped records between two offsets there. `known` says, for an unread offset and its
    translation, whether one covered range of the map reaches from there to the start of the log there. Otherwise other
    writers may have copied in between. Extents are given as columns: from where (`froms`), to where (`tos`), and how
    long (`length`).
    """

    translate: Callable[[Sequence[int]], Translations]
    count: Callable[[int, int], int]
    known: Callable[[int, Translation], bool]
    froms: Column
    tos: Column
    length: Column
    there: PartitionOffsets

    def held_within(self, committed: Sequence[int], unread: Sequence[int]) -> list[Position | None]:
        """Clamp translations to the log there; `unread` is where each reader would go on in its own log.

        A position is never outside of the log there:

            log there:         log_start ................. end
            translation:   x                                          -> log_start; records in between are `missing`
                                          x                           -> itself
                                                                 x    -> end; not `exact`
        """
        found, following = self.translate(committed), self.translate(unread)
        after = np.searchsorted(self.froms, np.asarray(committed, dtype=np.int64), side="right")
        read_to = np.where(after > 0, self.froms[after - 1] + self.length[after - 1], 0).tolist()
        there, first = self.there, int(self.froms[0])
        result: list[Position | None] = []
        for row, offset in enumerate(committed):
            one = found.one(row)
            below = offset < first and not one.exact
            if below and int(self.tos[0]) > there.log_start:
                result.append(None)  # the unread records may lie there before the first mapped record
                continue
            max_duplicates = max(0, offset - read_to[row]) if one.ahead or not (one.exact or below) else 0
            missing = self._missing(following.one(row), unread[row])
            exact = (one.exact or below) and one.offset <= there.end and not missing
            held = min(max(one.offset, there.log_start), there.end)
            result.append(Position(held, exact, one.ahead, max_duplicates, missing))
        return result

    def _missing(self, following: Translation, unread: int) -> int:
        """Count the unread records that are not there; count offsets if the map does not know which are records."""
        unmapped = 0 if following.exact else max(0, int(self.froms[0]) - unread)
        lost = max(0, self.there.log_start - following.offset)
        if lost and self.known(unread, following):
            lost = self.count(following.offset, self.there.log_start)
        return unmapped + lost


def _without_records(
    opened: OffsetMap | None, committed: int, unread: int, there: PartitionOffsets
) -> Position | None:
    """Return a position although no record is mapped: the log's end, if the log there is empty, else None.

    If the log there is not empty, another writer may have written there. If it is empty, either nothing was copied
    yet, or what was copied has expired there and the map forgot it. Then every unread offset that the map does not
    cover may be missing.
    """
    if there.log_start != there.end:
        return None
    if opened is None or not len(opened.covered_to) or committed > opened.end_upstream:
        return Position(there.end, exact=False, ahead=True, max_duplicates=committed)
    end = opened.end_upstream
    missing = 0 if opened.covers_all(unread, end) else end - unread
    return Position(there.end, exact=not missing, ahead=False, missing=missing)
