"""Compare the copied records of one partition on both sides, batch by batch and record by record.  Pure.

| on the source   | on the target                         | outcome                                              |
|-----------------|---------------------------------------|------------------------------------------------------|
| a whole batch   | the same bytes, where the map puts it | equal, without decoding a record                     |
| a record        | equal, where the map puts it          | equal                                                |
| a record        | another one                           | key, value, headers or timestamp differs             |
| a record        | nothing there                         | missing; unless retention or compaction explains it  |
| nothing there   | a record that the map knows           | extra; unless retention or compaction explains it    |
|                 | a record that the map does not know   | extra                                                |
| records         | the same ones, elsewhere              | order                                                |

Records of other writers in a shared topic are left out first (twinlog.audit.comparison.foreign_records).  The source's
records are compared as the flow's transforms leave them (twinlog.audit.comparison.transformed).

Law: if both sides are good, this finds no difference.  Every record of the scope is counted exactly once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from twinlog.audit.comparison.alignment import Pair, align, by_offset
from twinlog.audit.comparison.compaction import AwaitedKeys, LastOffsets
from twinlog.audit.comparison.foreign_records import on_source, on_target
from twinlog.audit.comparison.map_ranges import Places, mapped_into
from twinlog.audit.comparison.one_side import Side
from twinlog.audit.comparison.record_fields import RawRecord, differing, key_of, records_of
from twinlog.audit.comparison.same_bytes import common_count, equal_prefix, same_records
from twinlog.audit.comparison.totals import Totals
from twinlog.audit.comparison.values import Comparison, Scope
from twinlog.batches.header import BatchHeader
from twinlog.batches.transform.apply import Transform
from twinlog.formats.ledger.audit import DifferenceKind, Unproved
from twinlog.logs.partition_reader import Block, Item, Lost


class Transformed:
    """The source's side as its transforms leave it, as the copy did, before both sides are compared.

    A batch that the transforms leave alone stays as it lies, so that it can be compared as bytes.

    `last` are the keys of dropped records of a compacted topic.
    """

    def __init__(self, items: Iterable[Item], scope: Scope) -> None:
        self._items = items
        self._transform = Transform(scope.chain)
        self._compacted = scope.compacted
        self.last = LastOffsets()

    def __iter__(self) -> Iterator[Item]:
        for item in self._items:
            made = item if isinstance(item, Lost) else self._made(item)
            if isinstance(made, Lost) or len(made):
                yield made

    def _made(self, block: Block) -> Block:
        parts: list[memoryview] = []
        changed = False
        for header, data in block.batches():
            batches = self._transform.batch(header, data)
            if batches is None:
                parts.append(data)
                continue
            changed = True
            parts += batches
            if self._compacted:
                self._note_dropped(header, data, batches)
        return Block.of(memoryview(b"".join(parts))) if changed else block

    def _note_dropped(self, header: BatchHeader, data: memoryview, made: Iterable[memoryview]) -> None:
        kept = {it.offset for batch in made for it in records_of(BatchHeader.read(batch), batch)}
        for record in records_of(header, data):
            if record.offset not in kept:
                self.last.note(record)


WINDOW = 256
"""Records of each side that are looked at together if they do not pair up by offset."""


def compare(
    scope: Scope,
    source: Iterable[Item],
    target: Iterable[Item],
    source_behind: Iterable[Item] | None = None,
    target_behind: Iterable[Item] | None = None,
) -> Comparison:
    """Compare the scope's records; each side is read once, in order, as far as needed.

    The two iterables `behind` continue the sides to the ends of the logs.  They are read only for keys that compaction
    must have kept there.  Without them such records are unproved.
    """
    ours, theirs = on_source(scope, source), on_target(scope, target)
    made = Transformed(ours, scope) if scope.chain else ours
    walk = _Walk(scope, made, theirs)
    walk.run()
    walk.awaited.superseded_by({**ours.last.latest, **made.last.latest}, theirs.last.latest)
    kept = all(it.last.all_kept for it in (ours, made, theirs))
    if source_behind is not None and target_behind is not None and kept:
        walk.awaited.look_behind(source_behind, target_behind)
        walk.judge_awaited()
    else:
        walk.leave_open()
    return dataclasses.replace(walk.totals.result(walk.awaited.superseded), others=theirs.records)


class _Walk:
    """The state of one comparison.

    `shift` is the distance of the target's records from where the map puts them.  It is 0 unless a record is missing
    or extra before them in a log that another writer wrote:

        source record             10                   11     12
        the map puts its copy at  100                  101    102
        the copy is found at      100   (extra: 101)   102    103
        shift                     0                    +1     +1

    `last_upstream` is the last record compared as a single record.  `one_by_one` counts the records still to be
    compared singly, because the first of them is not equal.
    """

    def __init__(self, scope: Scope, source: Iterable[Item], target: Iterable[Item]) -> None:
        self.scope = scope
        self.source = Side(source, scope.start, scope.end)
        self.target = Side(target, scope.downstream_start, scope.downstream_end)
        self.places = Places(scope.offset_map)
        self.totals = Totals()
        self.awaited = AwaitedKeys()
        self.shift = 0
        self.last_upstream = -1
        self.one_by_one = 0

    def run(self) -> None:
        """Walk both sides to their ends."""
        while self._whole_batch() or self._many_records() or self._equal_record() or self._unequal():
            pass
        self._lost_on_both_sides()

    def judge_awaited(self) -> None:
        """Judge the records whose keys did not occur again anywhere."""
        for record, lacks_target in self.awaited.unresolved():
            at = record.upstream, record.downstream
            if lacks_target and record.tombstone:
                # The tombstone expired by delete.retention.ms or was lost: the log does not say which.
                self.totals.unproved(record.upstream, Unproved.COMPACTED)
            elif lacks_target:
                self.totals.differ(DifferenceKind.MISSING, at, "the target has no later record of its key")
            elif record.tombstone:
                self.awaited.superseded += 1  # its key has no value on either side
            elif self.scope.chain.drops:
                # A record that the transforms dropped may have superseded it, and then expired: a tombstone does.
                self.totals.unproved(record.upstream, Unproved.COMPACTED)
            else:
                self.totals.differ(DifferenceKind.EXTRA, at, "the source has no record of its key any more")

    def leave_open(self) -> None:
        """Count the awaited keys as unproved: they were not looked for."""
        for record, _ in self.awaited.unresolved():
            self.totals.unproved(record.upstream, Unproved.COMPACTED)

    def _lost_on_both_sides(self) -> None:
        """Say of copied records that neither side could show that nothing was proved of them."""
        theirs = [(it.start, it.end) for it in self.target.lost]
        for ours in self.source.lost:
            start, end = max(ours.start, self.scope.start), min(ours.end, self.scope.end)
            for upstream, count in mapped_into(self.scope.offset_map, start, end, theirs):
                self.totals.unproved(upstream, ours.reason, count)

    def _whole_batch(self) -> bool:
        """Compare the next batch of both sides as bytes, if both begin where the map says; return whether equal."""
        if self.shift or self.awaited:
            return False
        ours = self.source.batch()
        theirs = self.target.batch() if ours is not None else None
        if ours is None or theirs is None:
            return False
        count = ours.header.record_count
        place = self.places.downstream_of_all(ours.header.base_offset, count)
        if place != theirs.header.base_offset or not same_records(ours, theirs):
            return False
        self.source.take_batch()
        self.target.take_batch()
        self.totals.equal(count, as_bytes=True)
        return True

    def _many_records(self) -> bool:
        """Compare all records at hand on both sides at once, however batched; return whether the first are equal."""
        if self.shift or self.awaited or self.one_by_one > 0:
            return False
        ours, theirs = self.source.ends(), self.target.ends()
        if not len(ours) or not len(theirs):
            return False
        count = common_count(ours, theirs)
        left, right = self.source.columns(count), self.target.columns(count)
        equal = (
            equal_prefix(left, right, self.scope.offset_map) if left is not None and right is not None else 0
        )
        if equal < count:
            self.one_by_one = WINDOW
        if equal:
            self.source.take(equal)
            self.target.take(equal)
            self.totals.equal(equal)
        return equal > 0

    def _equal_record(self) -> bool:
        """Compare the next record of both sides; return whether it is equal and both stand where the map says."""
        ours, theirs = self.source.head(), self.target.head()
        if ours is None or theirs is None or self.shift or ours.content != theirs.content:
            return False
        if self.places.downstream(ours.offset) != theirs.offset:
            return False
        self._take(ours, theirs)
        self.totals.equal(1)
        return True

    def _unequal(self) -> bool:
        """Judge the next records by which belong together; return False at the end of both sides."""
        pairs = self._next_by_offset() if self._compacted() else self._next_window()
        surplus = 0
        for ours, theirs in pairs:
            self._take(ours, theirs)
            if ours is not None and theirs is not None:
                surplus = self._judge_pair(ours, theirs, surplus)
            elif ours is not None:
                surplus -= self._judge_missing(ours)
            elif theirs is not None:
                surplus += self._judge_extra(theirs)
        return bool(pairs)

    def _next_by_offset(self) -> list[Pair]:
        ours, theirs = self.source.head(), self.target.head()
        at_end = ours is None, theirs is None
        return by_offset([ours] if ours else [], [theirs] if theirs else [], self._place, at_end=at_end)

    def _next_window(self) -> list[Pair]:
        ours, theirs = self.source.window(WINDOW), self.target.window(WINDOW)
        at_end = self.source.exhausted_behind(len(ours)), self.target.exhausted_behind(len(theirs))
        return align(ours, theirs, self._place, at_end=at_end, explained=self._explained)

    def _explained(self, pair: Pair) -> bool:
        """Say whether there is a reason why one side of the pair is missing."""
        match pair:
            case RawRecord() as ours, None:
                place = self._place(ours.offset)
                return place is not None and self.target.lost_at(place) is not None
            case None, RawRecord() as theirs:
                if self.scope.beyond.has(theirs.offset):
                    return True
                upstream = self.places.upstream(theirs.offset - self.shift)
                return upstream is not None and self.source.lost_at(upstream) is not None
        return False

    def _place(self, upstream: int) -> int | None:
        place = self.places.downstream(upstream)
        return None if place is None else place + self.shift

    def _take(self, ours: RawRecord | None, theirs: RawRecord | None) -> None:
        self.one_by_one -= 1
        if ours is not None:
            self.source.take()
            self.last_upstream = ours.offset
            self.awaited.seen(ours.rest)
        if theirs is not None:
            self.target.take()
            self.awaited.seen(theirs.rest)

    def _judge_pair(self, ours: RawRecord, theirs: RawRecord, surplus: int) -> int:
        """Judge two records that belong together; return how many extra records are still unexplained."""
        at = ours.offset, theirs.offset
        fields = differing(ours, theirs)
        if fields:
            message = f"{', '.join(fields)} of the copy {'differ' if len(fields) > 1 else 'differs'}"
            self.totals.differ(fields[0], at, message, ours, theirs, fields)
            return surplus
        place = self.places.downstream(ours.offset)
        if place is None:
            if not self._map_lost(ours.offset):  # the others were counted before the walk
                self.totals.unproved(ours.offset, Unproved.NO_MAP)
            return surplus
        shift = theirs.offset - place
        if shift != self.shift and shift - self.shift != surplus:
            message = f"it and what follows stand {abs(shift)} offsets {'behind' if shift > 0 else 'before'} the map"
            self.totals.differ(DifferenceKind.ORDER, at, message, ours, theirs)
        elif shift:
            self.totals.unproved(ours.offset, Unproved.DISPLACED)
        else:
            self.totals.equal(1)
        self.shift = shift
        return 0

    def _judge_missing(self, ours: RawRecord) -> int:
        """Judge a source record without copy; return by how many records the target is short."""
        place = self.places.downstream(ours.offset)
        if place is None:
            if self.scope.has_no_copy(ours.offset):
                return 0
            if self._map_lost(ours.offset):
                if not self._compacted():
                    message = "it was copied by what the offset map has lost, and is not there"
                    self.totals.differ(DifferenceKind.MISSING, (ours.offset, None), message, ours)
                return 0
            if not self.places.knows_upstream(ours.offset):
                self.totals.unproved(ours.offset, Unproved.NO_MAP)
                return 0
            self.totals.differ(DifferenceKind.MISSING, (ours.offset, None), "it was never copied", ours)
            return 0
        gone = self.target.lost_at(place)
        if gone is not None and gone is not Unproved.UNREADABLE:
            self.totals.unproved(ours.offset, gone)
        elif self._compacted() and key_of(ours.rest) is not None:
            if not self.awaited.wait(self.awaited.missing, ours.rest, ours.offset, place):
                self.totals.unproved(ours.offset, Unproved.COMPACTED)
        else:
            message = "the target's batch cannot be read" if gone else "there is no record in its place"
            self.totals.differ(DifferenceKind.MISSING, (ours.offset, place), message, ours)
        return 1

    def _map_lost(self, upstream: int) -> bool:
        """Say whether an offset was copied but the map has lost where to."""
        return any(start <= upstream < end for start, end in self.scope.lost)

    def _judge_extra(self, theirs: RawRecord) -> int:
        """Judge a target record without source record; return by how many records the target has too many."""
        if self.scope.beyond.has(theirs.offset):
            return 0
        upstream = self.places.upstream(theirs.offset - self.shift)
        if upstream is None and not self.places.knows_downstream(theirs.offset - self.shift):
            return 0  # its source record is unproved for the same reason
        if upstream is None or not self.scope.start <= upstream < self.scope.end or self._is_there(upstream):
            self.totals.differ(
                DifferenceKind.EXTRA,
                (None, theirs.offset),
                "the flow did not write it: a client, or an engine before it, a second time perhaps",
                target=theirs,
            )
            return 1
        gone = self.source.lost_at(upstream)
        if gone is not None:
            self.totals.unproved(upstream, gone)
        elif self._compacted() and key_of(theirs.rest) is not None:
            if not self.awaited.wait(self.awaited.extra, theirs.rest, upstream, theirs.offset):
                self.totals.unproved(upstream, Unproved.COMPACTED)
        else:
            message = "the source no longer has the record it was copied from"
            self.totals.differ(DifferenceKind.EXTRA, (upstream, theirs.offset), message, target=theirs)
        return 1

    def _is_there(self, upstream: int) -> bool:
        """Say whether the source has the record at `upstream`: it is the next one, or it was already taken."""
        ours = self.source.head()
        return upstream <= self.last_upstream or (ours is not None and ours.offset <= upstream)

    def _compacted(self) -> bool:
        return self.scope.compacted or self.source.gaps_inside or self.target.gaps_inside
