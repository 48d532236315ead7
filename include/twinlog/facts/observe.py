"""Observe a flow: ask both clusters for its facts.  Only reads.

Topics with a blocking problem have no partitions: their offsets would be compared with those of another incarnation, or
with nothing.  They are counted as `unseen`: their lag must not be reported as 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.audit.deleted_early import DeletedEarly, deleted_early
from twinlog.clock import seconds_since
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import start_of_copy
from twinlog.fact import NOT_ASKED, Total, Unknown, greatest, known, total
from twinlog.facts.copies import copied, read_disks, with_configs
from twinlog.facts.flow import FlowFacts
from twinlog.facts.gaps import read_gaps
from twinlog.facts.heartbeats import newest_copied, own_heartbeats
from twinlog.facts.partition import PartitionFacts, bytes_at_risk, lag
from twinlog.facts.topic import Side, TopicFacts, drift_of, topic_columns
from twinlog.facts.undecided import Holders, undecided_partitions, who_holds
from twinlog.kafka_types import Positions, ReadRecord, TopicPartition
from twinlog.state.progress import reported_progress
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, without
from twinlog.topics.snapshot import FlowSnapshot, all_partitions
from twinlog.topics.starts import first_records


@dataclass(frozen=True, slots=True)
class _Read:
    """Tell what was read beside the topics themselves.

    `reported` is what the last cycle report said of progress.  On the source, `waiting` is the first record of each
    partition that can be copied and is not, `absent` the first that another engine has passed over, `undecided` the
    first after the last stable offset, and `holders` are the transactions that have kept the latter there for a while.
    `early` is what the copies have lost though the source holds it and their retention does not explain it.  Without
    `sides` no configuration was asked for.
    """

    snapshot: FlowSnapshot
    reported: Positions
    waiting: Mapping[TopicPartition, ReadRecord]
    absent: Mapping[TopicPartition, ReadRecord]
    undecided: Mapping[TopicPartition, ReadRecord]
    holders: Holders
    early: Mapping[TopicPartition, DeletedEarly]
    sides: Mapping[str, tuple[Side, Side]]
    sizes: Mapping[TopicPartition, int]
    heartbeats: frozenset[str]


def observe(snapshot: FlowSnapshot, *, configs: bool = True) -> FlowFacts:
    """Return the facts of a flow from a snapshot taken just now, and from the first records it does not have.

    The state is read before the ends of the logs, so that no check fails because of a running copy.  Without `configs`
    those of topics are not asked for, nor are heartbeats.  Raises ClusterUnreachable, ClusterRefused, and FormatError
    if state cannot be read.
    """
    flow, clusters, ledger = snapshot.flow, snapshot.clusters, snapshot.read_state().ledger
    progress, discovery, now_ms = snapshot.progress, snapshot.discovery, snapshot.at_ms
    first = first_records(
        clusters.source, positions(flow, discovery, progress), read_committed=flow.copy.read_committed
    )
    undecided_first = first_records(clusters.source, undecided_from(flow, discovery), read_committed=False)
    discovery = without(discovery, {**first.refused, **undecided_first.refused})
    read = _Read(
        snapshot,
        reported_progress(ledger),
        first.found,
        _absent(snapshot, discovery),
        undecided_first.found,
        who_holds(clusters.source, undecided_first.found, clock.now_ms()),
        deleted_early(flow, clusters, discovery, ledger, snapshot.maps, now_ms),
        _sides(snapshot, discovery) if configs else {},
        read_disks(clusters.source).sizes,
        own_heartbeats(flow, clusters.source, [topic.topic for topic in discovery.topics]),
    )
    topics = tuple(_topics(discovery, read))
    rows = [row for topic in topics for row in topic.partitions]
    unseen = sum(topic.unseen for topic in topics)
    doubt = not_looked_at(unseen)
    ids, offsets = _copies(snapshot)
    return FlowFacts(
        at_ms=now_ms,
        live=True,
        ledger=ledger,
        progress=progress,
        maps=snapshot.maps,
        topics=topics,
        problems=discovery.problems,
        gaps=read_gaps(flow, clusters.target, ledger, now_ms, clusters.source),
        rpo_seconds=oldest_seconds(rows, now_ms, within=flow.strictest_rpo_seconds, unseen=unseen),
        lag=total((row.uncopied for row in rows), doubt),
        undecided_records=total((row.undecided_records for row in rows), doubt),
        unseen=unseen,
        copies=offsets,
        copy_ids=ids,
        target_brokers=snapshot.target.brokers,
        heartbeat_ms=newest_copied(flow, clusters.target, now_ms) if configs else NOT_ASKED,
        undecided=undecided_partitions(flow, rows, read.holders, now_ms),
        orphans=discovery.orphans,
        paused_topics=len(discovery.paused_topics),
        source_cluster_id=discovery.source_cluster_id,
    )


def _sides(snapshot: FlowSnapshot, discovery: Discovery) -> Mapping[str, tuple[Side, Side]]:
    """Read the configuration of topics and of their copies, whose layout the snapshot has.

    Of a topic whose configuration a cluster refuses to tell, it is unknown.  A copy that was not made yet is None.
    """
    clusters, topics = snapshot.clusters, discovery.unblocked
    here, there = snapshot.source.topics.found, snapshot.target.topics.found
    ours = with_configs(clusters.source, {topic.topic: here[topic.topic] for topic in topics})
    copies = {
        topic.remote_topic: there[topic.remote_topic] for topic in topics if topic.remote_topic in there
    }
    theirs = with_configs(clusters.target, copies)
    hidden = Unknown("the copy cannot be described")
    return {
        topic.topic: (
            ours[topic.topic],
            theirs.get(topic.remote_topic, None if topic.remote is None else hidden),
        )
        for topic in topics
    }


def _copies(snapshot: FlowSnapshot) -> tuple[Mapping[str, str], Mapping[TopicPartition, PartitionOffsets]]:
    """Return topic ids (by source topic) and offsets of all copies that the ledger knows, of topics left out too."""
    target, answers = snapshot.clusters.target, snapshot.target
    lives = snapshot.ledger.incarnations.values()
    others = sorted(
        {life.remote_topic for life in lives} - answers.topics.found.keys() - answers.topics.refused.keys()
    )
    more = target.describe_topics(others).found if others else {}
    described = {**answers.topics.found, **more}
    offsets = target.offsets(all_partitions(more.values())).found if more else {}
    copies = {topic.topic: topic.remote_topic for topic in snapshot.discovery.topics}
    copies |= {life.topic: life.remote_topic for life in lives}
    ids = {topic: described[copy].topic_id for topic, copy in copies.items() if copy in described}
    return ids, {**answers.offsets.found, **offsets}


def _topics(discovery: Discovery, read: _Read) -> Iterator[TopicFacts]:
    """Make the facts of each topic, also of those that could not even be described.  Pure."""
    for topic in discovery.topics:
        yield _topic(topic, read)
    described, hidden = (
        {discovered_topic.topic for discovered_topic in discovery.topics},
        Unknown("it cannot be described"),
    )
    for name in sorted({problem.topic for problem in discovery.problems if problem.blocking} - described):
        remote, missing = read.snapshot.flow.remote_name(name), Total(0, hidden.why)
        yield TopicFacts(name, remote, 0, missing, hidden, hidden, unseen=1, blocked=True)


def _topic(it: DiscoveredTopic, read: _Read) -> TopicFacts:
    flow, now_ms = read.snapshot.flow, read.snapshot.at_ms
    rows = [] if it.blocked else [_partition(it, partition, read) for partition in it.partitions]
    unseen = max(1, it.partition_count) if it.blocked else len(it.unread)
    doubt, budget = not_looked_at(unseen), flow.tier_of(it.topic).rpo_seconds
    source, copy = read.sides.get(it.topic, (NOT_ASKED, NOT_ASKED))
    oldest = oldest_seconds(rows, now_ms, within=budget, unseen=unseen)
    undecided = undecided_seconds(rows, now_ms, within=flow.gate.undecided_seconds)
    columns = topic_columns(source, copy, read.snapshot.target.brokers)
    return TopicFacts(
        topic=it.topic,
        remote_topic=it.remote_topic,
        partition_count=it.partition_count,
        missing=total((row.missing for row in rows), doubt),
        age_seconds=known(
            oldest, "a partition, or a part of the copy, was not looked at, or a record has no time"
        ),
        undecided_seconds=known(undecided, "nothing tells when a transaction began"),
        partitions=tuple(rows),
        unseen=unseen,
        topic_id=it.topic_id,
        copy_partitions=it.remote.partitions if it.remote is not None else 0,
        source=source,
        copy=copy,
        drift=drift_of(columns) if it.topic in read.sides else NOT_ASKED,
        bytes=Unknown(doubt) if unseen else bytes_at_risk(rows, read.sizes),
        held_by=next(
            (lasting.message for lasting in undecided_partitions(flow, rows, read.holders, now_ms)), ""
        ),
        heartbeats=it.topic in read.heartbeats,
        blocked=it.blocked,
    )


def not_looked_at(unseen: int) -> str:
    """Say how many partitions are in no number; "" if there are none."""
    return f"{unseen:,} partition(s) could not be looked at" if unseen else ""


def _absent(snapshot: FlowSnapshot, discovery: Discovery) -> Mapping[TopicPartition, ReadRecord]:
    """Read the first record of each partition that another engine has passed over, if the source still has it."""
    at = {
        it.topic_partition: seen.first_absent
        for it in discovery.unblocked_partitions
        if (seen := snapshot.ledger.observed.get(it.life)) is not None and seen.first_absent is not None
    }
    read_committed = snapshot.flow.copy.read_committed
    found = first_records(snapshot.clusters.source, at, read_committed=read_committed).found if at else {}
    return {it: record for it, record in found.items() if record.offset == at[it]}


def positions(flow: FlowSettings, discovery: Discovery, progress: Positions) -> dict[TopicPartition, int]:
    """Return the upstream offset at which each lagging partition's copy would continue.  Pure."""
    return {
        it.topic_partition: position
        for it in discovery.unblocked_partitions
        if (position := _position(flow, it, progress.get(it.topic_partition))) < it.source_end(flow)
    }


