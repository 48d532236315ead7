"""Find where a reader goes on at the other side: by the maps, held within the log there. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlog.cluster.values import PartitionOffsets
from twinlog.formats.map.packed_map import PackedMap
from twinlog.groups.maps import NO_MAPS, NOTHING, PartitionMaps, readable
from twinlog.offsets.offset_map import OffsetMap, Translation, Translations
from twinlog.offsets.segments import Column


@dataclass(frozen=True, slots=True)
class Place:
    """Where a reader goes on at the other side, and what that is worth.

    - `offset` is the next one to read there, within the log there; None if the reader has no place, and `why` says so.
    - `exact`: it is the first record not yet read, and the reader skips none.
    - `ahead`: the reader was beyond the copy, and goes on at its end.
    - `again` is how many records are read again at most by a reader that starts at `offset`. It is 0 if `exact` and
      not `ahead`. For a reader ahead of the copy, it is what it has
      read beyond the copy. In a range that no map segment covers, it is the distance from the last record known to be
      read. Both are counted in offsets.
    - `skipped` is an upper bound of the records that the reader has not read, and its own side still has, but not the
      other side: they have expired there, or were never copied. Such a place is not `exact`.
    """

    offset: int | None
    exact: bool = False
    ahead: bool = False
    again: int = 0
    skipped: int = 0
    why: str = ""


def places(
    offsets: Sequence[int], maps: PartitionMaps, there: PartitionOffsets, here: PartitionOffsets | None = None
) -> list[Place]:
    """Find the places of readers of one partition, given the next offset that each reads.

    `there` is the other side's log. `here` is the log the offsets are from, None if it cannot be read: records that
    have expired in it as well do not count as skipped.

    A reader has no place below everything mapped, while records without a map, copied by another writer, may still be
    read there. Raises UnreadableMap for a map that cannot be used.
    """
    onward, homeward = readable(maps.onward), readable(maps.homeward)
    readers = _Readers(offsets, there, here)
    if not maps.back and homeward is None:
        found = _onward(onward or NOTHING, maps, readers)
    elif not maps.back:
        found = _both_ways(onward or NOTHING, homeward or NOTHING, maps, readers)
    else:
        found = _home(homeward or NOTHING, maps, readers)
        if onward is not None:
            # Before the end of that map, records of the copy itself that came home may be unread.
            both = _both_ways(onward, homeward or NOTHING, NO_MAPS, readers)
            found = [
                alone if offset >= onward.end_upstream else mixed
                for offset, alone, mixed in zip(offsets, found, both, strict=True)
            ]
    return [
        it
        if it is not None
        else Place(None, why=f"nothing is known of offset {offset} and what lies before it")
        for offset, it in zip(offsets, found, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Readers:
    """The next offsets of readers of one partition, the log there, and their own, as in `places`."""

    offsets: Sequence[int]
    there: PartitionOffsets
    here: PartitionOffsets | None

    @property
    def begins(self) -> int:
        """Where the readers' own log begins."""
        return self.here.log_start if self.here is not None else 0

    @property
    def unread(self) -> list[int]:
        """Where they would go on in their own log: after all records that have expired in it."""
        return [max(offset, self.begins) for offset in self.offsets]


def _onward(packed: PackedMap, maps: PartitionMaps, readers: _Readers) -> list[Place | None]:
    """Translate by the map of the flow that copies from here to there."""
    offsets, unread = readers.offsets, readers.unread
    opened = packed.opened_at([*offsets, *unread]).with_gaps(maps.gaps)
    if not len(opened.length):
        return [_without_records(opened, *one, readers) for one in zip(offsets, unread, strict=True)]
    begins = _upstream_of(opened, readers.there.log_start)

    def known(still: int, _: Translation) -> bool:
        return opened.covers_all(still, begins)

    froms, tos, length = opened.upstream, opened.downstream, opened.length
    way = _Way(opened.translate_many, packed.records_between, known, froms, tos, length, readers)
    return way.held_within()


def _home(packed: PackedMap, maps: PartitionMaps, readers: _Readers) -> list[Place | None]:
    """Translate readers of a copy back to the partition it was copied from.

    If the copy held no record at its beginning, and the map also covers all from upstream offset 0 on, then no
    readable record lies before the first mapped one: only markers, and records that were aborted.
    """
    opened = packed.opened_back_at([*readers.offsets, *readers.unread]).with_gaps(maps.gaps)
    if not len(opened.length):
        return [None for _ in readers.offsets]
    froms, tos, length = opened.downstream, opened.upstream, opened.length
    nothing_before = maps.begun_empty and opened.covers_all(0, int(tos[0]))

    def translate(wanted: Sequence[int]) -> Translations:
        found = opened.reverse_many(wanted)
        in_front = np.asarray(wanted, dtype=np.int64) < froms[0]
        return replace(found, exact=found.exact | in_front) if nothing_before else found

    def known(_: int, found: Translation) -> bool:
        return opened.covers_all(found.offset, min(readers.there.log_start, opened.end_upstream))

    way = _Way(translate, packed.upstream_records_between, known, froms, tos, length, readers)
    return way.held_within()


