"""The result of discovery on the two clusters of a flow, topic by topic: plain values.

A topic is either left out, with the reason, or discovered. A discovered topic may have problems. A problem whose code
is in `BLOCKING` stops that topic, and no other: its records are not copied until a person has looked.
`twinlog.topics.discovery_rules` decides which problems there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from twinlog.cluster.values import Answers, PartitionOffsets, TopicDescription
from twinlog.config.flow.copying import RecreatedPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.kafka_types import Issue, OfIncarnation, SourceIncarnation, TopicPartition


class ProblemCode(StrEnum):
    """The problems that one topic of a flow may have."""

    RECREATED = "recreated"
    OTHER_LOG = "other-log"
    DELETED = "deleted"
    SOURCE_CHANGED = "source-changed"
    COPY_DELETED = "copy-deleted"
    COPY_RECREATED = "copy-recreated"
    COPY_RENAMED = "copy-renamed"
    REBUILDING = "rebuilding"
    SCHEMAS_RENAMED = "schemas-renamed"
    REMOTE_NAME_CLASH = "remote-name-clash"
    FEWER_PARTITIONS = "fewer-partitions"
    SOURCE_REFUSED = "source-refused"
    TARGET_REFUSED = "target-refused"
    COPY_NOT_MADE = "copy-not-made"
    PARTITION_UNAVAILABLE = "partition-unavailable"
    NO_SUCH_TOPIC = "no-such-topic"
    STRANGE_REBUILD = "strange-rebuild"
    LEFT_BEHIND = "left-behind"


BLOCKING = frozenset(ProblemCode) - {
    ProblemCode.DELETED,
    ProblemCode.SCHEMAS_RENAMED,
    ProblemCode.PARTITION_UNAVAILABLE,
    ProblemCode.NO_SUCH_TOPIC,
    ProblemCode.STRANGE_REBUILD,
    ProblemCode.LEFT_BEHIND,
}


@dataclass(frozen=True, slots=True)
class Problem(Issue):
    """An issue that discovery finds."""

    code: ProblemCode

    @property
    def blocking(self) -> bool:
        """Say whether the topic is not copied because of this problem."""
        return self.code in BLOCKING

    @property
    def forbids_failover(self) -> bool:
        """Say whether the copy lacks records because of it, that no cycle copies."""
        return self.blocking or self.code is ProblemCode.LEFT_BEHIND


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A source topic that the flow does not replicate, and why."""

    topic: str
    reason: str


class OrphanKind(StrEnum):
    """Name why a copy gets no more records."""

    DELETED = "deleted"
    LEFT_OUT = "left-out"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Orphan:
    """A copy on the target that gets no more records.

    Either its source topic was deleted (first seen missing at `since_ms`; the copy is deleted at `delete_at_ms`), or
    the present configuration leaves the topic out (`reason`), or this flow does not know the topic at all.
    """

    remote_topic: str
    topic: str
    kind: OrphanKind
    reason: str = ""
    since_ms: int | None = None
    delete_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RemoteTopic:
    """The copy as it is on the target."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class DiscoveredPartition(OfIncarnation):
    """One partition: upstream offsets and, if the copy has that partition, downstream ones.

    `begins` is the upstream offset at which its copy begins, None if none is recorded.
    """

    topic: str
    topic_id: str
    partition: int
    source: PartitionOffsets
    target: PartitionOffsets | None
    begins: int | None = None

    def beginning(self, *, latest: bool) -> int:
        """Return where its copy begins: where that is recorded, else at the first record, or behind the last one."""
        if self.begins is not None:
            return self.begins
        return self.source.stable_end if latest else self.source.log_start

    def source_end(self, flow: FlowSettings) -> int:
        """Return up to where the flow copies: the stable end, or the end if it also reads uncommitted records."""
        return self.source.readable_end(read_committed=flow.copy.read_committed)


@dataclass(frozen=True, slots=True)
class DiscoveredTopic:
    """A topic of the source that the flow replicates.

    `partition_count` counts all its partitions; `partitions` holds those whose offsets could be read. `remote` is None
    while the copy does not exist. `blocked` says that it has a blocking problem. `paused` says why a person paused it,
    "" if it is not paused.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition_count: int
    partitions: tuple[DiscoveredPartition, ...]
    remote: RemoteTopic | None
    blocked: bool = False
    paused: str = ""

    def at_source(self, number: int) -> TopicPartition:
        """Return a partition of it."""
        return TopicPartition(self.topic, number)

    def at_target(self, number: int) -> TopicPartition:
        """Return a partition of its copy."""
        return TopicPartition(self.remote_topic, number)

    def life(self, number: int) -> SourceIncarnation:
        """Return a partition of the incarnation that it has now."""
        return SourceIncarnation(self.topic, self.topic_id, number)

    @property
    def ready(self) -> bool:
        """Say whether it can be copied now: it has no blocking problem, is not paused, and its copy is provisioned.

        Partitions added since the copy was provisioned wait for the next cycle; the others are copied.
        """
        return not self.blocked and not self.paused and self.remote is not None

    @property
    def copy_id(self) -> str:
        """The topic id of its copy; "" while there is none."""
        return self.remote.topic_id if self.remote is not None else ""

    @property
    def log_starts(self) -> dict[int, int]:
        """Where the log of each partition begins on the source."""
        return {partition.partition: partition.source.log_start for partition in self.partitions}

    @property
    def unread(self) -> tuple[int, ...]:
        """Partitions whose offsets the source did not tell: their records to copy are unknown."""
        read = {partition.partition for partition in self.partitions}
        return tuple(number for number in range(self.partition_count) if number not in read)

    @property
    def in_transaction(self) -> tuple[int, ...]:
        """Partitions whose copy has an open transaction: a lane is writing, or the target lost the commit marker."""
        found = ((partition.partition, partition.target) for partition in self.partitions)
        return tuple(number for number, copy in found if copy is not None and copy.stable_end < copy.end)

    @property
    def provisioned(self) -> tuple[DiscoveredPartition, ...]:
        """The partitions that are provisioned on the target; partitions added since wait for the next cycle."""
        count = self.remote.partitions if self.remote is not None else 0
        return tuple(partition for partition in self.partitions if partition.partition < count)