def undecided_from(flow: FlowSettings, discovery: Discovery) -> dict[TopicPartition, int]:
    """Return the upstream offset where undecided records begin, for partitions that have any.  Pure.

    A flow that reads uncommitted records copies them as they come, so it has none.
    """
    return {
        it.topic_partition: it.source_end(flow)
        for it in discovery.unblocked_partitions
        if it.source_end(flow) < it.source.end
    }


def oldest_seconds(
    rows: Iterable[PartitionFacts], now_ms: int, *, within: float, unseen: int = 0
) -> float | None:
    """Return the age of the oldest record not on the target, undecided ones included; 0 if none is missing.

    None if unknown: a waiting record may have no timestamp, or one in the future, and `unseen` partitions could not be
    looked at.  If an age is over `within`, it is returned even if others are unknown; not so if the record may have a
    copy that no cycle has read.
    """
    ages: list[float | None] = [None] * unseen
    for row in rows:
        if row.lag != 0:
            age = seconds_since(row.oldest_uncopied, now_ms)
            ages.append(None if row.unread and age is not None and age > within else age)
        if row.absent_records:
            ages.append(seconds_since(row.oldest_absent, now_ms))
        if row.undecided_records:
            told = seconds_since(row.oldest_undecided, now_ms)
            ages.append(seconds_since(row.undecided_since, now_ms) if told is None else told)
    return greatest(ages, within)


