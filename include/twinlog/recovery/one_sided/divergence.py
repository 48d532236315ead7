"""Tell by the exact map, partition by partition, what is on the source alone and what is on the target alone.

A promoted flow copies nothing, so its progress and its map stand still while both logs are read:

    source   copied ... | never copied: the tail, without what the reverse flow wrote | end
    target   copies ... | written by clients of the target                            | end

If a reverse flow brings the target's records home into the same topic, the target's part begins where that flow has
come to, and leaves out the copies.  Records that producers of the target wrote between the copies before the failover
are what an audit calls extra: the gate has judged them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused
from twinlog.facts.heartbeats import own_heartbeats
from twinlog.facts.observe import positions
from twinlog.formats.ledger.topics import Incarnation
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.groups.maps import readable
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.logs.partition_reader import Lost
from twinlog.offsets.spans import Spans
from twinlog.recovery.one_sided.read import Read, Side, Stretch
from twinlog.state.progress import read_progress
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, ProblemCode
from twinlog.topics.incarnations import differ, no_longer_copied
from twinlog.topics.other_writers import OtherWriters, read_other_writers
from twinlog.topics.snapshot import FlowSnapshot, all_partitions


@dataclass(frozen=True, slots=True)
class LeftCopy:
    """A copy that is still there, and what its partitions hold; `refused` says why that cannot be told of all."""

    life: Incarnation
    topic_id: str
    logs: Mapping[int, PartitionOffsets]
    refused: str


def left_copies(snapshot: FlowSnapshot) -> Iterator[LeftCopy]:
    """Yield the copies of a promoted flow that it copies nothing into any more: clients may have written there, too.

    Their topics were left out of the flow, or deleted on the source.  Nothing on the source can be compared with them,
    and no flow brings home what clients wrote behind the last copy.  A copy that was created again is not the flow's.
    A flow home has none: what it brings records to are the source's own topics.  Raises ClusterUnreachable.
    """
    flow, ledger, target = snapshot.flow, snapshot.ledger, snapshot.clusters.target
    if flow.homes is not None:
        return
    seen = {discovered_topic.topic for discovered_topic in snapshot.discovery.topics}
    left = {
        topic: life
        for topic, life in ledger.incarnations.items()
        if topic not in seen and no_longer_copied(flow, ledger, topic)
    }
    beats = own_heartbeats(flow, snapshot.clusters.source, left)
    answers = target.describe_topics({life.remote_topic for life in left.values()})
    offsets = target.offsets(all_partitions(answers.found.values()))
    for topic, life in sorted(left.items()):
        name = life.remote_topic
        copy, error = answers.found.get(name), answers.refused.get(name)
        if topic in beats or name in answers.absent:
            continue
        if copy is None:
            yield LeftCopy(life, "", {}, error.message if error is not None else "it was not described")
        elif not differ(life.remote_topic_id, copy.topic_id):
            logs = {at.partition: log for at, log in offsets.found.items() if at.topic == name}
            refused = [why.message for at, why in offsets.refused.items() if at.topic == name]
            yield LeftCopy(life, copy.topic_id, logs, next(iter(refused), ""))


def known_to_be_gone(snapshot: FlowSnapshot) -> frozenset[str]:
    """Return the topics that are gone from both sides, and those that are because their owners wanted it.

    The latter were deleted before the failover, so that cycles saw it.  A topic that is gone since may have been lost
    with the source; a person can leave it out of the flow.
    Raises errors of the target.
    """
    failover = snapshot.ledger.present_failover
    began_ms = failover.started_ms if failover is not None else 0
    seen = {topic.topic for topic in snapshot.ledger.deleted.values() if topic.first_seen_ms < began_ms}
    gone = {problem.topic for problem in snapshot.discovery.problems if problem.code is ProblemCode.DELETED}
    copies = {snapshot.ledger.incarnations[topic].remote_topic: topic for topic in gone}
    from_both = {copies[name] for name in snapshot.clusters.target.describe_topics(copies).absent}
    return frozenset(
        it for it in gone if it in seen | from_both or snapshot.flow.why_left_out(it) is not None
    )


@dataclass(frozen=True, slots=True)
class PartitionDivergence:
    """One partition: offsets [from, end) that were read on either side, and the records there that it alone has.

    `at_risk_records` are on the source, `only_on_target_records` on the target; None if the copy was not read.
    `expired_offsets` were never copied, and the source has deleted them meanwhile.  `undecided_offsets` lie behind open
    transactions of the source.
    """

    partition: int
    upstream_from: int
    upstream_end: int
    at_risk_records: int
    downstream_from: int | None
    downstream_end: int | None
    only_on_target_records: int | None
    expired_offsets: int = 0
    undecided_offsets: int = 0


@dataclass(frozen=True, slots=True)
class TopicDivergence:
    """The partitions of one topic; `comes_home` says that a flow of the file brings home what clients wrote there."""

    topic: str
    remote_topic: str
    comes_home: bool
    partitions: tuple[PartitionDivergence, ...]


@dataclass(frozen=True, slots=True)
class Divergence:
    """Tell what is on one side alone, and where: in `tails` on the source, in `strays` on the target for good.

    `unseen` names what could not be compared, `notes` what a person should know.
    """

    topics: tuple[TopicDivergence, ...]
    tails: tuple[Stretch, ...]
    strays: tuple[Stretch, ...]
    partition_counts: Mapping[str, int]
    unseen: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def least(self) -> str:
        """Say before a number that there may be more; "" if all was looked at."""
        return "at least " if self.unseen else ""

    @property
    def only_on_source(self) -> int:
        """Count the records that were never copied."""
        return sum(partition.at_risk_records for topic in self.topics for partition in topic.partitions)

    @property
    def only_on_target(self) -> int:
        """Count the records of the target that the source does not have."""
        return sum(
            partition.only_on_target_records or 0 for topic in self.topics for partition in topic.partitions
        )

    @property
    def strayed(self) -> int:
        """Count those of them that no flow brings home."""
        return sum(
            partition.only_on_target_records or 0
            for topic in self.topics
            if not topic.comes_home
            for partition in topic.partitions
        )

    @property
    def coming(self) -> int:
        """Count those of them that come home."""
        return self.only_on_target - self.strayed


def compare(flow: FlowSettings, clusters: Clusters, read: Read, reverse: FlowSettings | None) -> Divergence:
    """Compare both sides; `reverse` is the enabled flow from the target to the source.  Raises errors of the clusters.

    What cannot be looked at is named, the rest is compared.  Heartbeats, which twinlog itself goes on writing to both
    sides, are left out.  Of topics that the flow copied earlier only the copies are looked at.
    """
    snapshot = FlowSnapshot(flow, clusters).read_state()
    discovery = snapshot.discovery
    others = read_other_writers(flow, clusters, discovery)
    look = _Look(snapshot, others, reverse, read)
    beats = own_heartbeats(flow, clusters.source, [topic.topic for topic in discovery.topics])
    topics = [look.topic(topic) for topic in discovery.unblocked if topic.topic not in beats]
    topics += [
        look.left(copy)
        for copy in left_copies(snapshot)
        if reverse is None or not brings_home(reverse, copy.life)
    ]
    return Divergence(
        tuple(topics),
        tuple(look.tails),
        tuple(look.strays),
        {topic.topic: topic.partition_count for topic in discovery.topics},
        tuple(look.unseen),
        tuple(look.notes),
    )


def _unseen(snapshot: FlowSnapshot) -> tuple[str, ...]:
    discovery, gone = snapshot.discovery, known_to_be_gone(snapshot)
    problems = (
        f"{problem.message}; to leave it out, add it to {discovery.flow}.topics.exclude"
        for problem in discovery.problems
        if problem.blocking or (problem.code is ProblemCode.DELETED and problem.topic not in gone)
    )
    unread = (
        f"{topic.topic}-{number} does not tell its offsets"
        for topic in discovery.unblocked
        for number in topic.unread
    )
    return (*problems, *unread)


def brings_home(reverse: FlowSettings, topic: DiscoveredTopic | Incarnation) -> bool:
    """Say whether the reverse flow copies what is in the copy into the topic itself.  Pure."""
    chosen = reverse.why_left_out(topic.remote_topic) is None
    return chosen and reverse.remote_name(topic.remote_topic) == topic.topic


class _Look:
    """One comparison: what it reads by, and what it finds."""

    def __init__(
        self, snapshot: FlowSnapshot, others: OtherWriters, reverse: FlowSettings | None, read: Read
    ) -> None:
        self._snapshot, self._others, self._reverse, self._read = snapshot, others, reverse, read
        self._begins = positions(snapshot.flow, snapshot.discovery, snapshot.progress)
        self._home = read_progress(reverse, snapshot.clusters.source) if reverse is not None else {}
        self.unseen = [*_unseen(snapshot)]
        self.notes: list[str] = []
        self.tails: list[Stretch] = []
        self.strays: list[Stretch] = []

    def topic(self, topic: DiscoveredTopic) -> TopicDivergence:
        """Compare one topic."""
        comes_home = self._reverse is not None and brings_home(self._reverse, topic)
        rows = tuple(
            self._partition(topic, partition, comes_home=comes_home) for partition in topic.partitions
        )
        return TopicDivergence(topic.topic, topic.remote_topic, comes_home, rows)

    def left(self, it: LeftCopy) -> TopicDivergence:
        """Look at a copy that nothing is copied into any more: what clients wrote there stays."""
        life, alias, rows, refused = it.life, self._snapshot.flow.target.alias, [], it.refused
        try:
            rows = [self._left_partition(it, number, log) for number, log in sorted(it.logs.items())]
        except (ClusterRefused, UnreadableMap) as error:
            refused = error.message
        if refused:
            self.notes.append(
                f"{life.remote_topic} stays on {alias}, and what clients wrote there is not known: {refused}"
            )
        elif any(row.only_on_target_records for row in rows):
            self.notes.append(
                f"what clients wrote to {life.remote_topic} stays on {alias}: the flow has left {life.topic} behind"
            )
        return TopicDivergence(life.topic, life.remote_topic, False, tuple(rows))

    def _left_partition(self, it: LeftCopy, number: int, log: PartitionOffsets) -> PartitionDivergence:
        copied = self._snapshot.progress.get(TopicPartition(it.life.topic, number), -1) + 1
        place = TopicPartition(it.life.remote_topic, number)
        source = SourceIncarnation(it.life.topic, it.life.topic_id, number)
        there = self._behind_copies(source, place, it.topic_id, log, comes_home=False)
        written = self._count(there)
        if written:
            self.strays.append(there)
        return PartitionDivergence(number, copied, copied, 0, there.start, there.end, written)

    def _partition(
        self, topic: DiscoveredTopic, it: DiscoveredPartition, *, comes_home: bool
    ) -> PartitionDivergence:
        flow, place = self._snapshot.flow, TopicPartition(topic.topic, it.partition)
        end, last = it.source_end(flow), self._snapshot.progress.get(place)
        start = min(self._begins.get(place, end), end)
        copied = 0 if last is None else last + 1
        expired = max(0, it.source.log_start - copied) if last is not None else 0
        undecided = it.source.end - end
        tail = Stretch(
            Side.SOURCE,
            topic.topic,
            topic.topic_id,
            it.partition,
            start,
            end,
            (self._others.loopback.get(place, Spans()),),
        )
        missing = self._count(tail)
        if missing:
            self.tails.append(tail)
        if expired:
            self.notes.append(
                f"{tail.place} of {flow.source.alias} has deleted {expired:,} offsets that were never copied"
            )
        if it.source.end < copied:
            self.notes.append(
                f"{tail.place} of {flow.source.alias} ends at {it.source.end:,}, before the {copied:,} copied from it:"
                f" it has lost records that {flow.target.alias} has"
            )
        if undecided:
            self.unseen.append(
                f"{tail.place} of {flow.source.alias} has {undecided:,} offsets behind an open transaction"
            )
        there = self._on_target(topic, it, comes_home=comes_home)
        written = self._count(there) if there is not None else None
        if there is not None and written and not comes_home:
            self.strays.append(there)
        return PartitionDivergence(
            it.partition,
            start,
            end,
            missing,
            there.start if there is not None else None,
            there.end if there is not None else None,
            written,
            expired,
            undecided,
        )

    def _on_target(
        self, topic: DiscoveredTopic, it: DiscoveredPartition, *, comes_home: bool
    ) -> Stretch | None:
        """Return where clients may have written to the copy; None if there is no copy, or its map cannot be read."""
        if it.target is None or topic.remote is None:
            return None
        copy = TopicPartition(topic.remote_topic, it.partition)
        life = SourceIncarnation(topic.topic, topic.topic_id, it.partition)
        try:
            return self._behind_copies(life, copy, topic.remote.topic_id, it.target, comes_home=comes_home)
        except UnreadableMap as error:
            self.unseen.append(error.message)
            return None

    def _behind_copies(
        self,
        life: SourceIncarnation,
        copy: TopicPartition,
        remote_topic_id: str,
        log: PartitionOffsets,
        *,
        comes_home: bool,
    ) -> Stretch:
        """Return where clients may have written.  Raises UnreadableMap."""
        packed = readable(self._snapshot.maps.seen(life))
        known = packed.open() if packed is not None else None
        start = log.log_start
        if comes_home and (copy in self._home or self._reverse is None or self._reverse.homes is None):
            start = max(start, self._home.get(copy, -1) + 1)
        elif known is not None and len(known.length):
            start = max(start, known.end_downstream)
        maps = () if known is None else (known,)
        return Stretch(
            Side.TARGET,
            copy.topic,
            remote_topic_id,
            copy.partition,
            min(start, log.stable_end),
            log.stable_end,
            (Spans.downstream_of(maps), self._others.others.get(copy, Spans())),
        )

    def _count(self, stretch: Stretch) -> int:
        """Count the records; what can no longer be read is named."""
        found = 0
        for item in self._read(stretch, stretch.start) if stretch.start < stretch.end else ():
            if isinstance(item, Lost):
                self.unseen.append(
                    f"{stretch.place} cannot be read from {item.start:,} to {item.end:,}: {item.reason.value}"
                )
            else:
                found += 1
        return found
