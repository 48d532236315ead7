"""What share of the copy has been proved equal, and how long ago: the ledger's audits against the offset map.  Pure.

What the map no longer knows (its records have left the target) counts neither as copied nor as proved.  What it does
not reach, though an audit has met it (`no-map`), counts as copied, and not as proved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from twinlog.cluster.ledger import Ledger
from twinlog.cluster.progress import Maps, SourceLife
from twinlog.formats.ledger_audit import FoundDifference, PartitionAudit, SampleAudit, Unproved, UnprovedSpan
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.offsets.offset_map import OffsetMap
from twinlog.quality.ages import seconds_since


@dataclass(frozen=True, slots=True)
class PartitionCoverage:
    """`proved` of `records` copied records are proved equal; `differences` were found and not repaired.

    `at_ms` is when the partition was last audited, None when it never was.
    """

    topic: str
    partition: int
    records: int
    proved: int
    differences: int
    at_ms: int | None

    @property
    def share(self) -> float:
        """Proved of copied, 0 to 1; a partition without a copied record has nothing left to prove."""
        return self.proved / self.records if self.records else 1.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """Partitions added up.

    `at_ms` is the oldest time of any with copied records, `newest_ms` the newest; None when one was never audited.
    """

    records: int
    proved: int
    differences: int
    at_ms: int | None
    newest_ms: int | None = None

    @property
    def share(self) -> float:
        """Proved of copied, 0 to 1."""
        return self.proved / self.records if self.records else 1.0

    def age_seconds(self, now_ms: int) -> float | None:
        """Age of the oldest audit; None when it is not known.

        A partition with copied records was never audited, or one by a clock ahead of ours.
        """
        return None if seconds_since(self.newest_ms, now_ms) is None else seconds_since(self.at_ms, now_ms)


def coverage(
    ledger: Ledger, maps: Maps[PackedMap], remote_topic_ids: Mapping[str, str] | None = None
) -> tuple[PartitionCoverage, ...]:
    """Judge each partition of the newest life of each topic, in order of topic and partition.

    Maps are opened one after the other.  One that cannot be read proves nothing: its partition counts as copied, and
    as never audited.  `remote_topic_ids` are the copies' ids of today by source topic; an audit of a copy that has been
    made anew since counts for nothing.  Without it that is not looked at.
    """
    audits = {SourceLife(it.topic, it.topic_id, it.partition): it for it in ledger.audits}
    samples = {SourceLife(it.topic, it.topic_id, it.partition): it for it in ledger.sampled}
    found = []
    for life in sorted([*maps, *maps.broken], key=lambda it: (it.topic, it.partition)):
        newest = ledger.incarnations.get(life.topic)
        if newest is not None and newest.topic_id != life.topic_id:
            continue
        audit = audits.get(life)
        sampled = standing(samples.get(life), audit)
        if audit is not None and remote_topic_ids is not None:
            audit = audit if remote_topic_ids.get(life.topic) == audit.remote_topic_id else None
        try:
            found.append(_with(sampled, partition_coverage(life, maps[life].open(), audit)))
        except UnreadableMap:
            found.append(_with(sampled, PartitionCoverage(life.topic, life.partition, 1, 0, 0, None)))
    return tuple(found)


def _with(sampled: SampleAudit | None, found: PartitionCoverage) -> PartitionCoverage:
    """Add what a sample has found since."""
    count = sampled.difference_count if sampled is not None else 0
    return replace(found, proved=max(0, found.proved - count), differences=found.differences + count)


def standing(sample: SampleAudit | None, audit: PartitionAudit | None) -> SampleAudit | None:
    """Give the sample with those of its differences that stand beside the audit's; None when none does.

    A later audit has compared the records anew, or taken the differences over.
    """
    if sample is None or (audit is not None and audit.at_ms >= sample.at_ms):
        return None
    left = without(sample, audit.differences if audit is not None else ())
    return left if left.difference_count else None


def without(sample: SampleAudit, known: tuple[FoundDifference, ...]) -> SampleAudit:
    """Leave out the differences that are named elsewhere, so that none counts twice."""
    left = tuple(it for it in sample.differences if it not in known)
    count = sample.difference_count - (len(sample.differences) - len(left))
    return replace(sample, difference_count=count, differences=left)


def partition_coverage(
    life: SourceLife, offset_map: OffsetMap, audit: PartitionAudit | None
) -> PartitionCoverage:
    """Judge one partition."""
    if audit is None:
        return PartitionCoverage(life.topic, life.partition, offset_map.records, 0, 0, None)
    unproved = sum(
        min(span.records, mapped_between(offset_map, span.start, span.end)) for span in audit.unproved
    )
    proved = mapped_between(offset_map, audit.start, audit.end) - unproved - audit.difference_count
    return PartitionCoverage(
        life.topic,
        life.partition,
        copied_records(offset_map, audit.unproved),
        max(0, proved),
        audit.difference_count,
        audit.at_ms,
    )


def copied_records(offset_map: OffsetMap, unproved: Iterable[UnprovedSpan]) -> int:
    """Count the records the map knows, and those an audit met where it does not reach.

    These left the target before the map's first piece did: spans in front of what it begins with now are over.
    """
    unmapped = (it for it in unproved if it.reason is Unproved.NO_MAP and it.end >= offset_map.first_upstream)
    return offset_map.records + sum(
        max(0, it.records - mapped_between(offset_map, it.start, it.end)) for it in unmapped
    )


def by_topic(partitions: Iterable[PartitionCoverage]) -> Mapping[str, Sequence[PartitionCoverage]]:
    """Group partitions by their topic."""
    found: defaultdict[str, list[PartitionCoverage]] = defaultdict(list)
    for partition in partitions:
        found[partition.topic].append(partition)
    return found


def total(partitions: Iterable[PartitionCoverage]) -> Coverage:
    """Add up partitions: of a topic, or of a flow."""
    known = list(partitions)
    audited = [it for it in known if it.records]
    times = [it.at_ms for it in audited if it.at_ms is not None]
    whole = len(times) == len(audited)
    return Coverage(
        records=sum(it.records for it in known),
        proved=sum(it.proved for it in known),
        differences=sum(it.differences for it in known),
        at_ms=min(times, default=None) if whole else None,
        newest_ms=max(times, default=None) if whole else None,
    )


def mapped_between(offset_map: OffsetMap, start: int, end: int) -> int:
    """Count the records the map knows at upstream offsets [start, end)."""
    low = np.maximum(offset_map.upstream, start)
    high = np.minimum(offset_map.upstream + offset_map.length, end)
    return int(np.maximum(high - low, 0).sum())


def copied_from(maps: Maps[PackedMap], life: SourceLife, start: int) -> int:
    """Count the records that the map knows from an upstream offset on; 0 where it cannot tell."""
    try:
        packed = maps.get(life)
        return mapped_between(packed.opened_from(start), start, 1 << 62) if packed is not None else 0
    except UnreadableMap:
        return 0
