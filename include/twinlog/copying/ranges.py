"""Step `plan_ranges`: plan what there is to copy, as ranges packed into lanes.

In a cycle the plan is for people to see, and lets the Spark job be skipped if there is nothing to copy. The plan is a
hint, because progress is read without a fence. The copy step resolves the ranges again, behind its fence, with the
same `resolve`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.packing import assign
from twinlog.formats.ledger.topics import CopiedThrough
from twinlog.kafka_types import OfPartition, Positions, TopicPartition
from twinlog.lane.spec import DEFAULT_MAX_MESSAGE_BYTES, NO_END, RangeSpec
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, ProblemCode
from twinlog.topics.snapshot import FlowSnapshot, with_later_ends
from twinlog.transforms.chain import Chain

ASSUMED_SLOTS = 2
"""Lanes that a plan takes to run at once; only the runner of a copy knows the real number."""


@dataclass(frozen=True, slots=True)
class StoppedPartition(OfPartition):
    """A partition that is not copied, and why. `first_offset` and `last_offset` are upstream, -1 if unknown."""

    topic: str
    partition: int
    code: str
    message: str
    first_offset: int = -1
    last_offset: int = -1

    @property
    def hint(self) -> str:
        """Say what a person can do, "" if the message says it."""
        return what_to_do(self.code, self.topic)


def what_to_do(code: str, topic: str) -> str:
    """Say what a person can do about a partition that stopped for good, "" if its message says it.  Pure."""
    if code == "gap":
        return (
            "these records are lost: a cycle with twinlog.on.gap=record-and-continue copies on behind them, or"
            f" `twinlog topics rebuild --topic {topic}` copies anew what the source has; then `twinlog accept no-gaps`"
        )
    if code == "truncation":
        return (
            "twinlog.on.gap=record-and-continue keeps what the source lost and copies on behind it; `twinlog topics"
            f" rebuild --topic {topic}` makes a copy of the source's present records only"
        )
    return ""


@dataclass(frozen=True, slots=True)
class UndecidedRange:
    """Upstream offsets [start, end) of a partition that lie behind an open transaction."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RangePlan:
    """A plan of the next copy.

    `records` is the sum of the ranges' lengths: an upper bound, because markers and compacted offsets are counted.
    `unended` are copies with an open transaction, which the copy ends if it is ours. `undecided` are records of the
    source behind transactions that are open there: no range reaches them.
    """

    flow: str
    until_ms: int | None
    ranges: tuple[RangeSpec, ...]
    stopped: tuple[StoppedPartition, ...]
    lanes: tuple[tuple[str, ...], ...]
    records: int
    unended: tuple[str, ...] = ()
    undecided: tuple[UndecidedRange, ...] = ()


@dataclass(frozen=True, slots=True)
class ResolvedRanges:
    """Ranges to copy, ascending by topic and partition, and partitions that stop."""

    ranges: tuple[RangeSpec, ...]
    stopped: tuple[StoppedPartition, ...]


def run(
    flow: FlowSettings,
    clusters: Clusters,
    *,
    until_ms: int | None = None,
    topics: Collection[str] | None = None,
    snapshot: FlowSnapshot | None = None,
) -> RangePlan:
    """Plan the next copy. `until_ms` bounds it by record time (exclusive); `topics` limits it to these."""
    snapshot = snapshot or FlowSnapshot(flow, clusters)
    discovery, progress = snapshot.discovery, snapshot.progress
    chosen = with_later_ends(clusters.source, choose(discovery, topics), progress)
    ends = ends_at(clusters.source, chosen, until_ms)
    limits = message_limits(clusters.target, [topic.remote_topic for topic in chosen])
    resolved = resolve(flow, chosen, progress, ends, limits)
    packed = assign(clusters.source, resolved.ranges, chosen, most=ASSUMED_SLOTS, configured=flow.copy.lanes)
    return RangePlan(
        flow=flow.name,
        until_ms=until_ms,
        ranges=resolved.ranges,
        # What another engine has lost, the gate judges: nothing stops for it here, and no rebuild mends it.
        stopped=tuple(it for it in resolved.stopped if not (flow.observed and it.hint)),
        lanes=tuple(tuple(f"{item.topic}-{item.partition}" for item in lane) for lane in packed),
        records=sum(item.end - item.start for item in resolved.ranges),
        unended=tuple(
            f"{topic.remote_topic}-{number}" for topic in chosen for number in topic.in_transaction
        ),
        undecided=tuple(undecided_ranges(flow, chosen)),
    )


def undecided_ranges(flow: FlowSettings, topics: Iterable[DiscoveredTopic]) -> Iterator[UndecidedRange]:
    """List upstream offsets behind open transactions; none for a flow that copies uncommitted records. Pure."""
    for topic in topics:
        for partition in topic.partitions:
            end = partition.source.readable_end(read_committed=flow.copy.read_committed)
            if end < partition.source.end:
                yield UndecidedRange(topic.topic, partition.partition, end, partition.source.end)


def choose(discovery: Discovery, topics: Collection[str] | None) -> tuple[DiscoveredTopic, ...]:
    """Return the topics that can be copied now, limited to `topics` (source names) if these are given."""
    return tuple(item for item in discovery.ready_topics if topics is None or item.topic in topics)


