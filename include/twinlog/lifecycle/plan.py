"""What has to be noted, or decided by policy, before a cycle may copy: recreated topics, gaps, deletions.  Pure.

Nothing here guesses an offset: what the source lost is bounded by its own log start, or by its own leader epochs;
where neither tells, the partition stops whatever the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.values import TopicPartition
from twinlog.config.flow.settings import FlowSettings, GapPolicy, RecreatedPolicy
from twinlog.formats.ledger.topics import DeletedTopic, Gap, LeaderEpoch, RebuildPhase
from twinlog.protocol.leader_epochs import EpochEnd, diverged_at
from twinlog.state.ledger import Ledger, of_partition
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, ProblemCode


@dataclass(frozen=True, slots=True)
class Lost:
    """Upstream offsets first_offset..last_offset that cannot be copied from where the copy stands.

    `truncated` says that they were copied, and that the source lost them since.  `past` says that the copy goes on
    behind them, by policy; `epoch` is the leader epoch that a truncated log has right before them, -1 unknown.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition: int
    first_offset: int
    last_offset: int
    truncated: bool = False
    past: bool = False
    epoch: int = -1

    @property
    def source(self) -> TopicPartition:
        """The partition on the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def remote(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)


@dataclass(frozen=True, slots=True)
class LifecyclePlan:
    """What a cycle does before it copies.

    `adopted` are topics whose new life goes on behind the old one, `rebuilt` topics whose copy is made anew (to be
    begun, or to be gone on with), `lost` what has to be noted of gaps, `gone` source topics first seen to be deleted,
    `back` those that are there again, `due` those whose copy is deleted now.
    """

    adopted: tuple[DiscoveredTopic, ...] = ()
    rebuilt: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    gone: tuple[DeletedTopic, ...] = ()
    back: tuple[DeletedTopic, ...] = ()
    due: tuple[DeletedTopic, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not any((self.adopted, self.rebuilt, self.lost, self.gone, self.back, self.due))

    @property
    def fenced(self) -> bool:
        """Whether something of it must be written behind the fence."""
        return bool(self.adopted or any(it.past for it in self.lost))


def plan_lifecycle(
    flow: FlowSettings,
    discovery: Discovery,
    ledger: Ledger,
    progress: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, EpochEnd],
    now_ms: int,
) -> LifecyclePlan:
    """Say what to note and to change.  `ends` are where the leader epochs of what was copied last end now."""
    if discovery.stands_by:
        return LifecyclePlan()
    problems: dict[str, set[ProblemCode]] = {}
    for problem in discovery.problems:
        if problem.blocking:
            problems.setdefault(problem.topic, set()).add(problem.code)
    recreated = [
        it for it in discovery.topics if problems.get(it.topic) == {ProblemCode.RECREATED} and not it.paused
    ]
    on_recreated = flow.lives.on_recreated
    anew = [it.topic for it in recreated if on_recreated is RecreatedPolicy.NEW_INCARNATION]
    # One that is being copied would be begun anew for a topic that was recreated since: that is for the policy to say.
    begun = [
        it.topic
        for it in ledger.rebuilds.values()
        if it.phase is RebuildPhase.DELETING
        or (it.phase is RebuildPhase.COPYING and it.topic not in problems)
    ]
    epochs = {TopicPartition(it.topic, it.partition): it for it in epochs_of(discovery, ledger)}
    lost = [
        found
        for topic in discovery.topics
        if not topic.blocked
        for partition in topic.partitions
        if (found := find_lost(flow, topic, partition, progress, epochs, ends)) is not None
    ]
    # A gap that has grown is noted again, under its first offset.
    noted = {_place(gap) for gap in ledger.gaps}
    gone, back, due = _deletions(flow, discovery, ledger, now_ms)
    return LifecyclePlan(
        adopted=tuple(recreated) if on_recreated is RecreatedPolicy.APPEND else (),
        rebuilt=tuple(sorted({*anew, *begun})),
        lost=tuple(it for it in lost if it.past or _place(it) not in noted),
        gone=gone,
        back=back,
        due=due,
    )


def epochs_of(discovery: Discovery, ledger: Ledger) -> Iterator[LeaderEpoch]:
    """The leader epochs of what was copied last, of the lives that are copied now."""
    ids = {topic.topic: topic.topic_id for topic in discovery.topics if not topic.blocked}
    return (it for it in ledger.leader_epochs if ids.get(it.topic) == it.topic_id)


def find_lost(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    progress: Mapping[TopicPartition, int],
    epochs: Mapping[TopicPartition, LeaderEpoch],
    ends: Mapping[TopicPartition, EpochEnd],
) -> Lost | None:
    """Say what lies between where the copy of a partition stands and where the source's log can go on."""
    it = TopicPartition(topic.topic, partition.partition)
    last = progress.get(it)
    start = partition.begins if last is None else last + 1
    if start is None:
        return None
    goes_on = flow.lives.on_gap is GapPolicy.RECORD_AND_CONTINUE and not topic.paused
    names = (topic.topic, topic.topic_id, topic.remote_topic, partition.partition)
    if start < partition.source.log_start:
        return Lost(*names, start, partition.source.log_start - 1, past=goes_on)
    diverged = None
    if last is not None and it in epochs and it in ends:
        diverged = diverged_at(epochs[it].epoch, ends[it], start)
    if diverged is not None and diverged >= 0:
        return Lost(*names, diverged, last or 0, truncated=True, past=goes_on, epoch=ends[it].epoch)
    if start > partition.source.end or diverged is not None:
        # Where the two logs part is not known: the end the source has now may have grown over it.
        return Lost(*names, min(start - 1, partition.source.end), start - 1, truncated=True)
    return None


