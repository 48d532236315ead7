"""What the two clusters of a flow hold, and what follows from it for each topic.  Pure.

`decide` turns what was read (`SourceState`, `TargetState`, the ledger) into a `Discovery`.  A topic is either
left out, with the reason, or discovered.  A discovered topic may carry problems; one whose code is in
`BLOCKING` stops that topic, and only that one: nothing of it is copied until a person has looked.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from twinlog.cluster.ledger import Ledger
from twinlog.cluster.values import Answers, PartitionOffsets, TopicDescription, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError


class ProblemCode(StrEnum):
    """What can be wrong with one topic of a flow."""

    RECREATED = "recreated"
    DELETED = "deleted"
    REMOTE_NAME_CLASH = "remote-name-clash"
    FEWER_PARTITIONS = "fewer-partitions"
    SOURCE_REFUSED = "source-refused"
    TARGET_REFUSED = "target-refused"
    PARTITION_UNAVAILABLE = "partition-unavailable"
    NO_SUCH_TOPIC = "no-such-topic"


BLOCKING = frozenset({
    ProblemCode.RECREATED,
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


def decide(flow: FlowSettings, source: SourceState, target: TargetState, ledger: Ledger) -> Discovery:
    """Say for every topic whether it can be copied, and what stands against it.

    Raises TerminalError when both aliases are one cluster: its topics would be copied onto themselves.
    """
    if source.cluster_id and source.cluster_id == target.cluster_id:
        raise _same_cluster(flow, source.cluster_id)
    problems = sorted(
        (
            *_refused(flow, source, target),
            *_incarnations(flow, source, ledger),
            *_name_clashes(flow, source),
            *_fewer_partitions(flow, source, target),
            *_unavailable(source),
            *_missing_names(flow, source),
        ),
        key=lambda problem: (problem.topic, problem.code),
    )
    blocked = {problem.topic for problem in problems if problem.blocking}
    return Discovery(
        flow=flow.name,
        source_cluster_id=source.cluster_id,
        target_cluster_id=target.cluster_id,
        target_brokers=target.brokers,
        topics=tuple(
            _topic(flow, source.topics.found[name], source, target, blocked=name in blocked)
            for name in sorted(source.topics.found)
        ),
        left_out=tuple(sorted(source.left_out, key=lambda it: it.topic)),
        problems=tuple(problems),
    )


def remote_name(flow: FlowSettings, topic: str) -> str:
    """Name of the copy of `topic` on the target."""
    return flow.policy.format_remote_topic(flow.source.alias, topic)


def _topic(
    flow: FlowSettings,
    described: TopicDescription,
    source: SourceState,
    target: TargetState,
    *,
    blocked: bool,
) -> DiscoveredTopic:
    remote = remote_name(flow, described.name)
    return DiscoveredTopic(
        topic=described.name,
        topic_id=described.topic_id,
        remote_topic=remote,
        partition_count=len(described.partitions),
        partitions=tuple(
            DiscoveredPartition(
                it.partition, offsets, target.offsets.found.get(TopicPartition(remote, it.partition))
            )
            for it in described.partitions
            if (offsets := source.offsets.found.get(TopicPartition(described.name, it.partition))) is not None
        ),
        remote=_remote(target.topics.found.get(remote)),
        blocked=blocked,
    )


def _remote(described: TopicDescription | None) -> RemoteTopic | None:
    if described is None:
        return None
    return RemoteTopic(described.topic_id, len(described.partitions), "ALTER" in described.operations)


def _refused(flow: FlowSettings, source: SourceState, target: TargetState) -> Iterable[Problem]:
    for topic, error in source.topics.refused.items():
        yield _from_error(ProblemCode.SOURCE_REFUSED, topic, error)
    for topic in source.topics.found:
        refused = target.topics.refused.get(remote_name(flow, topic))
        if refused is not None and refused.code != "unknown-topic":
            yield _from_error(ProblemCode.TARGET_REFUSED, topic, refused)


def _incarnations(flow: FlowSettings, source: SourceState, ledger: Ledger) -> Iterable[Problem]:
    """Compare topic ids with those the ledger knows (mm2-behaviour 6.8: MM2 does not notice)."""
    for topic, known in ledger.incarnations.items():
        described = source.topics.found.get(topic)
        if described is not None and described.topic_id != known.topic_id:
            yield Problem(
                ProblemCode.RECREATED,
                topic,
                f"topic {topic} was deleted and created again on {flow.source.alias}:"
                f" its id was {known.topic_id} and is {described.topic_id}",
                f"its copy {remote_name(flow, topic)} holds the earlier records and stays as it is;"
                " exclude the topic, or give the new one another name",
            )
        if topic not in source.names:
            yield Problem(
                ProblemCode.DELETED,
                topic,
                f"topic {topic} is gone from {flow.source.alias}",
                f"its copy {remote_name(flow, topic)} on {flow.target.alias} stays:"
                " delete it there when nobody needs it",
            )


def _name_clashes(flow: FlowSettings, source: SourceState) -> Iterable[Problem]:
    by_remote: defaultdict[str, list[str]] = defaultdict(list)
    for topic in sorted(source.topics.found):
        by_remote[remote_name(flow, topic)].append(topic)
    for remote, topics in by_remote.items():
        for topic in topics if len(topics) > 1 else ():
            yield Problem(
                ProblemCode.REMOTE_NAME_CLASH,
                topic,
                f"topics {', '.join(topics)} of {flow.source.alias} would all be copied into {remote}",
                "exclude all but one of them, or choose a replication policy that keeps them apart",
            )


def _fewer_partitions(flow: FlowSettings, source: SourceState, target: TargetState) -> Iterable[Problem]:
    for topic, described in source.topics.found.items():
        remote = target.topics.found.get(remote_name(flow, topic))
        if (
            remote is None
            or len(remote.partitions) >= len(described.partitions)
            or "ALTER" in remote.operations
        ):
            continue
        yield Problem(
            ProblemCode.FEWER_PARTITIONS,
            topic,
            f"{remote.name} on {flow.target.alias} has {len(remote.partitions)} partitions, {topic} on"
            f" {flow.source.alias} has {len(described.partitions)}, and this user may not add any",
            f"grant ALTER on topic {remote.name}, or add the partitions by hand",
        )


def _unavailable(source: SourceState) -> Iterable[Problem]:
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for it in source.offsets.refused:
        by_topic[it.topic].append(it.partition)
    for topic, partitions in by_topic.items():
        first = min(partitions)
        error = source.offsets.refused[TopicPartition(topic, first)]
        yield Problem(
            ProblemCode.PARTITION_UNAVAILABLE,
            topic,
            f"offsets of {len(partitions)} partition(s) of {topic} cannot be read; of {first}: {error.message}",
            "its other partitions are copied; the next cycle tries again",
        )


def _missing_names(flow: FlowSettings, source: SourceState) -> Iterable[Problem]:
    """Plain names in `topics` that the source does not have: a typo, or a missing DESCRIBE."""
    for name in flow.topics.include:
        if re.fullmatch(r"[\w.-]*\w", name) and not any(re.fullmatch(name, known) for known in source.names):
            yield Problem(
                ProblemCode.NO_SUCH_TOPIC,
                name,
                f"{flow.source.alias} has no topic {name}, which {flow.name}.topics names",
                "check its spelling, and that this user may DESCRIBE it",
            )


def _from_error(code: ProblemCode, topic: str, error: TwinlogError) -> Problem:
    return Problem(code, topic, error.message, error.hint)


def _same_cluster(flow: FlowSettings, cluster_id: str) -> TerminalError:
    return TerminalError(
        f"{flow.source.alias} and {flow.target.alias} are the same cluster (id {cluster_id})",
        hint=f"check {flow.source.alias}.bootstrap.servers and {flow.target.alias}.bootstrap.servers",
        code="same-cluster",
        flow=flow.name,
        cluster_id=cluster_id,
    )