@dataclass(frozen=True, slots=True)
class Discovery:
    """The topics to replicate in a flow; `topics` and `left_out` are sorted by name.

    `phase` is the flow's phase: only an active flow copies. `stands_by` says who suspended the flow and why, "" if it
    is active.
    """

    flow: str
    source_cluster_id: str
    target_cluster_id: str
    target_brokers: int
    topics: tuple[DiscoveredTopic, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]
    orphans: tuple[Orphan, ...] = ()
    phase: FlowPhase = FlowPhase.ACTIVE
    stands_by: str = ""

    def named(self, topic: str) -> DiscoveredTopic | None:
        """Return the topic of that name; None if the flow does not replicate it."""
        return next((it for it in self.topics if it.topic == topic), None)

    @property
    def unblocked(self) -> tuple[DiscoveredTopic, ...]:
        """The topics without a blocking problem."""
        return tuple(topic for topic in self.topics if not topic.blocked)

    @property
    def unblocked_partitions(self) -> Iterator[DiscoveredPartition]:
        """The partitions of these topics."""
        return (partition for topic in self.unblocked for partition in topic.partitions)

    @property
    def ready_topics(self) -> tuple[DiscoveredTopic, ...]:
        """The topics that can be copied now: none if the flow is not active."""
        return tuple(topic for topic in self.topics if topic.ready and not self.stands_by)

    @property
    def paused_topics(self) -> tuple[DiscoveredTopic, ...]:
        """The topics that were paused one by one."""
        return tuple(topic for topic in self.topics if topic.paused)


@dataclass(frozen=True, slots=True)
class SourceState:
    """The source as it was read: all names it shows, and the topics the flow selects.

    `gone` are topics the flow copied once that do not exist any more. They were asked for by name, so that a missing
    DESCRIBE permission is not taken for a deletion.
    """

    cluster_id: str
    names: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    topics: Answers[str, TopicDescription]
    offsets: Answers[TopicPartition, PartitionOffsets]
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TargetState:
    """The target as it was read: all names it shows, and the copies by remote name."""

    cluster_id: str
    brokers: int
    topics: Answers[str, TopicDescription]
    offsets: Answers[TopicPartition, PartitionOffsets]
    names: tuple[str, ...] = ()


def waiting_for_a_person(flow: FlowSettings, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return the problems that stop a topic until a person acts.  Pure.

    The next cycle continues a rebuild by itself, and decides about a recreated topic if a policy says how.
    """
    by_itself = {ProblemCode.REBUILDING}
    if flow.lifecycle.on_recreated is not RecreatedPolicy.FAIL:
        by_itself.add(ProblemCode.RECREATED)
    return tuple(problem for problem in problems if problem.blocking and problem.code not in by_itself)


def without(discovery: Discovery, refused: Mapping[TopicPartition, TwinlogError]) -> Discovery:
    """Leave out partitions whose records cannot be read: they are `unread`, and a problem says why.  Pure."""
    if not refused:
        return discovery
    by_topic = {it.topic: error for it, error in refused.items()}
    problems = [
        Problem(ProblemCode.PARTITION_UNAVAILABLE, topic, error.message, error.hint)
        for topic, error in by_topic.items()
    ]
    return replace(
        discovery,
        topics=tuple(
            replace(
                topic,
                partitions=tuple(p for p in topic.partitions if p.topic_partition not in refused),
            )
            for topic in discovery.topics
        ),
        problems=tuple(sorted((*discovery.problems, *problems), key=lambda it: (it.topic, it.code))),
    )


def refuse_unknown_topics(
    discovery: Discovery,
    topics: Iterable[str] | None,
    hint: str = "--topic takes names of source topics",
) -> None:
    """Raise UsageError for a named topic that the flow does not replicate, with the reason."""
    known = {topic.topic for topic in discovery.topics}
    reasons = {topic.topic: topic.reason for topic in discovery.left_out}
    for name in sorted(frozenset(topics or ()) - known):
        reason = reasons.get(name, "the source has no such topic, or does not show it")
        raise UsageError(
            f"flow {discovery.flow} does not replicate topic {name}: {reason}",
            hint=hint,
            flow=discovery.flow,
            topic=name,
        )
