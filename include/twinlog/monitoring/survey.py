"""Describe the present state of every partition of a flow, for the gate, validate, publish and status.  Only reads.

Topics with a blocking problem have no rows: their offsets would be compared with those of another incarnation, or with
nothing.  Partitions without a row are counted as `unseen`: their lag must not be reported as 0.  Gaps come with the
retention of their topics on both clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog import clock
from twinlog.audit.deleted_early import DeletedEarly, deleted_early
from twinlog.checks.check import Row
from twinlog.checks.gaps import GapReport, gap_reports, keeps_ms
from twinlog.checks.map_holes import bounds_of, lost_in
from twinlog.checks.partitions import MapSummary, PartitionRow, lag, summarize_segments, waiting_from
from twinlog.checks.risk import greatest
from twinlog.clock import seconds_since
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, TransientError, TwinlogError
from twinlog.fact import Unknown, known
from twinlog.formats.ledger.records import GapCause
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.grouped import grouped
from twinlog.kafka_types import ReadRecord, SourceIncarnation, TopicPartition
from twinlog.monitoring.open_at_source import Holders, who_holds
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, remote_name, without
from twinlog.topics.snapshot import FlowSnapshot


def read_gaps(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    now_ms: int,
    source: ClusterReader | None = None,
) -> tuple[GapReport, ...]:
    """List the gaps of a flow as of `now_ms`.

    If `source` is None or does not answer, nothing is left of the records there, so the copy's retention counts.
    Without gaps no cluster is asked.  Raises ClusterUnreachable for the target.
    """
    names = sorted({it.topic for it in ledger.gaps} | {it.topic for it in ledger.quarantined})
    if not names:
        return ()
    remote = {name: _remote(flow, ledger, name) for name in names}
    copies = target.topic_configs(sorted(set(remote.values()))).found
    try:
        origins = source.topic_configs(names) if source is not None else None
    except TransientError:
        origins = None
    keeps = {}
    for name in names:
        sides = [copies.get(remote[name], {})]
        if origins is not None:
            sides.append(origins.found.get(name, {}))
        keeps[name] = keeps_ms(sides)
    return gap_reports(ledger, keeps, now_ms)


def _remote(flow: FlowSettings, ledger: Ledger, topic: str) -> str:
    life = ledger.incarnations.get(topic)
    return life.remote_topic if life is not None else remote_name(flow, topic)


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of a flow at `at_ms`: its topics, ledger, offset map, one row per partition, and gaps.

    `holders` names the producers of the transactions that have kept partitions of the source undecided for a while.
    """

    discovery: Discovery
    ledger: Ledger
    maps: Maps[PackedMap]
    rows: tuple[PartitionRow, ...]
    at_ms: int
    gaps: tuple[GapReport, ...]
    holders: Holders = field(default_factory=lambda: Answers({}))

    @property
    def lag_records(self) -> int | None:
        """Count upstream offsets that can be copied and are not; None if a partition could not be looked at."""
        return None if self.unseen else sum(max(0, row.lag_records) for row in self.rows)

    @property
    def undecided_records(self) -> int:
        """Count upstream offsets behind open transactions, over all partitions that have a row."""
        return sum(row.undecided_records for row in self.rows)

    @property
    def undescribed(self) -> frozenset[str]:
        """Return the topics that could not even be described."""
        known = {topic.topic for topic in self.discovery.topics}
        return frozenset(it.topic for it in self.discovery.problems if it.blocking) - known

    @property
    def unseen(self) -> int:
        """Count partitions that could not be looked at; a topic that cannot even be described counts as one."""
        return len(self.undescribed) + sum(unseen_of(topic) for topic in self.discovery.topics)

    def rpo_seconds(self, flow: FlowSettings) -> float | None:
        """Return the age of the oldest record that is not on the target, as `oldest_seconds` computes it."""
        strictest = min(tier.rpo_seconds for tier in flow.tiers)
        return oldest_seconds(self.rows, self.at_ms, within=strictest, unseen=self.unseen)


@dataclass(frozen=True, slots=True)
class Copied:
    """Tell how far each partition was copied: progress, the map, what the last cycle report said, and the ledger."""

    progress: Mapping[TopicPartition, int]
    maps: Maps[PackedMap]
    reported: Mapping[TopicPartition, int]
    ledger: Ledger = field(default_factory=Ledger)


@dataclass(frozen=True, slots=True)
class Seen:
    """Tell what was read on the source about its partitions.

    `waiting` is the first record that can be copied and is not.  `undecided` is the first after the last stable
    offset.  `holders` are the transactions that have kept the latter there for a while.  `early` is what the copies
    have lost though the source holds it and their retention does not explain it.
    """

    waiting: Mapping[TopicPartition, ReadRecord]
    undecided: Mapping[TopicPartition, ReadRecord]
    holders: Mapping[TopicPartition, OpenTransaction]
    early: Mapping[TopicPartition, DeletedEarly] = field(default_factory=dict)


