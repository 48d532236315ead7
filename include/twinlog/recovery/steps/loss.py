"""Count what is lost with the source, from the target alone.

Records are known to be lost by the last cycle's report, and estimated by the rate of the minute before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twinlog import clock
from twinlog.checks.risk import iso, seconds_since
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.policy.state_topics import is_known_heartbeats
from twinlog.recovery.report import PartitionAtRisk, TopicAtRisk
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import read_progress
from twinlog.topics.discovery import remote_name

RECORDS = 1000
"""Records at the end of each copy that are read to find its rate."""

RATE_MS = 60_000
"""The time before the last report over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Tell what is lost, by partition, as of the last report; `at_ms` is None if there is none, so nothing is known.

    `seconds` is the most that can be missing: the age of the oldest record that was waiting then, and all the time
    since.
    """

    topics: tuple[TopicAtRisk, ...]
    at_ms: int | None
    seconds: float | None
    estimate: str


def read_loss(flow: FlowSettings, target: ClusterReader) -> Loss:
    """Read what the target knows of the lost source.  Raises errors of the target."""
    ledger, progress = read_ledger(flow, target), read_progress(flow, target)
    now_ms, report = clock.now_ms(), ledger.last_report
    copies = target.describe_topics({it.remote_topic for it in ledger.incarnations.values()}).found
    counts = {name: len(it.partitions) for name, it in copies.items()}
    places = dict(_places(flow, ledger, progress, counts))
    there = {it for it in places.values() if it.partition < counts.get(it.topic, 0)}
    ends = target.offsets(there).found
    starts = {at: max(it.log_start, it.end - RECORDS) for at, it in ends.items() if it.end > it.log_start}
    newest = target.read_records(starts, RECORDS) if starts and report is not None else {}
    summary = report.summary if report is not None else {}
    at_ms = report.at_ms if report is not None else None
    age = seconds_since(at_ms, now_ms)
    by_topic: dict[str, list[PartitionAtRisk]] = {}
    for at, remote in sorted(places.items()):
        rate = rate_before(newest.get(remote, ()), at_ms) if at_ms is not None else None
        row = partition_loss(at, summary, progress.get(at), ends.get(remote), rate, age)
        by_topic.setdefault(at.topic, []).append(row)
    return Loss(
        topics=tuple(
            TopicAtRisk(topic, remote_name(flow, topic), tuple(rows)) for topic, rows in by_topic.items()
        ),
        at_ms=at_ms,
        seconds=_most_missing(summary, age),
        estimate=_estimate(flow, at_ms, age),
    )


def _places(
    flow: FlowSettings,
    ledger: Ledger,
    progress: Mapping[TopicPartition, int],
    counts: Mapping[str, int],
) -> Iterator[tuple[TopicPartition, TopicPartition]]:
    """Yield each partition that was copied, seen, or has a copy, with that copy; heartbeats are left out.

    `counts` are the partitions of the copies that exist.
    """
    summary = ledger.last_report.summary if ledger.last_report is not None else {}
    seen = {
        TopicPartition(topic, int(number))
        for key in ("next_upstream", "ends")
        for topic, numbers in summary.get(key, {}).items()
        for number in numbers
    }
    known = {
        TopicPartition(topic, number)
        for topic, life in ledger.incarnations.items()
        for number in range(counts.get(life.remote_topic, 0))
    }
    for at in {*seen, *known, *progress}:
        if at.topic not in ledger.deleted and not is_known_heartbeats(flow.policy, flow.aliases, at.topic):
            life = ledger.incarnations.get(at.topic)
            remote = life.remote_topic if life is not None else remote_name(flow, at.topic)
            yield at, TopicPartition(remote, at.partition)


def partition_loss(
    at: TopicPartition,
    summary: Mapping[str, Any],
    last: int | None,
    copy: PartitionOffsets | None,
    rate: float | None,
    age: float | None,
) -> PartitionAtRisk:
    """Compute one partition's loss; `last` is its last copied upstream offset, `rate` its records per second.  Pure.

    seen by the report:    next_upstream ...... waited: lag and undecided ...... end |  written since: estimated
    copied since:          ------------> last
                                             |<------- known at risk ------->|
    """
    number = str(at.partition)

    def seen(key: str) -> int | None:
        found: int | None = summary.get(key, {}).get(at.topic, {}).get(number)
        return found

    begins, waited = seen("next_upstream"), (seen("lag") or 0) + (seen("undecided") or 0)
    end_seen = seen("ends")
    end_seen = begins if end_seen is None else end_seen
    copied_since = last is not None and last + 1 > (begins or 0)
    known = waited
    if copied_since and last is not None:
        known = min(waited, max(0, (end_seen or 0) - (last + 1)))
    more = round(rate * age) if rate is not None and age is not None else None
    return PartitionAtRisk(
        at.partition,
        end_seen if last is None else max(end_seen or 0, last + 1),
        copy.end if copy is not None else None,
        known,
        None if more is None else known + more,
    )


def rate_before(newest: Sequence[ReadRecord], at_ms: int) -> float:
    """Return the records per second that a copy received in the minute before `at_ms`, by their timestamps.  Pure."""
    times = [it.timestamp for it in newest if at_ms - RATE_MS < it.timestamp <= at_ms]
    if not times:
        return 0.0
    whole = len(times) < len(newest) or len(newest) < RECORDS
    span_ms = RATE_MS if whole else max(1, at_ms - min(times))
    return len(times) * 1000 / span_ms


def _most_missing(summary: Mapping[str, Any], age: float | None) -> float | None:
    waited = summary.get("rpo_seconds")
    return None if waited is None or age is None else round(waited + age, 3)


def _estimate(flow: FlowSettings, at_ms: int | None, age: float | None) -> str:
    if at_ms is None or age is None:
        return f"nothing is known of {flow.source.alias}: no cycle has reported"
    return (
        f"{flow.source.alias} was last seen at {iso(at_ms)}; what was written in the {age:,.0f} s since is estimated by"
        " the rate of the minute before"
    )
