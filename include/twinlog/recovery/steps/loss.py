"""Count what is lost with the source, from the target alone.

Records are known to be lost by the last cycle's report, and estimated by the rate of the minute before the last moment
of which the target knows: that of the report, or of the newest record that was copied since.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from twinlog import clock
from twinlog.clock import iso, seconds_since
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import ReadRecord, SourceIncarnation, TopicPartition
from twinlog.policy.state_topics import is_known_heartbeats
from twinlog.recovery.report import PartitionAtRisk, TopicAtRisk, at_risk, estimated
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import read_packed, read_progress
from twinlog.topics.discovery import remote_name
from twinlog.visible import listed

RECORDS = 1000
"""Offsets at the end of each copy whose records are read to find its rate."""

RATE_MS = 60_000
"""The time over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Tell what is lost, by partition, as of the last report; `at_ms` is None if there is none, so nothing is known.

    `seconds` is the most that can be missing: the age of the oldest record that was waiting then, and all the time
    since.  `unread` says which partitions the last report could not look into, "" if there were none: what is lost of
    them is in no number.
    """

    topics: tuple[TopicAtRisk, ...]
    at_ms: int | None
    seconds: float | None
    estimate: str
    unread: str = ""

    @property
    def known(self) -> int | None:
        """Count the records known to be lost; None if some partition was not looked at."""
        return None if self.at_ms is None or self.unread else at_risk(self.topics).known

    @property
    def cost(self) -> str:
        """Say in a clause how many records are lost."""
        guess = estimated(self.topics)
        about = f", about {guess:,} in all if clients wrote until now" if guess is not None else ""
        if self.at_ms is None:
            return f"how many records are lost is not known{about}"
        more = f", and what {self.unread} had besides is not known" if self.unread else ""
        return f"{at_risk(self.topics).known:,} records are known to be lost{about}{more}"

    @property
    def told(self) -> str:
        """Say in a line what is lost, and what that rests on."""
        most = f"; at most the last {self.seconds:,.0f} s" if self.seconds is not None else ""
        return f"{self.cost}{most}; {self.estimate}"


def read_loss(flow: FlowSettings, target: ClusterReader) -> Loss:
    """Read what the target knows of the lost source.  Raises errors of the target."""
    ledger, progress = read_ledger(flow, target), read_progress(flow, target)
    now_ms, report = clock.now_ms(), ledger.last_report
    copies = target.describe_topics({it.remote_topic for it in ledger.incarnations.values()}).found
    counts = {name: len(it.partitions) for name, it in copies.items()}
    places = dict(_places(flow, ledger, progress, counts))
    there = {it for it in places.values() if it.partition < counts.get(it.topic, 0)}
    ends = target.offsets(there).found
    copied = _copied_ends(flow, target, ledger, places, ends) if report is not None else {}
    newest = read_newest(target, copied, ends)
    summary = report.summary if report is not None else {}
    at_ms = report.at_ms if report is not None else None
    age = seconds_since(at_ms, now_ms)
    until_ms = last_moment(at_ms, newest, now_ms) if at_ms is not None else None
    silent = seconds_since(until_ms, now_ms)
    unread = _unread_partitions(ledger)
    by_topic: dict[str, list[PartitionAtRisk]] = {}
    for at, remote in sorted(places.items()):
        rate = rate_before(newest.get(remote, NONE), until_ms) if until_ms is not None else None
        row = partition_loss(at, summary, progress.get(at), ends.get(remote), rate, silent)
        row = replace(row, unseen=report is not None and _unseen(at, summary, unread))
        by_topic.setdefault(at.topic, []).append(row)
    return Loss(
        topics=tuple(
            TopicAtRisk(topic, remote_name(flow, topic), tuple(rows)) for topic, rows in by_topic.items()
        ),
        at_ms=at_ms,
        seconds=_most_missing(summary, age),
        estimate=_estimate(flow, at_ms, until_ms, silent),
        unread=_named(unread),
    )


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest records of a log; `whole` says that it has no others."""

    records: Sequence[ReadRecord]
    whole: bool


NONE = Newest((), whole=True)