def _both_ways(
    onward: PackedMap, homeward: PackedMap, maps: PartitionMaps, readers: _Readers
) -> list[Place | None]:
    """Translate between logs of flows both ways: each log has its own records and the other's.

    A reader that moves over must find every record it has not read: its own side's, by the map of the flow there, and
    the other side's own, by the map of the reverse flow. So its place is the earlier of the two:

        there:   ...... others ............ own ......
                        |                   translation by the map of the flow there
                        first unread record of the other side, by the map of the reverse flow
                 the reader goes on at min(others, own)

    Behind the last record of its own that the flow has copied, its map knows no further place, and the other side's own
    records may follow. If a reader has read the copy of one of these here, it has read all records that lie before it
    there: their originals or copies lay here before that copy came.

    `again` counts exactly the copied records after that place that were read already, and, for a reader ahead of the
    copy, the offsets read beyond it. There is no place below everything that was copied there, as in `_onward`: the
    reverse flow's map knows nothing of the reader's own side.
    """
    opened, there = homeward.open(), readers.there
    all_of_it = opened.with_gaps([(opened.end_upstream, there.end)]) if maps.lent else opened
    # A map without records that covers all that a reader may have read: none of it was copied there.
    covers = onward.open() if onward.end_upstream and not onward.run_count else None
    result: list[Place | None] = []
    ways_there = _onward(onward, maps, readers)
    for offset, still, own in zip(readers.offsets, readers.unread, ways_there, strict=True):
        known = opened if own is None else all_of_it
        unread_there = _unread_of_the_other_side(known, offset, there.log_start)
        others = max(there.log_start, min(there.end, unread_there))
        gone = _gone_there(opened, still, there.log_start)
        beyond = max(0, offset - onward.end_upstream)
        if own is None or own.offset is None:
            exact = not (beyond or gone) and covers is not None and covers.covers_all(readers.begins, still)
            without = Place(others, exact, ahead=beyond > 0, again=beyond, skipped=gone)
            result.append(None if onward.run_count else without)
            continue
        ours = max(own.offset, min(_read_of_the_other_side(opened, offset), there.end))
        start = min(ours, others)
        again = onward.records_between(start, ours) + _copied_back(opened, start, others)
        again += beyond if own.ahead else own.again
        result.append(Place(start, own.exact and not gone, own.ahead, again, own.skipped + gone))
    return result


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
    readers: _Readers

    def held_within(self) -> list[Place | None]:
        """Clamp the readers' translations to the log there.

        A place is never outside of the log there:

            log there:         log_start ................. end
            translation:   x                                          -> log_start; records in between are `skipped`
                                          x                           -> itself
                                                                 x    -> end; not `exact`
        """
        offsets, unread, there = self.readers.offsets, self.readers.unread, self.readers.there
        found, following = self.translate(offsets), self.translate(unread)
        after = np.searchsorted(self.froms, np.asarray(offsets, dtype=np.int64), side="right")
        read_to = np.where(after > 0, self.froms[after - 1] + self.length[after - 1], 0).tolist()
        first = int(self.froms[0])
        result: list[Place | None] = []
        for row, offset in enumerate(offsets):
            one = found.one(row)
            below = offset < first and not one.exact
            if below and int(self.tos[0]) > there.log_start:
                result.append(None)  # the unread records may lie there before the first mapped record
                continue
            again = max(0, offset - read_to[row]) if one.ahead or not (one.exact or below) else 0
            skipped = self._skipped(following.one(row), unread[row])
            exact = (one.exact or below) and one.offset <= there.end and not skipped
            held = min(max(one.offset, there.log_start), there.end)
            result.append(Place(held, exact, one.ahead, again, skipped))
        return result

    def _skipped(self, following: Translation, unread: int) -> int:
        """Count the unread records that are not there; count offsets if the map does not know which are records."""
        unmapped = 0 if following.exact else max(0, int(self.froms[0]) - unread)
        begins = self.readers.there.log_start
        lost = max(0, begins - following.offset)
        if lost and self.known(unread, following):
            lost = self.count(following.offset, begins)
        return unmapped + lost


def _without_records(opened: OffsetMap, offset: int, unread: int, readers: _Readers) -> Place | None:
    """Return a place although no record is mapped: the log's end, if the log there is empty, else None.

    If the log there is not empty, another writer may have written there. If it is empty, either nothing was copied
    yet, or what was copied has expired there and the map forgot it. Then every unread offset that the map does not
    cover may be skipped. In a log that has never held a record, only what the reader's own side still holds comes yet.
    """
    there, here = readers.there, readers.here
    if there.log_start != there.end:
        return None
    if len(opened.covered_to) and offset <= opened.end_upstream:
        end = opened.end_upstream
        skipped = 0 if opened.covers_all(unread, end) else end - unread
        return Place(there.end, exact=not skipped, skipped=skipped)
    if here is None or there.end:
        return Place(there.end, ahead=True, again=offset)
    again = max(0, offset - here.log_start)
    nothing_comes = not again and unread >= here.end
    return Place(there.end, exact=nothing_comes, ahead=not nothing_comes, again=again)