def ends_at(source: ClusterReader, topics: Iterable[DiscoveredTopic], until_ms: int | None) -> Positions:
    """Return the first upstream offset at or after `until_ms` for partitions that have one.

    The offset comes from Kafka's ListOffsets: the first record whose timestamp is that late. Partitions without one,
    and all of them if `until_ms` is None, are copied up to their stable end.
    """
    if until_ms is None:
        return {}
    partitions = [topic.at_source(item.partition) for topic in topics for item in topic.partitions]
    found = source.offsets_at(partitions, until_ms).require()
    return {partition: offset for partition, offset in found.items() if offset is not None}


def message_limits(target: ClusterReader, names: Iterable[str]) -> Mapping[str, int]:
    """Return max.message.bytes of topics, if the target tells."""
    configs = target.topic_configs(names).found
    values = {name: entries.get("max.message.bytes") for name, entries in configs.items()}
    return {name: int(entry.value) for name, entry in values.items() if entry is not None and entry.value}


def resolve(
    flow: FlowSettings,
    topics: Iterable[DiscoveredTopic],
    progress: Positions,
    ends: Positions,
    max_message_bytes: Mapping[str, int],
    *,
    follow: bool = False,
    leader_epochs: Mapping[TopicPartition, int] | None = None,
    chains: Mapping[TopicPartition, CopiedThrough] | None = None,
) -> ResolvedRanges:
    """Turn progress (last copied upstream offset) into the ranges to copy. Pure.

    In follow mode ranges have no end, and there is one for each partition. A partition stops, and its neighbours go
    on, in these cases:
    - its next offset is no longer in the source's log;
    - its next offset is beyond the end of that log;
    - the source did not tell its offsets.
    A partition that was added since the copy was made waits until it is provisioned on the target. `leader_epochs` are
    those of the records copied last; `chains` are what the ledger notes of the transforms.
    """
    noted = chains or {}
    ranges: list[RangeSpec] = []
    stopped: list[StoppedPartition] = []
    for topic in topics:
        stopped.extend(unavailable(flow, topic, number) for number in topic.unread)
        limit = max_message_bytes.get(topic.remote_topic, DEFAULT_MAX_MESSAGE_BYTES)
        chain, rpo_seconds = (
            flow.transforms.of(topic.remote_topic),
            flow.tier_of(topic.topic).rpo_seconds,
        )
        for partition in topic.provisioned:
            place = topic.at_source(partition.partition)
            last = progress.get(place)
            start = start_of_copy(flow, partition, last)
            known = last is not None or partition.begins is not None
            stop = _why_stopped(topic, partition, start, known=known)
            if stop is not None:
                stopped.append(stop)
                continue
            end = partition.source.readable_end(read_committed=flow.copy.read_committed)
            end = min(end, ends.get(place, end))
            if follow:
                end = NO_END
            if start < end:
                ranges.append(
                    RangeSpec(
                        topic=topic.topic,
                        topic_id=topic.topic_id,
                        remote_topic=topic.remote_topic,
                        partition=partition.partition,
                        start=start,
                        end=end,
                        max_message_bytes=limit,
                        remote_topic_id=topic.copy_id,
                        leader_epoch=(leader_epochs or {}).get(place, -1) if last is not None else -1,
                        chain=chain,
                        notes_chain=_is_news(chain, start, noted.get(place)),
                        rpo_seconds=rpo_seconds,
                    )
                )
    return ResolvedRanges(tuple(ranges), tuple(stopped))


def _is_news(chain: Chain, start: int, noted: CopiedThrough | None) -> bool:
    """Say whether the ledger lacks that records from `start` on are copied through this chain."""
    if noted is None:
        return bool(chain)
    return noted.print != chain.print or start < noted.since_offset


def unavailable(flow: FlowSettings, topic: DiscoveredTopic, number: int) -> StoppedPartition:
    """Describe a partition of the source that did not tell its offsets. Pure."""
    message = (
        f"{topic.topic}-{number}: cluster {flow.source.alias} did not say where its log begins and ends"
        " (ListOffsets); it needs a leader that answers, and DESCRIBE on the topic"
    )
    return StoppedPartition(topic.topic, number, ProblemCode.PARTITION_UNAVAILABLE.value, message)


def start_of_copy(flow: FlowSettings, partition: DiscoveredPartition, last: int | None) -> int:
    """Return the upstream offset at which a copy goes on behind the `last` one copied, or begins.  Pure."""
    return last + 1 if last is not None else partition.beginning(latest=flow.copy.start_from_latest)


def _why_stopped(
    topic: DiscoveredTopic, partition: DiscoveredPartition, start: int, *, known: bool
) -> StoppedPartition | None:
    """Return what keeps a partition from being copied; only a partition with progress can have lost offsets."""
    name = f"{topic.topic}-{partition.partition}"
    if known and start < partition.source.log_start:
        last = partition.source.log_start - 1
        return StoppedPartition(
            topic.topic,
            partition.partition,
            "gap",
            f"{name}: upstream offsets {start} to {last} were deleted before they could be copied",
            start,
            last,
        )
    if known and start > partition.source.end:
        return StoppedPartition(
            topic.topic,
            partition.partition,
            "truncation",
            f"{name}: copied up to upstream offset {start - 1}, but the source's log ends at {partition.source.end}",
            partition.source.end,
            start - 1,
        )
    if partition.target is None:
        return StoppedPartition(
            topic.topic,
            partition.partition,
            "no-target-partition",
            f"{name}: {topic.remote_topic} has no partition {partition.partition} that can be written to yet",
        )
    return None
