"""The facts of one replicated partition.  Pure.

Offsets called upstream are on the source, downstream on the target; ends are exclusive.  None means that there is no
fact yet: no progress, no copy, an empty map.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twinlog.fact import NOT_ASKED, Count, Total, Unknown, total
from twinlog.grouped import grouped
from twinlog.kafka_types import OfPartition, ReadRecord, TopicPartition

if TYPE_CHECKING:
    from twinlog.offsets.segments import SegmentTable


@dataclass(frozen=True, slots=True)
class MapSummary:
    """The sums over the offset map of one partition.

    `records` counts the pairs (upstream offset, downstream offset) that the map knows.  `upstream_offsets` and
    `downstream_offsets` count each offset once.  If either is smaller than `records`, the map knows two places of one
    record: the record was copied twice.
    """

    records: int = 0
    upstream_offsets: int = 0
    downstream_offsets: int = 0
    upstream_end: int | None = None
    downstream_end: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionFacts(OfPartition):
    """The state of one partition of one flow.

    `next_upstream` is where the copy continues (progress + 1).  `lag_records` counts upstream offsets from there to
    the source's end: an upper bound of records, exact if the log has no gaps, negative if progress points beyond the
    source's end.  `unmapped_offsets` counts the copied upstream offsets whose part of the map was lost, None if there
    is no map.  `oldest_uncopied` is the source timestamp (ms) of the first record not copied.
    `reported_next_upstream` is the value in the last cycle report.  `deleted_early` counts the records that the copy
    has lost though the source holds them and the copy's retention does not explain it.

    `absent_records` counts those that another engine, which copies this flow, has passed over: they do not lag.
    `oldest_absent` is the source timestamp (ms) of the first of them.
    Of that engine's copies, the map does not tell of `open_offsets` yet: positions there are not exact, and nothing of
    the map is lost. If the copy has `lost_open` records of these, nobody has judged yet whether they were deleted
    early.  No cycle has read its last `unread` offsets: they may be copies of what lags.  At the last look, at
    `read_ms`, at most `lag_when_read` records lagged, None if that was not noted.

    `undecided_records` counts the offsets after the last stable offset.  A flow that reads committed records cannot
    copy them before a transaction ends, and none of them is in `lag_records`.  `oldest_undecided` is the source
    timestamp (ms) of the first of them; `undecided_since` is the earlier of that and the start of its transaction, as
    far as either is known.

    Without the source, its numbers are those of the last cycle, less what was copied since.
    """

    topic: str
    remote_topic: str
    partition: int
    source_log_start: Count = NOT_ASKED
    source_end: Count = NOT_ASKED
    next_upstream: int | None = None
    lag_records: Count = NOT_ASKED
    oldest_uncopied: int | None = None
    target_log_start: int | None = None
    target_stable_end: int | None = None
    source_partitions: Count = NOT_ASKED
    target_partitions: Count | None = None
    mapped: MapSummary = MapSummary()
    reported_next_upstream: int | None = None
    undecided_records: Count = 0
    oldest_undecided: int | None = None
    undecided_since: int | None = None
    unmapped_offsets: Count | None = None
    deleted_early: Count = 0
    absent_records: int = 0
    oldest_absent: int | None = None
    open_offsets: int = 0
    lost_open: bool = False
    unread: int = 0
    lag_when_read: int | None = None
    read_ms: int = 0

    @property
    def last_upstream(self) -> int | None:
        """Return the last copied upstream offset."""
        return None if self.next_upstream is None else self.next_upstream - 1

    @property
    def lag(self) -> Count:
        """Count the upstream offsets that can be copied and are not."""
        return self.lag_records if isinstance(self.lag_records, Unknown) else max(0, self.lag_records)

    @property
    def uncopied(self) -> Total:
        """Count of what lags what has no copy: at least so many, if no cycle has read all of the copy."""
        lag = total((self.lag,))
        if not self.unread or not lag.least:
            return lag
        doubt = f"{self.unread:,} offsets of the copy were not looked at yet: run a cycle"
        return Total(max(0, lag.least - self.unread), doubt)

    def uncopied_since(self, ms: int) -> Total:
        """Count what lagged when a look at `ms` (epoch ms) or later had read the copy; what lags now if none has."""
        if self.unread and self.lag_when_read is not None and self.read_ms >= ms:
            return Total(self.lag_when_read)
        return self.uncopied

    @property
    def missing(self) -> Total:
        """Count upstream offsets that are not on the target: absent ones, what lags, and what a transaction holds."""
        return total((self.uncopied, self.undecided_records, self.absent_records))

    @property
    def missing_records(self) -> Count:
        """Return how many are missing, unknown if there may be more."""
        return self.missing.fact

    @property
    def copy_unseen(self) -> bool:
        """Say whether the copy's end cannot be read, such as that of a partition without a leader."""
        return self.target_stable_end is None and self.target_partitions is not None


