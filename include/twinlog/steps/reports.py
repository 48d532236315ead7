"""The parts that the cycle report and `status` share: partitions by topic, and gaps."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from twinlog.cluster.ledger import Ledger
from twinlog.formats.ledger import GapCause
from twinlog.quality.partitions import PartitionRow


@dataclass(frozen=True, slots=True)
class GapReport:
    """Upstream offsets first_offset..last_offset that will never be copied, and why."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    cause: GapCause


def gap_reports(ledger: Ledger) -> tuple[GapReport, ...]:
    """List gaps and quarantined records, by topic, partition and offset."""
    gaps = [
        GapReport(it.topic, it.partition, it.first_offset, it.last_offset, it.cause) for it in ledger.gaps
    ]
    gaps += [
        GapReport(it.topic, it.partition, it.offset, it.offset, GapCause.QUARANTINE)
        for it in ledger.quarantined
    ]
    return tuple(sorted(gaps, key=lambda it: (it.topic, it.partition, it.first_offset)))


def rows_by_topic(rows: Iterable[PartitionRow]) -> dict[str, list[PartitionRow]]:
    """Group rows by source topic, partitions in order."""
    topics: defaultdict[str, list[PartitionRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.topic, row.partition)):
        topics[row.topic].append(row)
    return dict(topics)


def iso(milliseconds: int) -> str:
    """Write an epoch time as ISO 8601 in UTC."""
    return dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC).isoformat(timespec="seconds")
