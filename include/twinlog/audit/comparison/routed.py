"""Compare a topic to which rules route records with what they route from the audited source ranges.  Pure.

The audit's lanes make the expected rows from the source; the routed topic is read whole, partition after partition.

| expected  | in the routed topic                       | outcome                                               |
|-----------|-------------------------------------------|-------------------------------------------------------|
| a record  | equal, once, behind those routed before   | equal                                                 |
| a record  | with other bytes or another timestamp     | key, value, headers or timestamp differs              |
| a record  | before one that was routed before it      | order                                                 |
| a record  | nothing                                   | missing; unless retention explains it (expired)       |
| nothing   | a record of an audited offset             | extra; unless compaction at the source explains it    |
| a record  | twice                                     | extra                                                 |
|           | a record without an origin                | extra                                                 |

Records of other sources are theirs to prove.  Of this source's records from offsets that are not audited now only their
order is checked.
"""

from __future__ import annotations

import base64
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final

import numpy as np

from twinlog.audit.comparison.record_fields import Fields, RawRecord, excerpt, fields_of
from twinlog.audit.comparison.values import LISTED, Difference, RoutedAway
from twinlog.batches.routed import ORIGIN, Origin, RoutedRecord, origin_of
from twinlog.formats.ledger.audit import DifferenceKind
from twinlog.kafka_types import SourceIncarnation
from twinlog.offsets.offset_map import OffsetMap

ROW: Final = np.dtype([
    ("offset", "<i8"),
    ("place", "<i4"),
    ("timestamp", "<i8"),
    ("key", "<u8"),
    ("value", "<u8"),
    ("headers", "<u8"),
])
"""Keeps a routed record in 44 bytes; of its contents it has hashes of 64 bits each."""

_PACKED: Final = struct.Struct("<qiqQQQ")

_HASHED: Final = (
    (DifferenceKind.KEY, "key"),
    (DifferenceKind.VALUE, "value"),
    (DifferenceKind.HEADERS, "headers"),
)

Rows = Any
"""An array of ROW."""


def packed(topic: str, rows: bytes) -> RoutedAway:
    """Pack the rows of one topic."""
    return RoutedAway(topic, base64.b64encode(rows).decode())


def unpacked(parts: Iterable[RoutedAway], topic: str) -> Rows:
    """Return the rows of one topic, of all parts."""
    data = b"".join(base64.b64decode(it.rows) for it in parts if it.topic == topic)
    return np.sort(np.frombuffer(data, ROW), order="offset")


def row_of(it: RoutedRecord, source_partition: int) -> bytes:
    """Return the bytes of the row of a record as the chain routes it."""
    place = it.route.place(it.key, source_partition)
    return _PACKED.pack(it.offset, place, it.timestamp, *_hashes(fields_of(it.rest)))


def _hashes(fields: Fields, own_headers: int | None = None) -> tuple[int, int, int]:
    parts = (fields.key, fields.value, fields.headers[:own_headers])
    key, value, headers = (
        int.from_bytes(blake2b(repr(part).encode(), digest_size=8).digest(), "little") for part in parts
    )
    return key, value, headers


@dataclass(frozen=True, slots=True)
class Expected:
    """Tell what one source partition must have brought: rows ascending by offset, within the `judged` ranges.

    `unread` are stretches of these that the source could not show, so nothing is known of them.  In a `compacted`
    source topic a record may be gone that was routed.  `known_to` is the upstream offset up to which all was copied.
    """

    life: SourceIncarnation
    rows: Rows
    judged: tuple[tuple[int, int], ...]
    unread: tuple[tuple[int, int], ...] = ()
    compacted: bool = False
    known_to: int = 0

    def judges(self, offset: int) -> bool:
        """Say whether the audit knows what must have become of an upstream offset."""
        within = any(start <= offset < end for start, end in self.judged)
        return within and not any(start <= offset < end for start, end in self.unread)


@dataclass(slots=True)
class Way:
    """The findings from one source partition to one routed topic."""

    expected: Expected
    equal: int = 0
    expired: int = 0
    compacted: int = 0
    counts: dict[DifferenceKind, int] = field(default_factory=dict)
    listed: list[Difference] = field(default_factory=list)
    seen: Any = None
    offsets: Any = None
    last: dict[int, int] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seen = np.zeros(len(self.expected.rows), bool)
        self.offsets = np.ascontiguousarray(self.expected.rows["offset"]).data

    def row(self, offset: int) -> int | None:
        """Return the row that is expected of an upstream offset."""
        at = bisect_left(self.offsets, offset)
        return at if at < len(self.offsets) and self.offsets[at] == offset else None

    def differ(self, found: Difference) -> None:
        """Note a difference."""
        self.counts[found.kind] = self.counts.get(found.kind, 0) + 1
        if len(self.listed) < LISTED:
            self.listed.append(found)


@dataclass(frozen=True, slots=True)
class Loose:
    """A record of the routed topic that belongs to no audited source offset; each audit finds it anew.

    With a `life` it says that it comes from `upstream`, an offset that was not copied yet as far as the map knew.
    """

    partition: int
    difference: Difference
    life: SourceIncarnation | None = None
    upstream: int = -1


