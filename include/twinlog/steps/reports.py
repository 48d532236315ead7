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
    """Upstream offsets first_offset..last_offset that will never be copied, and why.

    `records` is at most how many there were; `since` and `until` (ISO 8601, "" unknown) are the times between which
    they lay.  `copied_past` says that the copy went on behind them; where it did not the partition is stopped.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    cause: GapCause
    records: int = 1
    since: str = ""
    until: str = ""
    copied_past: bool = True


def gap_reports(ledger: Ledger) -> tuple[GapReport, ...]:
    """List gaps and quarantined records, by topic, partition and offset."""
    gaps = [
        GapReport(
            it.topic,
            it.partition,
            it.first_offset,
            it.last_offset,
            it.cause,
            it.records_estimate,
            iso(it.first_ms) if it.first_ms is not None else "",
            iso(it.last_ms) if it.last_ms is not None else "",
            it.copied_past,
        )
        for it in ledger.gaps
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
