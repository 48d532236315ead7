"""Count what lanes have copied, over all lane generations of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from twinlog.cluster.api import Clusters
from twinlog.copying.copy import count_dead
from twinlog.copying.ownership import Ownership
from twinlog.copying.result import Totals
from twinlog.follow.report import EndedLanes
from twinlog.kafka_types import TopicPartition
from twinlog.lane.spec import LaneSpec


@dataclass(slots=True)
class LaneTotals:
    """Add up what lanes have reported, and keep what they could not.

    - `unreported` are the lanes of the newest generation that died.
    - `copied` are the bytes of each partition up to that generation's end, `last` those of that generation alone.
    """

    totals: Totals = field(default_factory=Totals)
    unreported: tuple[LaneSpec, ...] = ()
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def amounts(self) -> tuple[int, int]:
        """Records and bytes that were reported."""
        reports = self.totals.ranges.values()
        return sum(report.records for report in reports), sum(report.bytes for report in reports)

    def count_unreported(self, owned: Ownership, clusters: Clusters) -> None:
        """Count what lanes committed that died; call this behind the fence."""
        count_dead(owned, clusters.target, self.unreported, self.totals)
        self.unreported = ()

    def close_generation(self) -> None:
        """Note the bytes of each partition in the generation that has ended, for the packing of the next."""
        total = self.totals.bytes
        self.last = {place: size - self.copied.get(place, 0) for place, size in total.items()}
        self.copied = total

    def ended(self, open_ms: int = 0) -> EndedLanes:
        """Return what lanes have told that ended; those of the fence of `open_ms` are open now."""
        latency = {
            report.topic_partition: report.latency_ms
            for report in self.totals.ranges.values()
            if report.latency_ms is not None and self.last.get(report.topic_partition)
        }
        totals = self.totals
        told = totals.transactions, totals.retries, totals.throttled_ms
        records = {place: report.records for place, report in totals.ranges.items()}
        return EndedLanes(records, totals.bytes, *told, latency, open_ms)