class RoutedTopicWalk:
    """Walks through a routed topic, partition after partition, each in the order of its log.

    `source` is the alias of the flow's source.  `records` counts what was read, `others` the records of other sources.
    """

    def __init__(self, topic: str, source: str, expected: Iterable[Expected]) -> None:
        self.topic, self._source = topic, source
        self.ways = {tuple(it.life): Way(it) for it in expected}
        self.loose: list[Loose] = []
        self.loose_count = self.records = self.others = self.unjudged = 0

    def take(self, partition: int, record: RawRecord, *, append_time: bool) -> None:
        """Judge the next record of a partition; `append_time`: its timestamp is the broker's, not the producer's."""
        self.records += 1
        fields = fields_of(record.rest)
        origin = origin_of(fields.headers)
        if origin is None:
            self._extra(partition, record, "no flow wrote it: it does not say where it comes from")
        elif (way := self._way(origin)) is not None:
            self._judge(way, partition, record, fields, origin, append_time=append_time)
        elif origin.source == self._source:
            self.unjudged += 1
        else:
            self.others += 1

    def _way(self, origin: Origin) -> Way | None:
        """Return the source partition that an origin names; a topic's id tells it, whatever the source was called."""
        ours = origin.topic_id or origin.source == self._source
        return self.ways.get((origin.topic, origin.topic_id, origin.partition)) if ours else None

    def _judge(
        self,
        way: Way,
        partition: int,
        record: RawRecord,
        fields: Fields,
        origin: Origin,
        *,
        append_time: bool,
    ) -> None:
        offset, last = origin.offset, way.last.get(partition, -1)
        way.last[partition] = max(offset, last)
        way.first.setdefault(partition, offset)
        place = f"{self.topic}-{partition} at offset {record.offset}"
        row = way.row(offset)
        if row is not None and way.seen[row]:
            self._differ(way, DifferenceKind.EXTRA, offset, f"it is a second time in {place}", record)
        elif row is not None:
            way.seen[row] = True
            kinds = _differing(way.expected.rows[row], record, fields, append_time=append_time)
            if kinds:
                told = f"{', '.join(kinds)} of the record in {place}, where it is routed, {_differ(kinds)}"
                self._differ(way, kinds[0], offset, told, record, kinds)
            elif offset < last:
                self._differ(way, DifferenceKind.ORDER, offset, f"in {place} it stands behind {last}", record)
            else:
                way.equal += 1
        elif way.expected.judges(offset):
            if way.expected.compacted:
                way.compacted += 1
            else:
                self._differ(
                    way, DifferenceKind.EXTRA, offset, f"{place}: the rules do not route it there", record
                )
        elif offset >= way.expected.known_to:
            why = f"it says that it comes from {_name(way)} at offset {offset}, which is not copied yet"
            self._extra(partition, record, why, way.expected.life, offset)
        else:
            self.unjudged += 1
            if offset <= last and origin.topic_id:
                why = (
                    f"doubled, or out of order: it comes from {_name(way)} at offset {offset}, behind {last}"
                )
                self._extra(partition, record, why)

    def _differ(
        self,
        way: Way,
        kind: DifferenceKind,
        offset: int,
        message: str,
        record: RawRecord,
        kinds: Sequence[DifferenceKind] = (),
    ) -> None:
        names = tuple(it.value for it in kinds)
        way.differ(Difference(kind, offset, None, message, names, None, excerpt(record)))

    def _extra(
        self,
        partition: int,
        record: RawRecord,
        why: str,
        life: SourceIncarnation | None = None,
        upstream: int = -1,
    ) -> None:
        self.loose_count += 1
        if len(self.loose) < LISTED or life is not None:
            found = Difference(DifferenceKind.EXTRA, None, record.offset, why, (), None, excerpt(record))
            self.loose.append(Loose(partition, found, life, upstream))

    def finish(self, log_starts: Mapping[int, int], partitions: int, *, compacted: bool) -> None:
        """Judge what was expected and is not there.

        `log_starts` are where those of the topic's partitions begin now that could be read; of others nothing is known.
        """
        for way in self.ways.values():
            rows = way.expected.rows[~way.seen]
            numbers = rows["place"] % max(1, partitions)
            for offset, number in zip(rows["offset"].tolist(), numbers.tolist(), strict=True):
                left = way.first.get(number)
                if number not in log_starts:
                    continue
                if log_starts[number] > 0 and (left is None or offset < left):
                    way.expired += 1
                elif compacted:
                    way.compacted += 1
                else:
                    message = f"the rules route it to {self.topic}, and it is not there"
                    way.differ(Difference(DifferenceKind.MISSING, offset, None, message))

    def settle(self, known_to: Mapping[SourceIncarnation, int]) -> None:
        """Drop the loose records that were being copied during the audit, as newer maps show."""
        kept = [it for it in self.loose if it.life is None or it.upstream >= known_to.get(it.life, 0)]
        self.loose_count -= len(self.loose) - len(kept)
        self.loose = kept


def known_within(start: int, end: int, known: OffsetMap) -> Iterator[tuple[int, int]]:
    """Yield the parts of upstream [start, end) of which the map knows what became of them."""
    for first, behind in zip(known.covered_from.tolist(), known.covered_to.tolist(), strict=True):
        low, high = max(start, first), min(end, behind)
        if low < high:
            yield low, high


def _name(way: Way) -> str:
    return f"{way.expected.life.topic}-{way.expected.life.partition}"


def _differ(kinds: Sequence[DifferenceKind]) -> str:
    return "differs" if len(kinds) == 1 else "differ"


def _differing(
    row: Any, record: RawRecord, fields: Fields, *, append_time: bool
) -> tuple[DifferenceKind, ...]:
    found = _hashes(fields, -len(ORIGIN))
    kinds = [kind for (kind, name), it in zip(_HASHED, found, strict=True) if int(row[name]) != it]
    if not append_time and int(row["timestamp"]) != record.timestamp:
        kinds.append(DifferenceKind.TIMESTAMP)
    return tuple(kinds)