def bytes_at_risk(rows: Iterable[PartitionFacts], sizes: Mapping[TopicPartition, int]) -> Count:
    """Estimate the bytes of records not copied yet: their number times the bytes per offset of that log on disk.

    Unknown if a partition with missing records has an unknown size.
    """
    return total(_bytes(row, sizes.get(row.topic_partition)) for row in rows if row.missing_records != 0).fact


def _bytes(row: PartitionFacts, size: int | None) -> Count:
    missing, end, start = row.missing_records, row.source_end, row.source_log_start
    if size is None or isinstance(missing, Unknown) or isinstance(end, Unknown) or isinstance(start, Unknown):
        return Unknown("the source does not tell the size of its log")
    held = max(1, end - start)
    return round(min(missing, held) * size / held)


def newly_copied(rows: Iterable[PartitionFacts]) -> int:
    """Count the upstream offsets that were copied since the last report.

    Of a partition without one, it counts what the map knows: where its copy began is not where its log does.
    """
    return sum(
        row.mapped.upstream_offsets
        if row.reported_next_upstream is None
        else max(0, row.next_upstream - row.reported_next_upstream)
        for row in rows
        if row.next_upstream is not None
    )


def summarize(table: SegmentTable) -> MapSummary:
    """Add up all segments of one partition's map as columns: a million extents take some milliseconds.

    Segments that repeat one another take longer: they are counted in order of their offsets.
    """
    if not len(table.length):
        return MapSummary()
    upstream_end, downstream_end = table.upstream + table.length, table.downstream + table.length
    records = upstream_offsets = downstream_offsets = int(table.length.sum())
    apart = (table.upstream[1:] >= upstream_end[:-1]) & (table.downstream[1:] >= downstream_end[:-1])
    if not apart.all():
        upstream = list(zip(table.upstream.tolist(), upstream_end.tolist(), strict=True))
        by_shift = grouped(zip((table.downstream - table.upstream).tolist(), upstream, strict=True))
        records = sum(map(covered, by_shift.values()))
        upstream_offsets = covered(upstream)
        downstream_offsets = covered(zip(table.downstream.tolist(), downstream_end.tolist(), strict=True))
    ends = int(upstream_end.max()), int(downstream_end.max())
    return MapSummary(records, upstream_offsets, downstream_offsets, *ends)


def covered(intervals: Iterable[tuple[int, int]]) -> int:
    """Count the integers that lie in at least one of the half-open intervals."""
    total, reached = 0, None
    for start, end in sorted(intervals):
        begin = start if reached is None else max(start, reached)
        total += max(0, end - begin)
        reached = end if reached is None else max(reached, end)
    return total


def lag(end: int, position: int, first: ReadRecord | None) -> int:
    """Count upstream offsets still to be copied, from `position` to `end`.

    `first` is the first readable record from there on.  If there is none, only transaction markers and aborted records
    are left, so nothing lags.
    """
    if position > end:
        return end - position
    return 0 if first is None else max(0, end - first.offset)