def read_newest(
    target: ClusterReader, ends: Mapping[TopicPartition, int], logs: Mapping[TopicPartition, PartitionOffsets]
) -> Mapping[TopicPartition, Newest]:
    """Read the last records before some ends; at most as many offsets, of which markers take some."""
    starts = {
        at: max(logs[at].log_start, end - RECORDS) for at, end in ends.items() if end > logs[at].log_start
    }
    found = target.read_records(starts, RECORDS) if starts else {}
    return {
        at: Newest([it for it in records if it.offset < ends[at]], starts[at] == logs[at].log_start)
        for at, records in found.items()
    }


def _copied_ends(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    places: Mapping[TopicPartition, TopicPartition],
    logs: Mapping[TopicPartition, PartitionOffsets],
) -> Mapping[TopicPartition, int]:
    """Return the end of each copy behind its last copied record: clients of the target may write behind it.

    Without a map that tells, and can be read, the log's end counts.
    """
    maps, ends = read_packed(flow, target), {}
    for at, remote in places.items():
        if (log := logs.get(remote)) is None:
            continue
        life = ledger.incarnations.get(at.topic)
        known = SourceIncarnation(at.topic, life.topic_id if life is not None else "", at.partition)
        packed, ends[remote] = maps.seen(known), log.end
        if isinstance(packed, PackedMap):
            with suppress(UnreadableMap):
                ends[remote] = min(log.end, packed.end_of_copy())
    return ends


def last_moment(at_ms: int, newest: Mapping[TopicPartition, Newest], now_ms: int) -> int:
    """Return the last moment of which the target knows (epoch ms), by reports and by the newest copies.  Pure.

    A flow that follows copies on between its reports.  Times to come are no times of the source.
    """
    times = (it.timestamp for each in newest.values() for it in each.records)
    return max([at_ms, *(it for it in times if it <= now_ms)])


def _unseen(at: TopicPartition, summary: Mapping[str, Any], unread: Collection[str]) -> bool:
    """Say whether the last cycle did not see where a partition ends; of an empty one it reports no numbers either."""
    reported = summary.get("next_upstream", {})
    told = any(
        str(at.partition) in summary.get(key, {}).get(at.topic, {}) for key in ("next_upstream", "ends")
    )
    return not told and (at.topic not in reported or at.topic in unread)


def _unread_partitions(ledger: Ledger) -> Mapping[str, int]:
    """Return how many partitions of each topic the last cycle could not look into."""
    known = ledger.known_source
    return {it.topic: it.unread for it in known.topics if it.unread} if known is not None else {}


def _named(unread: Mapping[str, int]) -> str:
    return f"{sum(unread.values()):,} partition(s) of {listed(sorted(unread))}" if unread else ""


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
    silent: float | None,
) -> PartitionAtRisk:
    """Compute one partition's loss; `last` is its last copied upstream offset, `rate` its records per second.  Pure.

    Nothing is known of the last `silent` seconds.

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
    more = round(rate * silent) if rate is not None and silent is not None else None
    return PartitionAtRisk(
        at.partition,
        end_seen if last is None else max(end_seen or 0, last + 1),
        copy.end if copy is not None else None,
        known,
        None if more is None else known + more,
    )


def rate_before(newest: Newest, at_ms: int) -> float:
    """Return the records per second that a copy received in the minute before `at_ms`, by their timestamps.  Pure.

    If the records that were read do not go back so far, the time counts in which they came.
    """
    times = [it.timestamp for it in newest.records if at_ms - RATE_MS < it.timestamp <= at_ms]
    if not times:
        return 0.0
    all_of_it = newest.whole or any(it.timestamp <= at_ms - RATE_MS for it in newest.records)
    span_ms = RATE_MS if all_of_it else max(1, at_ms - min(times))
    return len(times) * 1000 / span_ms


def _most_missing(summary: Mapping[str, Any], age: float | None) -> float | None:
    waited = summary.get("rpo_seconds")
    return None if waited is None or age is None else round(waited + age, 3)


def _estimate(flow: FlowSettings, at_ms: int | None, until_ms: int | None, silent: float | None) -> str:
    if at_ms is None or until_ms is None or silent is None:
        return f"nothing is known of {flow.source.alias}: no cycle has reported"
    later = f", and its newest copied record is of {iso(until_ms)}" if until_ms > at_ms else ""
    return (
        f"{flow.source.alias} was last seen at {iso(at_ms)}{later}; what was written in the {silent:,.0f} s since is"
        " estimated by the rate of the minute before"
    )
