"""Prove one partition: read as much of both logs as the comparison needs, and compare."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from twinlog.cluster.api import Clusters
from twinlog.cluster.prints import Fingerprint
from twinlog.cluster.values import PartitionOffsets
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.migration.alignment import Alignment, Verdict, Window, align

FIRST_RECORDS = 50
"""Of the source's first records before the position, how many at most compaction may have removed from the copy."""


@dataclass(frozen=True, slots=True)
class Place:
    """A source partition and its copy, as discovered; `said` is the last upstream offset copied, None for nothing.

    `began_at_start` says that copying began with the source's first record, as it does unless
    `auto.offset.reset=latest`.
    """

    source: TopicPartition
    target: TopicPartition
    topic_id: str
    source_offsets: PartitionOffsets
    target_offsets: PartitionOffsets
    said: int | None
    compacted: bool = False
    timestamps: bool = True
    began_at_start: bool = True

    @property
    def name(self) -> str:
        """`topic-partition` on the source, for messages."""
        return f"{self.source.topic}-{self.source.partition}"

    @property
    def life(self) -> SourceIncarnation:
        """The source partition of the incarnation that is copied."""
        return SourceIncarnation(self.source.topic, self.topic_id, self.source.partition)


def prove(clusters: Clusters, place: Place, depth: int) -> Alignment:
    """Compare the last records, from `depth` source records before the position on to the end of the copy.

    If MM2 repeated more than that, read further back without being asked.
    """
    back = depth
    while True:
        found = align(_window(clusters, place, back))
        start = place.source_offsets.log_start
        if found.verdict is not Verdict.LOOK_FURTHER_BACK:
            return found
        if _from(place, back) <= start:
            return replace(found, verdict=Verdict.DIFFERENT)
        back *= 2


def _from(place: Place, back: int) -> int:
    """Return the first upstream offset to read."""
    start = place.source_offsets.log_start
    return start if place.said is None else max(start, place.said + 1 - back)


def _window(clusters: Clusters, place: Place, back: int) -> Window:
    """Read the source from `back` records before the position on, and the copy from before those."""
    first = _from(place, back)
    offsets = place.target_offsets
    size = 2 * back
    while True:
        start = max(offsets.log_start, offsets.stable_end - size)
        prints = clusters.target.record_prints(place.target, start, sys.maxsize)
        target = [fingerprint for fingerprint in prints if not fingerprint.aborted]
        source = clusters.source.record_prints(place.source, first, back + len(target) + 1)
        if start == offsets.log_start or _far_enough(place, source, target):
            break
        size *= 2
    return Window(
        source=source,
        target=target,
        progress=place.said,
        from_source_start=first <= place.source_offsets.log_start,
        from_first_record=place.began_at_start and (first, start, offsets.log_start) == (0, 0, 0),
        compacted=place.compacted,
        timestamps=place.timestamps and all(fingerprint.timestamp >= 0 for fingerprint in source),
    )


def _far_enough(place: Place, source: Sequence[Fingerprint], target: Sequence[Fingerprint]) -> bool:
    """Say whether the copy was read back to before the first source records read: it holds them in order.

    If the source has none left of those MM2 says it copied, it is enough that the copy does not end in later ones.
    """
    known = {fingerprint.content for fingerprint in source}
    if source and place.said is not None and source[0].offset > place.said:
        return not target or target[-1].content not in known or source[0].content in _contents(target[1:])
    first = _contents(source[:FIRST_RECORDS])
    return not first or not first.isdisjoint(_contents(target[1:]))


def _contents(records: Sequence[Fingerprint]) -> set[bytes]:
    return {record.content for record in records}
