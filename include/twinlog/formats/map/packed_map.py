"""Hold the offset map of one partition as it is stored, a few bytes an extent, and decode only the parts needed.

A hundred million extents take 300 MB this way, and 2.4 GB as columns.  Always in memory is an index with a row per
segment, read from a segment's first bytes: its upstream offsets, its number of extents, its first downstream offset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from twinlog.errors import FormatError, TerminalError
from twinlog.formats.map.offset_map import MapKey, decode_map_key, decode_segments
from twinlog.offsets.offset_map import OffsetMap, Translations
from twinlog.offsets.segments import Column, SegmentTable

OPEN_RUNS = 1_000_000
"""A map with at most this many extents is decoded whole (24 MB)."""

_FIRST_BYTES = 8
V = TypeVar("V")


class UnreadableMap(FormatError):
    """Report an unusable offset map of one partition: nothing may be translated, committed or joined by it.

    `data` names topic, partition, topic id, and the faulty record of the map topic.
    """

    code = "offset-map"


@dataclass(frozen=True, slots=True)
class Origin:
    """The owner of a map, for messages; `record` names the record of a segment, given its first upstream offset."""

    topic: str = ""
    topic_id: str = ""
    partition: int = -1
    record: Callable[[int], str] = str

    def unreadable(self, first: int, error: TerminalError) -> UnreadableMap:
        """Return the error for the segment at `first`, with the map's owner."""
        return UnreadableMap(
            f"the offset map of {self.topic}-{self.partition} cannot be read: {error.message}, at {self.record(first)}",
            hint="nothing of this partition is translated;"
            f" `twinlog topics rebuild --topic {self.topic}` makes copy and map anew, if twinlog copies it",
            topic=self.topic,
            topic_id=self.topic_id,
            partition=self.partition,
            record=self.record(first),
        )


NOWHERE = Origin()


@dataclass(frozen=True, slots=True, eq=False)
class PackedMap:
    """All segments of one partition, by first upstream offset, and their index.  Immutable.

    `downstream` is the downstream offset of a segment's first extent, meaningless where `runs` is 0.  Make one with
    `of`.
    """

    first: Column
    end: Column
    runs: Column
    downstream: Column
    values: tuple[bytes, ...]
    open_runs: int = OPEN_RUNS
    origin: Origin = NOWHERE

    @classmethod
    def of(
        cls, pieces: Mapping[int, bytes], open_runs: int = OPEN_RUNS, origin: Origin = NOWHERE
    ) -> PackedMap:
        """Index segments, given as value by first upstream offset.

        Raises UnreadableMap if the head of a segment cannot be read; the rest of it is read when it is decoded.
        """
        firsts = sorted(pieces)
        values = tuple(pieces[first] for first in firsts)
        first = np.array(firsts, dtype=np.int64)
        try:
            if firsts and firsts[0] < 0:
                raise FormatError(f"offset map key begins at {firsts[0]}")
            size, count, _, downstream = np.array(list(map(_head, values)), np.int64).reshape(-1, 4).T
            if (size < 0).any() or (first + size < first).any():
                raise FormatError("map segment has a number beyond 63 bits")
        except FormatError as error:
            raise origin.unreadable(*_at_fault(first, values, error)) from None
        return cls(first, first + size, count, downstream, values, open_runs, origin)

    @property
    def run_count(self) -> int:
        """Return the number of extents, including those of segments that repeat others."""
        return int(self.runs.sum())

    @property
    def end_upstream(self) -> int:
        """Return the end of the copy (upstream); 0 for an empty map."""
        return int(self.end.max(initial=0))

    def end_of_copy(self) -> int:
        """Return the downstream offset behind the last copied record, 0 if there is none.  Raises UnreadableMap."""
        last = np.flatnonzero(self.runs > 0)[-1:]
        return self.joined(last).end_downstream if len(last) else 0

    def pieces(self) -> SegmentTable:
        """Decode all segments, without joining them.  Raises UnreadableMap for a malformed one."""
        return self.decoded(np.arange(len(self.values)))

    def open(self) -> OffsetMap:
        """Decode and join the whole map.  Raises UnreadableMap for a malformed segment, and for contradictions."""
        return self.joined(np.arange(len(self.values)))

    def decoded(self, rows: Column) -> SegmentTable:
        """Decode the segments of some rows of the index.  Raises UnreadableMap for a malformed one."""
        values = [self.values[row] for row in rows.tolist()]
        try:
            return decode_segments(self.first[rows], values)
        except FormatError as error:
            raise self.origin.unreadable(*_at_fault(self.first[rows], values, error)) from None

    def joined(self, rows: Column) -> OffsetMap:
        """Decode and join the segments of some rows of the index.  Raises as `open`."""
        table = self.decoded(rows)
        try:
            return OffsetMap.joined(table)
        except TerminalError as error:
            row = int(np.searchsorted(table.first, error.data.get("upstream", 0), side="right")) - 1
            raise self.origin.unreadable(int(table.first[max(0, row)]), error) from None

    def opened_at(self, upstream: Sequence[int] | Column) -> OffsetMap:
        """Open the part needed to translate these upstream offsets as the whole map would."""
        return self._opened(self.first, np.asarray(upstream, dtype=np.int64))

    def opened_back_at(self, downstream: Sequence[int] | Column) -> OffsetMap:
        """Open the part needed to translate these downstream offsets back as the whole map would."""
        return self._opened(self.downstream, np.asarray(downstream, dtype=np.int64))

    def opened_from(self, upstream: int) -> OffsetMap:
        """Open the segments that reach beyond an upstream offset."""
        return self.joined(np.flatnonzero(self.end > upstream))

    def translate_many(self, upstream: Sequence[int] | Column) -> Translations | None:
        """Translate upstream offsets; None if no record was ever mapped.  Raises as `open`."""
        opened = self.opened_at(upstream)
        return opened.translate_many(upstream) if len(opened.length) else None

    def reverse_many(self, downstream: Sequence[int] | Column) -> Translations | None:
        """Translate downstream offsets back; None if no record was ever mapped.  Raises as `open`."""
        opened = self.opened_back_at(downstream)
        return opened.reverse_many(downstream) if len(opened.length) else None

    def records_between(self, start: int, end: int) -> int:
        """Count the mapped records with downstream offsets in [start, end).

        Decodes the segments that may hold some, a part at a time; decodes the whole map only if segments overlap.
        """
        return self._counted(self.downstream, lambda it: it.downstream, start, end)

    def upstream_records_between(self, start: int, end: int) -> int:
        """Count the mapped records with upstream offsets in [start, end), as `records_between`."""
        return self._counted(self.first, lambda it: it.upstream, start, end)

    def _counted(
        self, index: Column, offsets: Callable[[SegmentTable | OffsetMap], Column], start: int, end: int
    ) -> int:
        if end <= start:
            return 0
        with_runs = np.flatnonzero(self.runs > 0)
        if self._overlapping:
            known = self.open()
            return _inside(offsets(known), known.length, start, end)
        low, high = np.searchsorted(index[with_runs], [start + 1, end])
        parts = self._parts(with_runs[max(0, int(low) - 1) : int(high)])
        return sum(_inside(offsets(part), part.length, start, end) for part in parts)

    @property
    def _overlapping(self) -> bool:
        return bool((self.first[1:] < np.maximum.accumulate(self.end)[:-1]).any())

    def _opened(self, index: Column, wanted: Column) -> OffsetMap:
        """Open the segments with extents around each offset, plus oldest and newest; cover what all segments cover."""
        if self.run_count <= self.open_runs or self._overlapping:
            return self.open()
        with_runs = np.flatnonzero(self.runs > 0)
        at = np.searchsorted(index[with_runs], wanted, side="right") - 1
        around = np.concatenate((at - 1, at, at + 1, [0, len(with_runs) - 1]))
        rows = with_runs[np.unique(np.clip(around, 0, len(with_runs) - 1))]
        covering = zip(self.first.tolist(), self.end.tolist(), strict=True)
        return self.joined(rows).with_gaps(covering)

    def _parts(self, rows: Column) -> Iterator[SegmentTable]:
        """Decode segments, at a time no more than a whole map may have."""
        part = np.cumsum(self.runs[rows]) // self.open_runs
        for number in np.unique(part).tolist():
            yield self.decoded(rows[part == number])