def undecided_seconds(rows: Iterable[PartitionFacts], now_ms: int, *, within: float) -> float | None:
    """Return how long the oldest open transaction has held records back; 0 if none does, None if unknown."""
    ages = [seconds_since(row.undecided_since, now_ms) for row in rows if row.undecided_records]
    return greatest(ages, within)


def _position(flow: FlowSettings, partition: DiscoveredPartition, last: int | None) -> int:
    """Return the first upstream offset that could still be copied."""
    return max(partition.source.log_start, start_of_copy(flow, partition, last))


def _partition(topic: DiscoveredTopic, partition: DiscoveredPartition, read: _Read) -> PartitionFacts:
    state, at, source = read.snapshot, partition.topic_partition, partition.source
    end = partition.source_end(state.flow)
    position = _position(state.flow, partition, state.progress.get(at))
    first, oldest_undecided = read.waiting.get(at), _time_of(read.undecided.get(at))
    holder, early, life = read.holders.found.get(at), read.early.get(at), partition.life
    since = (oldest_undecided, holder.started_ms if holder else None)
    return replace(
        copied(
            state.ledger,
            state.maps,
            state.progress,
            life,
            topic.remote_topic,
            read.reported,
            partition.target,
            # An engine beats all the time: between two looks nobody could say how much of users' records has no copy.
            observed=state.flow.observed and topic.topic not in read.heartbeats,
        ),
        source_log_start=source.log_start,
        source_end=source.end,
        lag_records=lag(end, position, first),
        oldest_uncopied=_time_of(first),
        source_partitions=topic.partition_count,
        # A topic created since sync_topics ran has no copy yet; one whose copy was deleted is blocked, without a row.
        target_partitions=topic.remote.partitions if topic.remote is not None else None,
        oldest_absent=_time_of(read.absent.get(at)),
        undecided_records=max(0, source.end - max(end, position)),
        oldest_undecided=oldest_undecided,
        undecided_since=min((at_ms for at_ms in since if at_ms is not None), default=None),
        deleted_early=early.records if early is not None else 0,
    )


def _time_of(record: ReadRecord | None) -> int | None:
    return record.timestamp if record is not None and record.timestamp >= 0 else None
