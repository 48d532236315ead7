"""What was found on the two clusters of a flow, topic by topic: plain values.

A topic is either left out, with the reason, or discovered.  A discovered topic may carry problems; one whose code
is in `BLOCKING` stops that topic, and only that one: nothing of it is copied until a person has looked.
`twinlog.steps.discovery_rules` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from twinlog.cluster.values import Answers, PartitionOffsets, TopicDescription, TopicPartition
from twinlog.config.settings import FlowSettings


class ProblemCode(StrEnum):
    """What can be wrong with one topic of a flow."""

    RECREATED = "recreated"
    DELETED = "deleted"
    COPY_DELETED = "copy-deleted"
    REMOTE_NAME_CLASH = "remote-name-clash"
    FEWER_PARTITIONS = "fewer-partitions"
    SOURCE_REFUSED = "source-refused"
    TARGET_REFUSED = "target-refused"
    PARTITION_UNAVAILABLE = "partition-unavailable"
    NO_SUCH_TOPIC = "no-such-topic"


BLOCKING = frozenset({
    ProblemCode.RECREATED,
    ProblemCode.COPY_DELETED,
    ProblemCode.REMOTE_NAME_CLASH,
    ProblemCode.FEWER_PARTITIONS,
    ProblemCode.SOURCE_REFUSED,
    ProblemCode.TARGET_REFUSED,
})


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one topic: what it is, and what to do."""

    code: ProblemCode
    topic: str
    message: str
    hint: str = ""

    @property
    def blocking(self) -> bool:
        """Whether the topic is not copied because of it."""
        return self.code in BLOCKING


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A source topic that the flow does not replicate, and why."""

    topic: str
    reason: str


@dataclass(frozen=True, slots=True)
class RemoteTopic:
    """The copy as it stands on the target, and whether this user may add partitions to it."""

    topic_id: str
    partitions: int
    alterable: bool


@dataclass(frozen=True, slots=True)
class DiscoveredPartition:
    """One partition, upstream offsets and, where the copy has that partition, downstream ones."""

    partition: int
    source: PartitionOffsets
    target: PartitionOffsets | None


@dataclass(frozen=True, slots=True)
class DiscoveredTopic:
    """A topic of the source that the flow replicates.

    `partition_count` counts all its partitions; `partitions` holds those whose offsets could be read.
    `remote` is None while the copy does not exist.  `blocked` says a blocking problem stands against it.
    """

    topic: str
    topic_id: str
    remote_topic: str
    partition_count: int
    partitions: tuple[DiscoveredPartition, ...]
    remote: RemoteTopic | None
    blocked: bool = False

    @property
    def ready(self) -> bool:
        """Whether it can be copied now: nothing stands against it and every partition has its place."""
        return not self.blocked and self.remote is not None and self.remote.partitions >= self.partition_count


@dataclass(frozen=True, slots=True)
class Discovery:
    """What there is to replicate in a flow; `topics` and `left_out` are sorted by name."""

    flow: str
    source_cluster_id: str
    target_cluster_id: str
    target_brokers: int
    topics: tuple[DiscoveredTopic, ...]
    left_out: tuple[LeftOut, ...]
    problems: tuple[Problem, ...]

    @property
    def ready_topics(self) -> tuple[DiscoveredTopic, ...]:
        """The topics that can be copied now."""
        return tuple(topic for topic in self.topics if topic.ready)


@dataclass(frozen=True, slots=True)
class SourceState:
    """What was read from the source: all names it shows, and the topics the flow selects."""

    cluster_id: str
    names: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    topics: Answers[str, TopicDescription]
    offsets: Answers[TopicPartition, PartitionOffsets]


@dataclass(frozen=True, slots=True)
class TargetState:
    """What was read from the target, by remote name."""

    cluster_id: str
    brokers: int
    topics: Answers[str, TopicDescription]
    offsets: Answers[TopicPartition, PartitionOffsets]


def remote_name(flow: FlowSettings, topic: str) -> str:
    """Name of the copy of `topic` on the target."""
    return flow.policy.format_remote_topic(flow.source.alias, topic)
