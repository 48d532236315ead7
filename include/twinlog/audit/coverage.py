"""Compute how much of the copy is proved equal and why the rest is not, from the ledger's audits and the map.  Pure.

Records that the map no longer knows (they have left the target) count neither as copied nor as proved.  Records that
the map does not reach although an audit has met them (`no-map`, `map-lost`) count as copied, but not as proved.

Law: every copied record is proved, differs, or is counted with the reason why it is neither.  A record of a stranger
is a difference, but no copied record: what is named as one takes nothing from what is proved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.clock import seconds_since
from twinlog.formats.ledger.audit import FoundDifference, PartitionAudit, Unproved, UnprovedSpan
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.grouped import grouped
from twinlog.kafka_types import Positions, SourceIncarnation
from twinlog.offsets.offset_map import OffsetMap
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps

NOT_AUDITED = "not-audited"
"""The reason of most unproved records: no audit has reached them yet."""

GONE = frozenset({Unproved.SOURCE_RETENTION, Unproved.TARGET_RETENTION, Unproved.COMPACTED})
"""Reasons that mean that a side no longer holds the record: it cannot be compared."""

UNMAPPED = frozenset({Unproved.NO_MAP, Unproved.MAP_LOST, Unproved.DELETED_EARLY})
"""Reasons that mean that the offset map may not know the record."""


@dataclass(frozen=True, slots=True)
class UnprovedCount:
    """The number of records that are not proved for one reason: a value of Unproved, or `not-audited`."""

    reason: str
    records: int


def counted(reasons: Mapping[str, int]) -> tuple[UnprovedCount, ...]:
    """Return the reasons that apply to at least one record, in order."""
    return tuple(UnprovedCount(reason, count) for reason, count in sorted(reasons.items()) if count > 0)


def added(parts: Iterable[Iterable[UnprovedCount]]) -> tuple[UnprovedCount, ...]:
    """Add up the counts of many partitions."""
    sums: Counter[str] = Counter()
    for counts in parts:
        for one in counts:
            sums[one.reason] += one.records
    return counted(sums)


def told(counts: Iterable[UnprovedCount]) -> str:
    """Say how many records are not proved, and why: `5 source-retention, 2 not-audited`; "" for none."""
    return ", ".join(f"{one.records:,} {one.reason}" for one in counts)


PERCENT = 100


@dataclass(frozen=True, slots=True)
class PartitionCoverage:
    """`proved` of `records` copied records are proved equal; `differences` were found and not repaired.

    `at_ms` is when the partition was last audited, None if never.  `unproved` are the other records, by reason.
    `differing` counts the copied records among the differences, as far as those are named.
    """

    topic: str
    partition: int
    records: int
    proved: int
    differences: int
    at_ms: int | None
    unproved: tuple[UnprovedCount, ...] = ()
    differing: int = 0


@dataclass(frozen=True, slots=True)
class Coverage:
    """Partitions added up.

    `at_ms` is the oldest audit of any partition with copied records, `newest_ms` the newest; None if one was never
    audited.
    """

    records: int
    proved: int
    differences: int
    at_ms: int | None
    newest_ms: int | None = None
    unproved: tuple[UnprovedCount, ...] = ()
    differing: int = 0

    @property
    def share(self) -> float:
        """Return proved of copied, 0 to 1; 0 if nothing was copied."""
        return self.proved / self.records if self.records else 0.0

    @property
    def held(self) -> int:
        """Count the records that have not left the target, as far as audits saw."""
        return max(0, self.records - self._because({Unproved.TARGET_RETENTION}))

    @property
    def comparable(self) -> int:
        """Count the records that both sides still hold, as far as audits saw."""
        return max(0, self.records - self._because(GONE))

    @property
    def compared(self) -> int:
        """Count the records that were compared with their source."""
        return self.proved + self.differences

    @property
    def percent(self) -> int | None:
        """Return the percentage proved of what both sides still hold, rounded down: 100 means all of it.

        0 if the copy holds records and none of them can be compared; None if it holds none.
        """
        return self._percent_of(self.proved)

    @property
    def audited_percent(self) -> int | None:
        """Return the percentage that was compared, equal or not; as `percent`, and the same without differences."""
        return self._percent_of(min(self.comparable, self.proved + self.differing))

    def _percent_of(self, records: int) -> int | None:
        if self.comparable:
            return int(PERCENT * records / self.comparable)
        return 0 if self.held else None

    def age_seconds(self, now_ms: int) -> float | None:
        """Return the age of the oldest audit in seconds; None if it is unknown.

        It is unknown if a partition with copied records was never audited, or its audit's clock was ahead of ours.
        """
        return None if seconds_since(self.newest_ms, now_ms) is None else seconds_since(self.at_ms, now_ms)

    def _because(self, reasons: Iterable[str]) -> int:
        wanted = frozenset(reasons)
        return sum(count.records for count in self.unproved if count.reason in wanted)


def coverage(
    ledger: Ledger,
    maps: PackedMaps,
    remote_topic_ids: Mapping[str, str] | None = None,
    log_starts: Positions | None = None,
) -> tuple[PartitionCoverage, ...]:
    """Judge each partition of the newest incarnation of each topic, in order of topic and partition.

    Maps are opened one after the other.  If one cannot be read, it proves nothing: its partition counts as copied, and
    as never audited.  `remote_topic_ids` are the copies' present topic ids by source topic: an audit of a copy that
    was recreated since does not count.  Without them that is not checked.  `log_starts` are where the copies begin now,
    by source partition: what an audit has proved of records in front of them is no part of the copy any more.
    """
    audits = {partition_audit.life: partition_audit for partition_audit in ledger.audits}
    found = []
    for life in sorted([*maps, *maps.broken], key=lambda it: it.topic_partition):
        newest = ledger.incarnations.get(life.topic)
        if newest is not None and newest.topic_id != life.topic_id:
            continue
        audit = audits.get(life)
        if audit is not None and remote_topic_ids is not None:
            audit = audit if remote_topic_ids.get(life.topic) == audit.remote_topic_id else None
        try:
            log_start = (log_starts or {}).get(life.topic_partition, 0)
            covers = partition_coverage(life, maps[life].open(), audit, log_start)
            # Every changed copy has a source record, so it was compared, also if it is not named by itself.
            observed = life in ledger.observed
            found.append(replace(covers, differing=covers.differences) if observed else covers)
        except UnreadableMap:
            unread = (UnprovedCount(Unproved.NO_MAP.value, 1),)
            found.append(PartitionCoverage(life.topic, life.partition, 1, 0, 0, None, unread))
    return tuple(found)


def _strangers(named: Iterable[FoundDifference]) -> int:
    """Count the records among differences that are no copies."""
    return sum(difference.upstream_offset is None for difference in named)


def partition_coverage(
    life: SourceIncarnation, offset_map: OffsetMap, audit: PartitionAudit | None, log_start: int = 0
) -> PartitionCoverage:
    """Judge one partition, whose copy begins at `log_start` (downstream)."""
    gone_to = offset_map.first_upstream_at(log_start) if log_start else offset_map.first_upstream
    if audit is None:
        return covered(life, offset_map, 0, 0, left_target(offset_map, (), gone_to), None)
    spans = left_target(offset_map, audit.unproved, gone_to)
    held_from = max(audit.start, gone_to)
    unproved = sum(_mapped(offset_map, span) for span in spans if span.end > gone_to)
    differing = audit.difference_count - _strangers(audit.differences)
    proved = max(0, offset_map.records_between(held_from, audit.end) - unproved - differing)
    named = audit.differences
    return covered(life, offset_map, proved, audit.difference_count, spans, audit.at_ms, named)


def left_target(
    offset_map: OffsetMap, spans: Iterable[UnprovedSpan], gone_to: int
) -> tuple[UnprovedSpan, ...]:
    """Replace the spans in front of upstream offset `gone_to`, where the copy begins now: the copy has lost all of it.

    What was deleted early stays a span of its own; the rest is the copy's retention.
    """
    known = tuple(spans)
    if gone_to <= offset_map.first_upstream:
        return known
    early = [span for span in known if span.reason is Unproved.DELETED_EARLY]
    kept = [
        replace(span, start=gone_to, records=min(span.records, _room(offset_map, gone_to, span)))
        if span.start < gone_to
        else span
        for span in known
        if span.end > gone_to and span.reason is not Unproved.DELETED_EARLY
    ]
    expired = offset_map.records_between(offset_map.first_upstream, gone_to) - sum(
        _mapped(offset_map, span) for span in early
    )
    if expired <= 0:
        return (*early, *kept)
    gone = UnprovedSpan(offset_map.first_upstream, gone_to, expired, Unproved.TARGET_RETENTION)
    return (*early, gone, *kept)


def _room(offset_map: OffsetMap, start: int, span: UnprovedSpan) -> int:
    return span.end - start if span.reason in UNMAPPED else offset_map.records_between(start, span.end)


def covered(
    life: SourceIncarnation,
    offset_map: OffsetMap,
    proved: int,
    differences: int,
    unproved: tuple[UnprovedSpan, ...],
    at_ms: int | None,
    named: Sequence[FoundDifference] = (),
) -> PartitionCoverage:
    """Judge one partition by what was compared; records in no span count as not audited.

    `named` are the first of its `differences`.
    """
    strangers = _strangers(named)
    records, reasons = copied_records(offset_map, unproved), _by_reason(offset_map, unproved)
    rest = records - proved - (differences - strangers) - sum(reasons.values())
    left = counted({**reasons, NOT_AUDITED: rest})
    differing = len(named) - strangers
    return PartitionCoverage(life.topic, life.partition, records, proved, differences, at_ms, left, differing)


def _by_reason(offset_map: OffsetMap, spans: Iterable[UnprovedSpan]) -> Mapping[str, int]:
    """Count the records of spans by reason: those the map still knows, and those it never knew."""
    sums: Counter[str] = Counter()
    for span in spans:
        sums[span.reason.value] += _mapped(offset_map, span)
        sums[span.reason.value] += _unmapped(offset_map, span)
    return sums


def _mapped(offset_map: OffsetMap, span: UnprovedSpan) -> int:
    """Count the records of a span that the map knows."""
    return min(span.records, offset_map.records_between(span.start, span.end))


def copied_records(offset_map: OffsetMap, unproved: Iterable[UnprovedSpan]) -> int:
    """Count the records the map knows, and those an audit met where it does not reach."""
    return offset_map.records + sum(_unmapped(offset_map, span) for span in unproved)


def _unmapped(offset_map: OffsetMap, span: UnprovedSpan) -> int:
    """Count the records of a span that should be in the copy although the map does not know them.

    A span that ends before the map begins counts 0: its copies left the target before the first map segment did.  Not
    so if they were deleted early: the map may have forgotten them.
    """
    forgotten = span.end < offset_map.first_upstream and span.reason is not Unproved.DELETED_EARLY
    if forgotten or span.reason not in UNMAPPED:
        return 0
    return max(0, span.records - offset_map.records_between(span.start, span.end))


def by_topic(partitions: Iterable[PartitionCoverage]) -> Mapping[str, Sequence[PartitionCoverage]]:
    """Group partitions by their topic."""
    return grouped((partition.topic, partition) for partition in partitions)


def total(partitions: Iterable[PartitionCoverage]) -> Coverage:
    """Add up partitions: of a topic, or of a flow."""
    known = list(partitions)
    audited = [partition for partition in known if partition.records]
    times = [partition.at_ms for partition in audited if partition.at_ms is not None]
    whole = len(times) == len(audited)
    return Coverage(
        records=sum(partition.records for partition in known),
        proved=sum(partition.proved for partition in known),
        differences=sum(partition.differences for partition in known),
        at_ms=min(times, default=None) if whole else None,
        newest_ms=max(times, default=None) if whole else None,
        unproved=added(partition.unproved for partition in known),
        differing=sum(partition.differing for partition in known),
    )
