"""Describe what a cycle did to each topic and partition and what is left to do, as values and as metrics.

`publish` writes the metrics into `twinlog.metrics.folder`: one text file per flow, for node_exporter's textfile
collector.  The file is replaced atomically, so no reader sees half of it.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twinlog.checks.gaps import GapReport, GapState
from twinlog.checks.partitions import PartitionRow
from twinlog.copying.ranges import StoppedPartition
from twinlog.monitoring.open_at_source import UndecidedPartition
from twinlog.topics.discovery import Problem

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from twinlog.monitoring.survey import Survey


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """Tell what this cycle did to one partition.

    `last_upstream_offset` is the last copied upstream offset, -1 if nothing was copied yet.  `lag_records` counts
    upstream offsets still to be copied, `undecided_records` those behind an open transaction.  `error` says why the
    partition stopped, "" if it did not.
    """

    partition: int
    copied_records: int
    last_upstream_offset: int
    lag_records: int
    error: str = ""
    undecided_records: int = 0


@dataclass(frozen=True, slots=True)
class TopicReport:
    """One replicated topic; `rpo_seconds` is the age of its oldest record not copied, None if unknown.

    `undecided_records` counts upstream offsets behind open transactions; they are in no partition's lag.
    """

    topic: str
    remote_topic: str
    partitions: tuple[PartitionReport, ...]
    rpo_seconds: float | None = 0.0
    undecided_records: int = 0


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One cycle of one flow.

    `state` is the copy's ("done", "nothing", "failed"), and "failed" also if another step failed.  `records` and
    `bytes` are what the copy committed.  `seconds` is the duration of the cycle.  `rpo_seconds` is the age of the
    oldest record not copied yet, None if unknown.  `stopped` are partitions that are not copied; `stopped_not_shown`
    counts those that are not listed there.  `problems` are those that stop whole topics.  `undecided_records` lie
    behind open transactions of the source; `undecided` are the partitions whose transactions have been open for a
    while.  None of these numbers covers the `unseen_partitions`, which could not be looked at.
    """

    flow: str
    run_id: str
    state: str
    records: int
    bytes: int
    topics: tuple[TopicReport, ...]
    gaps: tuple[GapReport, ...]
    stopped: tuple[StoppedPartition, ...]
    problems: tuple[Problem, ...]
    lag_records: int
    rpo_seconds: float | None
    seconds: float
    at_ms: int
    stopped_not_shown: int = 0
    undecided_records: int = 0
    undecided: tuple[UndecidedPartition, ...] = ()
    unseen_partitions: int = 0


def rows_by_topic(rows: Iterable[PartitionRow]) -> dict[str, list[PartitionRow]]:
    """Group rows by source topic, partitions in order."""
    topics: defaultdict[str, list[PartitionRow]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.topic_partition):
        topics[row.topic].append(row)
    return dict(topics)


def write_metrics(folder: Path, report: FlowReport, seen: Survey) -> Path:
    """Write the numbers of one cycle and return the file; a missing folder is created.

    Raises OSError if it cannot be written.
    """
    from prometheus_client import write_to_textfile

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"twinlog-{report.flow.replace('->', '__')}.prom"
    write_to_textfile(str(path), registry_of(report, seen))
    return path


def registry_of(report: FlowReport, seen: Survey) -> CollectorRegistry:
    """Collect the numbers of one cycle."""
    from prometheus_client import CollectorRegistry, Gauge

    registry = CollectorRegistry()

    def gauge(name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"twinlog_{name}", text, ("flow", *labels), registry=registry)

    lag = gauge("lag_records", "Upstream offsets still to be copied", "topic")
    for topic in report.topics:
        lag.labels(report.flow, topic.topic).set(sum(it.lag_records for it in topic.partitions))
    undecided = gauge("undecided_records", "Upstream offsets behind an open transaction, not copied", "topic")
    for topic in report.topics:
        undecided.labels(report.flow, topic.topic).set(topic.undecided_records)
    single = {
        "rpo_seconds": (
            "Age of the oldest record that is not on the target; NaN when nobody knows",
            math.nan if report.rpo_seconds is None else report.rpo_seconds,
        ),
        "undecided_seconds": (
            "Age of the oldest record behind an open transaction, once that is a minute; NaN when nobody knows",
            _longest(report.undecided),
        ),
        "unseen_partitions": ("Partitions of which no other number tells", report.unseen_partitions),
        "cycle_seconds": ("How long the last cycle took", report.seconds),
        "cycle_timestamp_seconds": ("When the last cycle ended", report.at_ms / 1000),
        "cycle_failed": (
            "Whether something of the last cycle was not copied",
            float(report.state == "failed"),
        ),
        "stopped_partitions": (
            "Partitions that are not copied until somebody acts",
            len(report.stopped) + report.stopped_not_shown,
        ),
        "paused_topics": ("Topics somebody paused", len(seen.discovery.paused_topics)),
        "flow_active": ("Whether the flow copies", float(seen.ledger.copies)),
        "orphaned_copies": ("Copies that nothing is copied into", len(seen.discovery.orphans)),
    }
    for name, (text, value) in single.items():
        gauge(name, text).labels(report.flow).set(value)
    blocked = gauge("blocked_topics", "Topics that are not copied until somebody acts", "reason")
    for reason, count in Counter(it.code.value for it in report.problems if it.blocking).items():
        blocked.labels(report.flow, reason).set(count)
    lost = gauge("gap_records", "At most how many records of gaps were not copied", "topic", "cause", "state")
    totals: Counter[tuple[str, str, str]] = Counter()
    for gap in report.gaps:
        passed = "passed" if gap.copied_past else "stopped"
        state = passed if gap.state is GapState.OPEN else gap.state.value
        totals[gap.topic, gap.cause.value, state] += gap.records
    for labels, records in totals.items():
        lost.labels(report.flow, *labels).set(records)
    return registry


def _longest(undecided: Iterable[UndecidedPartition]) -> float:
    ages = [it.seconds for it in undecided]
    known = [age for age in ages if age is not None]
    return max(known, default=math.nan if ages else 0.0)