def survey(snapshot: FlowSnapshot) -> Survey:
    """Make one row per partition from a snapshot taken just now, and from the first records it does not have.

    The state is read before the ends of the logs, so that no check fails because of a running copy.  Raises
    ClusterUnreachable, ClusterRefused, and FormatError if state cannot be read.
    """
    flow, clusters, ledger = snapshot.flow, snapshot.clusters, snapshot.read_state().ledger
    progress, discovery = snapshot.progress, snapshot.discovery
    copied = Copied(progress, snapshot.maps, reported_progress(ledger), ledger)
    first = _first_of(clusters, positions(flow, discovery, progress), read_committed=flow.copy.read_committed)
    undecided_first = _first_of(clusters, undecided_from(flow, discovery), read_committed=False)
    discovery = without(discovery, {**first.refused, **undecided_first.refused})
    waiting, undecided = first.found, undecided_first.found
    holders = who_holds(clusters.source, undecided, clock.now_ms())
    early = deleted_early(flow, clusters, discovery, ledger, snapshot.maps, snapshot.at_ms)
    rows = partition_rows(flow, discovery, copied, Seen(waiting, undecided, holders.found, early))
    gaps = read_gaps(flow, clusters.target, ledger, snapshot.at_ms, clusters.source)
    return Survey(discovery, ledger, snapshot.maps, rows, snapshot.at_ms, gaps, holders)


def _first_of(
    clusters: Clusters, starts: Mapping[TopicPartition, int], *, read_committed: bool
) -> Answers[TopicPartition, ReadRecord]:
    """Read the first record from each start; if a topic is refused, those of the others are read all the same."""

    def read(some: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, ReadRecord]:
        found = clusters.source.read_records(some, limit=1, read_committed=read_committed)
        return {at: records[0] for at, records in found.items() if records}

    try:
        return Answers(read(starts))
    except ClusterRefused:
        found: dict[TopicPartition, ReadRecord] = {}
        refused: dict[TopicPartition, TwinlogError] = {}
    for some in grouped((at.topic, (at, start)) for at, start in starts.items()).values():
        try:
            found |= read(dict(some))
        except ClusterRefused as error:
            refused |= dict.fromkeys(dict(some), error)
    return Answers(found, refused)


def partition_rows(
    flow: FlowSettings,
    discovery: Discovery,
    copied: Copied,
    seen: Seen,
) -> tuple[PartitionRow, ...]:
    """Make one row per partition that can be judged.  Pure."""
    return tuple(_row(flow, topic, partition, copied, seen) for topic, partition in _partitions(discovery))