def group_segments(records: Iterable[tuple[bytes, V]]) -> dict[MapKey, dict[int, V]]:
    """Group records of the map topic by partition of a topic's incarnation: stored value by first upstream offset.

    Keys of one partition differ only in their last eight bytes, so only one of them is decoded in full.  The MapKey of
    a partition has first_upstream 0.  Raises FormatError, with the key in its data, for a malformed key: its partition
    is unknown, so no partition's map is known to be whole.
    """
    by_prefix: dict[bytes, dict[int, V]] = {}
    for key, stored in records:
        if len(key) < _FIRST_BYTES:
            _read_key(key)
        pieces = by_prefix.setdefault(key[:-_FIRST_BYTES], {})
        pieces[int.from_bytes(key[-_FIRST_BYTES:], "big", signed=True)] = stored
    return {
        replace(
            _read_key(prefix + next(iter(pieces)).to_bytes(_FIRST_BYTES, "big", signed=True)),
            first_upstream=0,
        ): pieces
        for prefix, pieces in by_prefix.items()
    }


def _read_key(key: bytes) -> MapKey:
    try:
        return decode_map_key(key)
    except FormatError as error:
        raise FormatError(error.message, key=key) from None


def _at_fault(firsts: Column, values: Sequence[bytes], error: FormatError) -> tuple[int, FormatError]:
    """Find the faulty segment by decoding them one by one; return its first upstream offset, and the error."""
    for first, value in zip(firsts.tolist(), values, strict=True):
        try:
            decode_segments([first], [value])
        except FormatError as found:
            return first, found
    return int(firsts[0]) if len(firsts) else 0, error


def _inside(first: Column, length: Column, start: int, end: int) -> int:
    inside = np.minimum(first + length, end) - np.maximum(first, start)
    return int(np.maximum(inside, 0).sum())


def _head(value: bytes) -> list[int]:
    """Read the first four numbers behind the version of a value; 0 where there are fewer."""
    if value[:1] != b"\x01":
        decode_segments([0], [value])  # raises the reason
    numbers = []
    at = 1
    for _ in range(4):
        number = 0
        for place in range(9):
            byte = value[at] if at < len(value) else 0
            number |= (byte & 0x7F) << (7 * place)
            at += 1
            if byte < 0x80:
                break
        else:
            raise FormatError("map segment has a number beyond 63 bits")
        numbers.append(number)
    return numbers
