"""What follows from the state of both clusters for each topic of a flow: one rule per problem.  Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from twinlog.cluster.ledger import Ledger
from twinlog.cluster.values import TopicDescription, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.errors import TerminalError, TwinlogError
from twinlog.steps.discovery import (
    DiscoveredPartition,
    DiscoveredTopic,
    Discovery,
    Problem,
    ProblemCode,
    RemoteTopic,
    SourceState,
    TargetState,
    remote_name,
)


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
            *_deleted_copies(flow, source, target, ledger),
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


def _deleted_copies(
    flow: FlowSettings, source: SourceState, target: TargetState, ledger: Ledger
) -> Iterable[Problem]:
    """Find copies that were there and are not.

    Made anew they would hold what comes next and lack what was copied before: progress outlives the copy, and
    MM2 goes on from there without a word (mm2-behaviour 11.2, D5).
    """
    for topic in source.topics.found:
        error = target.topics.refused.get(remote_name(flow, topic))
        if topic in ledger.incarnations and error is not None and error.code == "unknown-topic":
            yield Problem(
                ProblemCode.COPY_DELETED,
                topic,
                f"{remote_name(flow, topic)}, the copy of {topic}, was deleted from {flow.target.alias}",
                f"to copy it anew, remove {topic} from {flow.offsets_topic}, {flow.offset_map_topic} and"
                f" {flow.ledger_topic}; or exclude the topic",
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
