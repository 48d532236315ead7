"""Count what is lost with the source, from the target alone.

Records are known to be lost by the last cycle's report, and estimated by the rate of the minute before the last moment
of which the target knows: that of the report, or of the newest record that was copied since.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from twinlog.clock import iso, seconds_since
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.facts.flow import FlowFacts
from twinlog.facts.recall import recall
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.kafka_types import Positions, ReadRecord, SourceIncarnation, TopicPartition
from twinlog.recovery.report import PartitionAtRisk, TopicAtRisk, at_risk, estimated, partitions_at_risk
from twinlog.topics.snapshot import FlowSnapshot
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
        return None if self.at_ms is None or self.unread else at_risk(self.topics).least

    @property
    def cost(self) -> str:
        """Say in a clause how many records are lost."""
        guess, least = estimated(self.topics), at_risk(self.topics).least
        if self.at_ms is None:
            return "how many records are lost is not known"
        about = (
            f", about {guess:,} in all if clients wrote at that rate until now"
            if guess and guess > least
            else ""
        )
        more = f", and what {self.unread} had besides is not known" if self.unread else ""
        return f"{least:,} records are known to be lost{about or ', what came since is not known'}{more}"

    @property
    def told(self) -> str:
        """Say in a line what is lost, and what that rests on."""
        most = f"; at most the last {math.ceil(self.seconds):,} s" if self.seconds is not None else ""
        return f"{self.cost}{most}; {self.estimate}"


def read_loss(snapshot: FlowSnapshot) -> Loss:
    """Read what the target knows of the lost source.  Raises errors of the target."""
    return loss_of(snapshot, recall(snapshot))


def loss_of(snapshot: FlowSnapshot, facts: FlowFacts) -> Loss:
    """Count what is lost by the facts, and estimate the rest by the newest copies.  Raises errors of the target."""
    flow, target, report = snapshot.flow, snapshot.clusters.target, facts.ledger.last_report
    at_ms = report.at_ms if report is not None else None
    newest = read_newest(target, _copied_ends(facts), facts.copies) if report is not None else {}
    until_ms = last_moment(at_ms, newest, facts.at_ms) if at_ms is not None else None
    silent = seconds_since(until_ms, facts.at_ms)
    unread = {
        topic_facts.topic: topic_facts.unseen
        for topic_facts in facts.topics
        if topic_facts.unseen and not topic_facts.heartbeats
    }

    def estimated_for(part: PartitionAtRisk, topic: TopicAtRisk) -> PartitionAtRisk:
        if until_ms is None or silent is None:
            return part
        rate = rate_before(newest.get(TopicPartition(topic.remote_topic, part.partition), NONE), until_ms)
        return replace(part, estimated_records=part.known + round(rate * silent))

    topics = tuple(
        replace(partition, partitions=tuple(estimated_for(part, partition) for part in partition.partitions))
        for partition in partitions_at_risk(facts)
        if partition.partitions
    )
    written = (estimated(topics) or 0) > at_risk(topics).least
    return Loss(
        topics=topics,
        at_ms=at_ms,
        seconds=facts.rpo_seconds,
        estimate=_estimate(flow, at_ms, until_ms, silent, written=written),
        unread=f"{sum(unread.values()):,} partition(s) of {listed(sorted(unread))}" if unread else "",
    )


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest records of a log; `whole` says that it has no others."""

    records: Sequence[ReadRecord]
    whole: bool


NONE = Newest((), whole=True)


def read_newest(
    target: ClusterReader, ends: Positions, logs: Mapping[TopicPartition, PartitionOffsets]
) -> Mapping[TopicPartition, Newest]:
    """Read the last records before some ends; at most as many offsets, of which markers take some."""
    starts = {
        at: max(logs[at].log_start, end - RECORDS) for at, end in ends.items() if end > logs[at].log_start
    }
    found = target.read_records(starts, RECORDS) if starts else {}
    return {
        at: Newest(
            [record for record in records if record.offset < ends[at]], starts[at] == logs[at].log_start
        )
        for at, records in found.items()
    }


def _copied_ends(facts: FlowFacts) -> Positions:
    """Return the end of each copy behind its last copied record: clients of the target may write behind it.

    Without a map that tells, and can be read, the log's end counts.
    """
    ends = {}
    for topic in facts.topics:
        for row in topic.partitions:
            remote = TopicPartition(row.remote_topic, row.partition)
            if topic.heartbeats or (log := facts.copies.get(remote)) is None:
                continue
            packed, ends[remote] = (
                facts.maps.seen(SourceIncarnation(row.topic, topic.topic_id, row.partition)),
                log.end,
            )
            if isinstance(packed, PackedMap):
                with suppress(UnreadableMap):
                    ends[remote] = min(log.end, packed.end_of_copy())
    return ends


def last_moment(at_ms: int, newest: Mapping[TopicPartition, Newest], now_ms: int) -> int:
    """Return the last moment of which the target knows (epoch ms), by reports and by the newest copies.  Pure.

    A flow that follows copies on between its reports.  Times to come are no times of the source.
    """
    times = (record.timestamp for each in newest.values() for record in each.records)
    return max([at_ms, *(time for time in times if time <= now_ms)])


def rate_before(newest: Newest, at_ms: int) -> float:
    """Return the records per second that a copy received in the minute before `at_ms`, by their timestamps.  Pure.

    If the records that were read do not go back so far, the time counts in which they came.
    """
    times = [record.timestamp for record in newest.records if at_ms - RATE_MS < record.timestamp <= at_ms]
    if not times:
        return 0.0
    all_of_it = newest.whole or any(record.timestamp <= at_ms - RATE_MS for record in newest.records)
    span_ms = RATE_MS if all_of_it else max(1, at_ms - min(times))
    return len(times) * 1000 / span_ms


def _estimate(
    flow: FlowSettings, at_ms: int | None, until_ms: int | None, silent: float | None, *, written: bool
) -> str:
    """Say what the numbers rest on; `written` says whether anything was, in the minute before the last moment."""
    if at_ms is None or until_ms is None or silent is None:
        return f"nothing is known of {flow.source.alias}: no cycle has reported"
    later = f", and its newest copied record is of {iso(until_ms)}" if until_ms > at_ms else ""
    since = (
        f"what was written in the {silent:,.0f} s since is estimated by the rate of the minute before"
        if written
        else f"nothing was written in the minute before, and nobody knows of the {silent:,.0f} s since"
    )
    return f"{flow.source.alias} was last seen at {iso(at_ms)}{later}; {since}"