def told(lost: Lost) -> str:
    """Say in one line what is lost, and where."""
    where = f"{lost.topic}-{lost.partition}: upstream offsets {lost.first_offset} to {lost.last_offset}"
    if not lost.truncated:
        return f"{where} were deleted before they could be copied"
    unsure = "" if lost.epoch >= 0 else ", at least; where its log and the copy part is not known"
    return f"{where} were copied, and the source has lost them since{unsure}"


def _place(it: Lost | Gap) -> tuple[str, str, int, int, int]:
    return it.topic, it.topic_id, it.partition, it.first_offset, it.last_offset


def gap_of(ledger: Ledger, lost: Lost) -> Gap | None:
    """The gap as the ledger has it, of whatever length."""
    wanted = lost.topic_id, lost.first_offset
    there = of_partition(ledger.gaps, lost.topic, lost.partition)
    return next((gap for gap in there if (gap.topic_id, gap.first_offset) == wanted), None)


def _deletions(
    flow: FlowSettings, discovery: Discovery, ledger: Ledger, now_ms: int
) -> tuple[tuple[DeletedTopic, ...], tuple[DeletedTopic, ...], tuple[DeletedTopic, ...]]:
    """Topics first seen to be gone, topics that are there again, and topics whose copies are due to be deleted."""
    gone = {it.topic: it for it in discovery.problems if it.code is ProblemCode.DELETED}
    lives = ledger.incarnations
    new = tuple(
        DeletedTopic(name, lives[name].topic_id, lives[name].remote_topic, now_ms)
        for name in gone
        if name not in ledger.deleted
    )
    back = tuple(it for it in ledger.deleted.values() if it.topic not in gone)
    after = flow.lives.delete_after_ms
    due = tuple(
        it
        for it in ledger.deleted.values()
        if after is not None
        and it.topic in gone
        and it.topic not in ledger.pauses
        and now_ms - it.first_seen_ms >= after
        and _same_cluster(discovery, ledger, it.topic)
    )
    return new, back, due


def _same_cluster(discovery: Discovery, ledger: Ledger, topic: str) -> bool:
    """Whether the source is the cluster the topic was seen on: an empty new one has not deleted anything."""
    return ledger.incarnations[topic].source_cluster_id == discovery.source_cluster_id


def lost_tails(ledger: Ledger, topic: str) -> Iterable[tuple[int, int, int]]:
    """What of a life that ended was known to be there and not copied: (partition, first, last offset).

    As the last cycle report saw it: what was written after that nobody has counted.
    """
    summary = ledger.last_report.summary if ledger.last_report is not None else {}
    next_upstream = summary.get("next_upstream", {}).get(topic, {})
    lag = summary.get("lag", {}).get(topic, {})
    for partition, records in sorted(lag.items(), key=lambda it: int(it[0])):
        first = next_upstream.get(partition, 0)
        yield int(partition), first, first + records - 1