def positions(
    flow: FlowSettings, discovery: Discovery, progress: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the upstream offset at which each lagging partition's copy would continue.  Pure."""
    found: dict[TopicPartition, int] = {}
    for topic, partition in _partitions(discovery):
        it = topic.at_source(partition.partition)
        position = _position(flow, partition, progress.get(it))
        if position < source_end(flow, partition):
            found[it] = position
    return found


def undecided_from(flow: FlowSettings, discovery: Discovery) -> dict[TopicPartition, int]:
    """Return the upstream offset where undecided records begin, for partitions that have any.  Pure.

    A flow that reads uncommitted records copies them as they come, so it has none.
    """
    return {
        topic.at_source(it.partition): source_end(flow, it)
        for topic, it in _partitions(discovery)
        if source_end(flow, it) < it.source.end
    }


def source_end(flow: FlowSettings, partition: DiscoveredPartition) -> int:
    """Return up to where the flow copies: the stable end, or the end if it also reads uncommitted records."""
    return partition.source.readable_end(read_committed=flow.copy.read_committed)


def reported_progress(ledger: Ledger) -> Mapping[TopicPartition, int]:
    """Read the next upstream offsets in the last cycle report, if they belong to the incarnations copied now."""
    report = ledger.last_report
    if report is None:
        return {}
    rewound = {it.topic_partition for it in ledger.gaps if it.cause is GapCause.TRUNCATION}
    return {
        it: offset
        for topic, offsets in report.summary.get("next_upstream", {}).items()
        if (life := ledger.incarnations.get(topic)) is None or life.since_ms <= report.at_ms
        for partition, offset in offsets.items()
        if (it := TopicPartition(topic, int(partition))) not in rewound
    }


def oldest_seconds(
    rows: Iterable[PartitionRow], now_ms: int, *, within: float, unseen: int = 0
) -> float | None:
    """Return the age of the oldest record not on the target, undecided ones included; 0 if none is missing.

    None if unknown: a waiting record may have no timestamp, or one in the future, and `unseen` partitions could not be
    looked at.  If an age is over `within`, it is returned even if others are unknown.
    """
    ages: list[float | None] = [None] * unseen
    for row in rows:
        if row.lag_records > 0:
            ages.append(seconds_since(row.oldest_uncopied, now_ms))
        if row.undecided_records:
            told = seconds_since(row.oldest_undecided, now_ms)
            ages.append(seconds_since(row.undecided_since, now_ms) if told is None else told)
    oldest = greatest(ages, within)
    return None if oldest is None else round(oldest, 3)


def undecided_seconds(rows: Iterable[PartitionRow], now_ms: int, *, within: float) -> float | None:
    """Return how long the oldest open transaction has held records back; 0 if none does, None if unknown."""
    ages = [seconds_since(row.undecided_since, now_ms) for row in rows if row.undecided_records]
    oldest = greatest(ages, within)
    return None if oldest is None else round(oldest, 3)


def ages_of(flow: FlowSettings, topic: DiscoveredTopic, rows: Iterable[PartitionRow], now_ms: int) -> Row:
    """Make the columns about records a topic misses on the target, and for how long: all its partitions.  Pure."""
    every = list(rows)
    allowed = flow.gate.undecided_seconds
    budget = flow.tier_of(topic.topic).rpo_seconds
    oldest = oldest_seconds(every, now_ms, within=budget, unseen=unseen_of(topic))
    undecided = undecided_seconds(every, now_ms, within=allowed)
    return {
        "age_seconds": known(oldest, "a partition could not be looked at, or a record has no time"),
        "undecided_seconds": known(undecided, "nothing tells when a transaction began"),
        "undecided_allowed": allowed,
    }


def unseen_of(topic: DiscoveredTopic) -> int:
    """Count the partitions of a topic that have no row."""
    return max(1, topic.partition_count) if topic.blocked else len(topic.unread)


def summarized(maps: Maps[PackedMap], life: SourceIncarnation) -> MapSummary:
    """Add up the map of one partition; a map that cannot be read counts as empty.  Pure."""
    try:
        packed = maps.get(life)
        return summarize_segments(packed.pieces()) if packed is not None else MapSummary()
    except UnreadableMap:
        return MapSummary()


def unmapped(
    ledger: Ledger,
    maps: Maps[PackedMap],
    life: SourceIncarnation,
    reported: int | None,
    last: int | None,
    copy: PartitionOffsets | None,
) -> int | Unknown | None:
    """Count the copied offsets whose part of the map was lost; None if there is no map.  Pure.

    Copied offsets are those that the last cycle `reported`, which was read before the map: progress may be ahead of
    the map that was read.
    """
    copied_to = None if reported is None or last is None else min(reported, last + 1)
    try:
        packed = maps.get(life)
        if packed is None or copy is None:
            return None
        bounds = bounds_of(ledger, life, copied_to, copy.log_start, copy.stable_end)
        return sum(it.end - it.start for it in lost_in(packed, bounds))
    except UnreadableMap:
        return Unknown("the map cannot be read")


def _partitions(discovery: Discovery) -> Iterator[tuple[DiscoveredTopic, DiscoveredPartition]]:
    return ((topic, it) for topic in discovery.topics if not topic.blocked for it in topic.partitions)


def _position(flow: FlowSettings, partition: DiscoveredPartition, last: int | None) -> int:
    if last is None and partition.begins is not None:
        return waiting_from(partition.source, partition.begins)
    if last is None and flow.copy.start_from_latest:
        return partition.source.stable_end
    return waiting_from(partition.source, None if last is None else last + 1)


def _row(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    copied: Copied,
    seen: Seen,
) -> PartitionRow:
    it, life = topic.at_source(partition.partition), topic.life(partition.partition)
    last = copied.progress.get(it)
    end, position = source_end(flow, partition), _position(flow, partition, last)
    first = seen.waiting.get(it)
    oldest_undecided = _time_of(seen.undecided.get(it))
    holder, early = seen.holders.get(it), seen.early.get(it)
    return PartitionRow(
        topic=topic.topic,
        remote_topic=topic.remote_topic,
        partition=partition.partition,
        source_log_start=partition.source.log_start,
        source_end=partition.source.end,
        next_upstream=None if last is None else last + 1,
        lag_records=lag(end, position, first),
        oldest_uncopied=_time_of(first),
        target_log_start=partition.target.log_start if partition.target is not None else None,
        target_stable_end=partition.target.stable_end if partition.target is not None else None,
        source_partitions=topic.partition_count,
        # A topic created since sync_topics ran has no copy yet; one whose copy was deleted is blocked, without a row.
        target_partitions=topic.remote.partitions if topic.remote is not None else None,
        mapped=summarized(copied.maps, life),
        reported_next_upstream=copied.reported.get(it),
        undecided_records=max(0, partition.source.end - max(end, position)),
        oldest_undecided=oldest_undecided,
        undecided_since=min(
            (at for at in (oldest_undecided, holder.started_ms if holder else None) if at is not None),
            default=None,
        ),
        unmapped_offsets=unmapped(
            copied.ledger, copied.maps, life, copied.reported.get(it), last, partition.target
        ),
        deleted_early=early.records if early is not None else 0,
    )


def _time_of(record: ReadRecord | None) -> int | None:
    return record.timestamp if record is not None and record.timestamp >= 0 else None
