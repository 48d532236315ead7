"""Match a copy that another engine makes with its source, record by record, by what the records hold.  Pure.

Both logs are walked in order.  As long as the next records of both sides are equal, a few array operations compare
thousands at once.  Where they are not:

| the copy's next record            | the walk                            | what it finds                            |
|-----------------------------------|-------------------------------------|------------------------------------------|
| is a later record of the source   | goes on there                       | those skipped: missing, past the horizon |
| is an earlier one that was copied | goes on there (an engine restarted) | doubled                                  |
| is an earlier one that was skipped| goes on there                       | reordered                                |
| is none, in place of one like it  | goes on behind both                 | changed, and which fields                |
| is none                           | goes on behind it                   | foreign                                  |

What retention, compaction or damage took from either side is not comparable, and nothing is found.

Law: increments find what one pass finds, wherever they are cut, if the copy was never read further than the source.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from twinlog.batches.columns import Columns, Int64s
from twinlog.grouped import grouped
from twinlog.observe.last_copies import LastCopies, segments
from twinlog.observe.likeness import (
    NULL,
    OFFSET,
    TIMESTAMP,
    VALUE,
    WEAKER,
    alike,
    deletions,
    differences,
    keys,
    leading,
    traits,
)
from twinlog.observe.search import PROBE, Meeting, Search, window
from twinlog.observe.side import NOTHING_BEHIND, Log, Place, Side
from twinlog.observe.tally import Tally
from twinlog.observe.values import HORIZON_MS, Carried, Finding, Matched, Skipped, Stretch

MOST_STRAYS = 1024
"""Records without counterpart that are kept for what may be found behind them."""

MOST_BETWEEN = 16
"""Source records without a copy among which the source of a changed record is looked for."""

OFTEN = 64
"""Records changed in the same way until it counts as what the engine does to all."""

MOST_AWAITED = 200_000
"""Keys of a compacted topic of which a copy is awaited; those of others are not comparable."""

MOST_SKIPPED = 2_000
"""Skipped stretches that are waited for; if there are more, the oldest are missing at once."""


def match(
    source: Log,
    target: Log,
    carried: Carried,
    *,
    now_ms: int,
    horizon_ms: int = HORIZON_MS,
    hints: Sequence[tuple[int, int]] = (),
    compacted: bool = False,
    equal_offsets: bool = False,
) -> Matched:
    """Match what came since the last increment; `Carried(0, 0)` begins with both logs' first records.

    The end of `source` must have been asked for after that of `target`: then every copied record is in it.  `hints`
    are (upstream, downstream) that the engine tells of, in order, as MM2's offset syncs; they are tried, not believed.
    With `equal_offsets` a copy at another offset than its source record is changed.
    """
    walk = _Walk(Side(source, carried.source_to), Side(target, carried.target_to), carried, hints)
    walk.compacted, walk.equal_offsets, walk.now = compacted, equal_offsets, now_ms
    if compacted:
        walk.await_on()
    walk.run()
    walk.leave(horizon_ms)
    return walk.result(horizon_ms)


class _Walk:
    """The state of one increment: `upstream` and `downstream` are the offsets at which it looks next.

    `strays` are records of the copy before `downstream` that have no counterpart so far.  `awaited` are the last source
    records without a copy of compacted topics, by key, `seen_ms` when they were first seen, if an increment before did.
    """

    def __init__(
        self, source: Side, target: Side, carried: Carried, hints: Sequence[tuple[int, int]]
    ) -> None:
        self.source, self.target, self.carried = source, target, carried
        self.upstream, self.downstream = carried.source_to, carried.target_to
        self.copied_to, self.closed_to = carried.copied_to, carried.closed_to
        self.matched_to = carried.target_to
        self.skipped, self.unknown = list(carried.skipped), set(carried.unknown)
        self.strays: list[Place] = []
        self.unmatched_since = carried.unmatched_since
        self.copies, self.tally = LastCopies(carried.open), Tally()
        self.search, self.unmatched, self.looked_far = Search(source, hints), 0, 0
        self.last: tuple[int, bytes] | None = None
        self.ignored, self.compacted, self.equal_offsets, self.now = 0, False, False, 0
        self.changes: Counter[int] = Counter()
        self.awaited: dict[bytes, int] = {}
        self.seen_ms: dict[int, int] = {}

    def await_on(self) -> None:
        """Await the records of a compacted topic that an earlier increment did, if the source still has them."""
        told = [skipped for skipped in self.skipped if skipped.told]
        waiting, self.skipped = [skipped for skipped in self.skipped if not skipped.told], told
        for skipped in waiting:
            for offsets in self.source.stretches(*skipped.upstream):
                self.seen_ms |= dict.fromkeys(offsets.tolist(), skipped.seen_ms)
                self._await_keys(offsets)

    def run(self) -> None:
        """Walk to the end of the copy."""
        while (theirs := self.target.at(self.downstream)) is not None:
            if not self._equal(theirs) and not self._find():
                break

    def leave(self, horizon_ms: int) -> None:
        """Judge what has waited for longer than the horizon."""
        rest = self.strays + window(self.target, self.downstream)
        since = self.now if self.unmatched_since is None else self.unmatched_since
        self.unmatched_since = since if rest else None
        if rest and since <= self.now - horizon_ms:
            self.strays, self.downstream = rest, rest[-1].offset + 1
            self._judge_strays(self.upstream, at_end=True)
            self.unmatched_since = None
            self.run()
        if self.strays:
            self.downstream = self.strays[0].offset
        self.tally.not_comparable -= len(self.awaited)
        for offset in self.awaited.values():
            self.skipped.append(Skipped((offset, offset + 1), self.seen_ms.get(offset, self.now)))
        overdue = len([skipped for skipped in self.skipped if not skipped.told]) - MOST_SKIPPED
        for number, it in enumerate(self.skipped):
            if not it.told and (it.seen_ms <= self.now - horizon_ms or number < overdue):
                self.skipped[number] = Skipped(it.upstream, it.seen_ms, told=True)
                self.tally.add(Finding.MISSING, it.upstream, None, it.upstream[1] - it.upstream[0])

    def result(self, horizon_ms: int) -> Matched:
        """Close the map behind the horizon, and say what is known."""
        marks = _marked(self.carried.marks, self.now, self.downstream, horizon_ms)
        self.unknown |= {(began, end) for end, (began, _) in self.source.lost.items()}
        seen = max((at for ms, at in marks if ms <= self.now - horizon_ms), default=0)
        runs = self.copies.close(seen)
        open_from = self.copies.open[0].upstream if self.copies.open else self.copied_to
        self.copies.shorten()
        self.unknown |= self.copies.forgotten
        made = segments(self.closed_to, open_from, runs, self.unknown)
        carried = Carried(
            self.upstream,
            self.downstream,
            self.copied_to,
            max(self.closed_to, open_from),
            tuple(self.copies.open),
            marks,
            tuple(self.skipped[-2 * MOST_SKIPPED :]),
            tuple(sorted(it for it in self.unknown if it[1] > open_from)),
            self.unmatched_since,
        )
        tally = self.tally
        return Matched(
            made,
            tuple(tally.findings),
            carried,
            dict(tally.counts),
            tally.equal,
            tally.indistinct,
            tally.not_comparable,
            self.source.records,
            self.target.records,
        )

    def _equal(self, theirs: Place) -> bool:
        """Take all records at hand that are equal, or would be but for what this engine does to every record."""
        ours = self.source.at(self.upstream)
        if ours is None:
            return False
        blind = TIMESTAMP if theirs.chunk.append_time else 0
        left, right = (it.chunk.columns.where(slice(it.row, None)) for it in (ours, theirs))
        differs = leading(left, right, self.ignored | blind)
        count = len(differs)
        if not count:
            return False
        if self.strays:
            self._judge_strays(ours.offset)
        self._count_indistinct(ours, count)
        self._come(right.where(slice(count)))
        self._take(left.offsets[:count], right.offsets[:count], differs & ~blind)
        return True

    def _take(self, upstream: Int64s, downstream: Int64s, differs: Int64s) -> None:
        """Note copies of source records; both columns rise."""
        if not self.copied_to:
            self.closed_to = int(upstream[0])
        again = int(np.searchsorted(upstream, self.copied_to))
        if again:
            self._note_again(upstream[:again], downstream[:again])
        self.copies.add(upstream, downstream)
        moved = np.where(upstream == downstream, 0, OFFSET) if self.equal_offsets else 0
        self.tally.changed(upstream, downstream, differs | moved)
        self.upstream, self.downstream = int(upstream[-1]) + 1, int(downstream[-1]) + 1
        self.copied_to, self.matched_to = max(self.copied_to, self.upstream), self.downstream
        self.unmatched, self.looked_far = 0, self._patience

    @property
    def _patience(self) -> int:
        """Return how many records in a row may have no counterpart until they are looked for far away, again."""
        return PROBE << self.search.in_vain if self.search.in_vain else 0

    def _note_again(self, upstream: Int64s, downstream: Int64s) -> None:
        late = np.zeros(len(upstream), bool)
        kept: list[Skipped] = []
        for skipped in self.skipped:
            its = (upstream >= skipped.upstream[0]) & (upstream < skipped.upstream[1])
            late |= its
            kept += [
                Skipped(left, skipped.seen_ms, skipped.told)
                for left in _without(skipped.upstream, upstream[its])
            ]
        self.skipped = kept
        self.tally.rows(Finding.REORDERED, upstream, downstream, late)
        self.tally.rows(Finding.DOUBLED, upstream, downstream, ~late)

    def _find(self) -> bool:
        """Find where the copy goes on; return False if nothing is known of its last records yet."""
        copy = window(self.target, self.downstream)
        ignored = self.ignored | (TIMESTAMP if copy[0].chunk.append_time else 0)
        found = self.search.near(copy, self.upstream, ignored)
        if found is None and self.unmatched >= self.looked_far:
            found = self.search.far(copy, self.upstream, ignored)
            self.looked_far = max(2 * self.unmatched + PROBE, self._patience)
            weaker = None if found or self.ignored else self.search.weaker(copy, self.upstream, ignored)
            if weaker is not None:
                self.ignored = weaker
                return True
        if found == Meeting(0, self.upstream):
            found = None  # two fingerprints are the same, and the records are not
        if found is None and len(copy) < PROBE:
            return False
        behind = len(copy) if found is None else found.behind
        self.unmatched += behind
        self.strays += copy[:behind]
        self.downstream = copy[behind].offset if behind < len(copy) else copy[-1].offset + 1
        if found is not None:
            self._judge_strays(found.upstream)
            self.upstream = found.upstream
        elif len(self.strays) > MOST_STRAYS:
            self._judge_strays(self.upstream, at_end=True)
        return True

    def _judge_strays(self, meeting: int, *, at_end: bool = False) -> None:
        """Judge the copy's records without counterpart, and the source's up to the record at `meeting`.

        `at_end`: nothing was met, so that source records are left to what is copied later.
        """
        strays, self.strays = self.strays, []
        start, had = self.upstream, self.copied_to
        began, behind = self.matched_to, self.downstream
        onward = meeting >= start and not at_end
        until = meeting if onward else NOTHING_BEHIND
        count, most = len(strays), len(strays) + MOST_BETWEEN
        candidates = window(self.source, start, most, until) if strays else []
        if strays and not at_end:  # or the first ones of those copied again, or of those gone on with
            least = (candidates[-1].offset + 1 if candidates else start) if onward else 0
            candidates += window(self.source, max(least, meeting - most), most, meeting)[-count:]
        changed, foreign = _paired(strays, candidates, strictly=self.compacted)
        for stray, ours, differs in changed:
            blind = TIMESTAMP if stray.chunk.append_time else 0
            rows = (np.array([value], np.int64) for value in (ours.offset, stray.offset, differs & ~blind))
            self._take(*rows)
            self._note_change(differs & ~blind, keyed=_keyed(stray))
        self.downstream = behind
        end = NOTHING_BEHIND if at_end else meeting
        gone = self.source.lost_within(min(start, end), end)
        for stray in foreign:
            if gone or (self.compacted and _keyed(stray)):
                self.tally.not_comparable += 1
            else:
                self.tally.add(Finding.FOREIGN, None, (stray.offset, stray.offset + 1), 1)
        if onward:
            expired = self.target.lost_within(began, behind)
            if had and expired:
                self.unknown.add((max(start, had), meeting))
            if not had and not expired:  # the engine may have begun here; else they come, too late
                self.skipped.append(Skipped((start, meeting), self.now, told=True))
            left_out = {ours.offset for _, ours, _ in changed}
            self._skip(start, meeting, had, left_out, expired=expired or not had)
        for stray in strays:
            self._come(stray.chunk.columns.where(slice(stray.row, stray.row + 1)))

    def _note_change(self, fields: int, *, keyed: bool) -> None:
        """Tell records apart by their other fields from now on, if an engine changes the same ones again and again."""
        self.changes[fields] += 1
        if self.changes[fields] >= OFTEN and fields in WEAKER and (keyed or not fields & VALUE):
            self.ignored = fields

    def _skip(self, start: int, end: int, had: int, copied: set[int], *, expired: bool) -> None:
        """Note source records without a copy, but for those that were copied before the walk fell back (< `had`)."""
        for offsets in self.source.stretches(max(start, had), end):
            left = offsets[~np.isin(offsets, list(copied))] if copied else offsets
            if expired:
                self.tally.not_comparable += len(left)
            elif self.compacted and len(left):
                self._await_keys(left)
            else:
                self.skipped += [Skipped(run, self.now) for run in runs_of_offsets(left)]

    def _await_keys(self, offsets: Int64s) -> None:
        """Await records of a compacted topic, of one chunk: one is missing if nothing with its key was copied later.

        Deletions are not comparable, nor records that the source has a later one for.
        """
        self.tally.not_comparable += len(offsets)
        place = self.source.at(int(offsets[0]))
        assert place is not None
        columns = place.chunk.columns.where(np.isin(place.chunk.columns.offsets, offsets))
        for offset, key, deleted in zip(offsets.tolist(), keys(columns), deletions(columns), strict=True):
            self.awaited.pop(key, None)
            if key != NULL and not deleted and len(self.awaited) < MOST_AWAITED:
                self.awaited[key] = offset

    def _come(self, copies: Columns) -> None:
        """Await nothing that compaction may have taken from the copy for one of these later copies."""
        if self.awaited:
            for key in self.awaited.keys() & keys(copies):
                del self.awaited[key]

    def _count_indistinct(self, ours: Place, count: int) -> None:
        columns = ours.chunk.columns
        first = max(ours.row, 1, int(np.searchsorted(columns.offsets, self.copied_to)))
        end = ours.row + count
        if ours.row == 0 and ours.offset >= self.copied_to:
            self.tally.indistinct += ours.raw == self.last
        self.last = Place(ours.chunk, end - 1).raw
        if first >= end:
            return
        these, before = columns.where(slice(first, end)), columns.where(slice(first - 1, end - 1))
        same = np.flatnonzero((these.timestamps == before.timestamps) & (these.sizes == before.sizes))
        if len(same):
            self.tally.indistinct += int((differences(these.where(same), before.where(same)) == 0).sum())


def _paired(
    strays: Sequence[Place], candidates: Sequence[Place], *, strictly: bool
) -> tuple[list[tuple[Place, Place, int]], list[Place]]:
    """Pair records of the copy with source records that they may be changed copies of, in order; return the others.

    Of several source records the first counts of which but one field differs, else the first.  A record equal to one
    that has its pair is a double of it, if no later source record is left for it.
    """
    changed: list[tuple[Place, Place, int]] = []
    foreign: list[Place] = []
    at, of_copies = 0, dict[tuple[int, bytes], tuple[int, int]]()
    places = grouped((trait, number) for number, it in enumerate(candidates) for trait in traits(it.raw))
    for stray in strays:
        near: set[int] = set()
        for trait in traits(stray.raw):
            those = places.get(trait, ())
            first = bisect_left(those, at)
            near.update(those[first : first + MOST_BETWEEN])
        found = [
            (differs.bit_count() > 1, number, differs)
            for number in near
            if (differs := alike(candidates[number].raw, stray.raw, strictly=strictly)) is not None
        ]
        look = (0 if stray.chunk.append_time else stray.raw[0], stray.raw[1])
        if found:
            _, number, differs = min(found)
            of_copies[look] = number, differs
            at = number + 1
        if look in of_copies:
            number, differs = of_copies[look]
            changed.append((stray, candidates[number], differs))
        else:
            foreign.append(stray)
    return changed, foreign


def _keyed(place: Place) -> bool:
    return place.raw[1][:1] != NULL


def _without(stretch: Stretch, offsets: Int64s) -> Iterator[Stretch]:
    """Yield what is left of a stretch without some of its offsets."""
    first = stretch[0]
    for offset in offsets.tolist():
        if first < offset:
            yield first, offset
        first = offset + 1
    if first < stretch[1]:
        yield first, stretch[1]


def runs_of_offsets(offsets: Int64s) -> list[Stretch]:
    """Return the dense stretches of rising offsets."""
    if not len(offsets):
        return []
    edges = np.flatnonzero(np.diff(offsets) != 1) + 1
    firsts = offsets[np.concatenate(([0], edges))]
    lasts = offsets[np.append(edges - 1, len(offsets) - 1)]
    return list(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def _marked(
    marks: Sequence[tuple[int, int]], now: int, downstream: int, horizon_ms: int
) -> tuple[tuple[int, int], ...]:
    """Note what is seen now; marks are a sixteenth of the horizon apart, and the last that is past it is kept."""
    past = [mark for mark in marks if mark[0] <= now - horizon_ms][-1:]
    later = [mark for mark in marks if mark[0] > now - horizon_ms]
    if len(later) > 1 and later[-1][0] - later[-2][0] < horizon_ms // 16:
        later.pop()
    return (*past, *later, (now, downstream))
