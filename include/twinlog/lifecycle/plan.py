"""Plan what to record, or to decide by policy, before a cycle copies: recreated topics, gaps, deletions. Pure.

No offset is guessed here. A range lost by the source is bounded by the source's own log start, or by its own leader
epochs. If neither gives a bound, the partition stops whatever the policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twinlog.config.flow.copying import GapPolicy, RecreatedPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import DeletedTopic, Gap, LeaderEpoch, RebuildPhase
from twinlog.grouped import grouped
from twinlog.kafka_types import OfIncarnation, Positions, TopicPartition
from twinlog.protocol.leader_epochs import EpochEnd, diverged_at
from twinlog.state.ledger import Ledger, of_partition
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, ProblemCode


@dataclass(frozen=True, slots=True)
class Lost(OfIncarnation):
    """Upstream offsets first_offset..last_offset that cannot be copied from the copy's position on.

    `truncated` says that they were copied, and that the source has lost them since. `past` says that, by policy, the
    copy goes on after them. `epoch` is the leader epoch that a truncated log has right before them, -1 if unknown.
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
    def remote(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)


@dataclass(frozen=True, slots=True)
class LifecyclePlan:
    """The work of a cycle before it copies.

    `adopted` are topics whose new incarnation is copied after the old one. `rebuilt` are topics whose rebuild is to be
    begun or continued. `lost` are gaps to record. `gone` are source topics first seen to be deleted. `back` are
    deleted topics that exist again. `due` are deleted topics whose copy is to be deleted now.  `unproven` are copied
    partitions of which the source does not tell whether it still holds what was copied.
    """

    adopted: tuple[DiscoveredTopic, ...] = ()
    rebuilt: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    gone: tuple[DeletedTopic, ...] = ()
    back: tuple[DeletedTopic, ...] = ()
    due: tuple[DeletedTopic, ...] = ()
    unproven: tuple[TopicPartition, ...] = ()

    @property
    def empty(self) -> bool:
        """Say whether there is nothing to do."""
        return not any((self.adopted, self.rebuilt, self.lost, self.gone, self.back, self.due))

    @property
    def fenced(self) -> bool:
        """Say whether a part of the plan must be written behind the fence."""
        return bool(self.adopted or any(lost.past for lost in self.lost))


def plan_lifecycle(
    flow: FlowSettings,
    discovery: Discovery,
    ledger: Ledger,
    progress: Positions,
    ends: Mapping[TopicPartition, EpochEnd],
    now_ms: int,
) -> LifecyclePlan:
    """Plan what to record and to change.

    `ends` are the present ends of the leader epochs of the records copied last.
    """
    if discovery.stands_by:
        return LifecyclePlan()
    problems = grouped((problem.topic, problem.code) for problem in discovery.problems if problem.blocking)
    recreated = [
        topic
        for topic in discovery.topics
        if set(problems.get(topic.topic, ())) == {ProblemCode.RECREATED} and not topic.paused
    ]
    on_recreated = flow.lifecycle.on_recreated
    anew = [topic.topic for topic in recreated if on_recreated is RecreatedPolicy.NEW_INCARNATION]
    # If the topic of a rebuild that is being copied was recreated since, the rebuild is not begun anew: the policy
    # decides.
    begun = [
        rebuild.topic
        for rebuild in ledger.rebuilds.values()
        if rebuild.phase is RebuildPhase.DELETING
        or (rebuild.phase is RebuildPhase.COPYING and rebuild.topic not in problems)
    ]
    epochs = {epoch.topic_partition: epoch for epoch in epochs_of(discovery, ledger)}
    lost = [
        found
        for topic in discovery.unblocked
        for partition in topic.partitions
        if (found := find_lost(flow, topic, partition, progress, epochs, ends)) is not None
    ]
    # A gap that has grown is recorded again, under its first offset.
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
    """Return the leader epochs of the records copied last, for the incarnations that are copied now."""
    ids = {topic.topic: topic.topic_id for topic in discovery.unblocked}
    return (epoch for epoch in ledger.leader_epochs if ids.get(epoch.topic) == epoch.topic_id)


def find_lost(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    partition: DiscoveredPartition,
    progress: Positions,
    epochs: Mapping[TopicPartition, LeaderEpoch],
    ends: Mapping[TopicPartition, EpochEnd],
) -> Lost | None:
    """Return the range between the copy's position in a partition and where the source's log can go on, or None."""
    it = partition.topic_partition
    last = progress.get(it)
    start = partition.begins if last is None else last + 1
    if start is None:
        return None
    goes_on = flow.lifecycle.on_gap is GapPolicy.RECORD_AND_CONTINUE and not topic.paused
    names = (topic.topic, topic.topic_id, topic.remote_topic, partition.partition)
    if start < partition.source.log_start:
        return Lost(*names, start, partition.source.log_start - 1, past=goes_on)
    diverged = None
    if last is not None and it in epochs and it in ends:
        diverged = diverged_at(epochs[it].epoch, ends[it], start)
    if diverged is not None and diverged >= 0:
        return Lost(*names, diverged, last or 0, truncated=True, past=goes_on, epoch=ends[it].epoch)
    if start > partition.source.end or diverged is not None:
        # It is not known where the two logs part: the source's present end may have grown past that place.
        return Lost(*names, min(start - 1, partition.source.end), start - 1, truncated=True)
    return None


def told(lost: Lost) -> str:
    """Return a line that says what is lost, and where."""
    where = f"{lost.topic}-{lost.partition}: upstream offsets {lost.first_offset} to {lost.last_offset}"
    if not lost.truncated:
        return f"{where} were deleted before they could be copied"
    unsure = "" if lost.epoch >= 0 else ", at least; where its log and the copy part is not known"
    return f"{where} were copied, and the source has lost them since{unsure}"


def _place(it: Lost | Gap) -> tuple[str, str, int, int, int]:
    return it.topic, it.topic_id, it.partition, it.first_offset, it.last_offset


def gap_of(ledger: Ledger, lost: Lost) -> Gap | None:
    """Return the ledger's record of the gap, of any length."""
    wanted = lost.topic_id, lost.first_offset
    there = of_partition(ledger.gaps, lost.topic, lost.partition)
    return next((gap for gap in there if (gap.topic_id, gap.first_offset) == wanted), None)


def _deletions(
    flow: FlowSettings, discovery: Discovery, ledger: Ledger, now_ms: int
) -> tuple[tuple[DeletedTopic, ...], tuple[DeletedTopic, ...], tuple[DeletedTopic, ...]]:
    """Return topics first seen to be gone, topics that exist again, and topics whose copies are due to be deleted."""
    gone = {problem.topic: problem for problem in discovery.problems if problem.code is ProblemCode.DELETED}
    known = ledger.incarnations
    new = tuple(
        DeletedTopic(name, known[name].topic_id, known[name].remote_topic, now_ms)
        for name in gone
        if name not in ledger.deleted
    )
    back = tuple(topic for topic in ledger.deleted.values() if topic.topic not in gone)
    after = flow.lifecycle.delete_after_ms
    due = tuple(
        topic
        for topic in ledger.deleted.values()
        if after is not None
        and topic.topic in gone
        and topic.topic not in ledger.pauses
        and topic.remote_topic == flow.remote_name(topic.topic)
        and now_ms - topic.first_seen_ms >= after
        # an empty new cluster has deleted nothing
        and known[topic.topic].source_cluster_id == discovery.source_cluster_id
    )
    return new, back, due
