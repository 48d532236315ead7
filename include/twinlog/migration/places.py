"""Choose which partitions are to be proved, and which are refused before any comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import ConfigValue, value_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.migration.proof import Place
from twinlog.migration.takeover_report import PartitionProof, refusal_of
from twinlog.state.ledger import read_ledger
from twinlog.topics.discovery import (
    DiscoveredPartition,
    DiscoveredTopic,
    Discovery,
    Problem,
    ProblemCode,
    remote_name,
)
from twinlog.topics.discovery_rules import decide
from twinlog.topics.snapshot import read_source, read_target

Configs = Mapping[str, ConfigValue]

TRY_AGAIN = "wait until it has a leader that answers, and try again"
NOT_THERE = (
    "compare replication.policy.class and replication.policy.separator with MirrorMaker's: they name the copies; if"
    " they are right, it was deleted: exclude the topic, or copy it anew"
)


def discover_all(
    flow: FlowSettings, clusters: Clusters, positions: Iterable[TopicPartition] = ()
) -> Discovery:
    """Discover as a cycle does, also for a paused flow: a migration to MM2 is what paused it.

    Topics of `positions` that the source does not list are asked for by name: a missing DESCRIBE is no deletion.
    """
    copied = {it.topic for it in positions if flow.why_left_out(it.topic) is None}
    source = read_source(flow, clusters.source, copied)
    target = read_target(flow, clusters.target, source.topics.found)
    ledger = replace(read_ledger(flow, clusters.target), flow_state=None)
    return decide(flow, source, target, ledger)


def places(
    flow: FlowSettings,
    clusters: Clusters,
    discovery: Discovery,
    positions: Mapping[TopicPartition, int],
    topics: Collection[str] | None = None,
    *,
    began_at_start: bool,
) -> tuple[list[Place], list[PartitionProof]]:
    """Sort the flow's partitions into those to prove and those refused at once.

    Partitions without a copy and without a position are in neither list. A partition that could not be read is
    refused: its copy may go further than is known. Raises UsageError for a name in `topics` that the flow does not
    replicate.
    """
    hidden = [it for it in discovery.problems if it.code is ProblemCode.SOURCE_REFUSED]
    known = {it.topic for it in discovery.topics} | {it.topic for it in hidden}
    for name in sorted(set(topics or ()) - known):
        raise UsageError(
            f"flow {flow.name} does not replicate topic {name}", hint="--topic takes source topics"
        )
    chosen = [it for it in discovery.topics if topics is None or it.topic in topics]
    source = clusters.source.topic_configs(it.topic for it in chosen).found
    target = clusters.target.topic_configs(it.remote_topic for it in chosen if it.remote is not None).found
    by_topic = grouped((at.topic, (at.partition, last)) for at, last in positions.items())
    said = {topic: dict(pairs) for topic, pairs in by_topic.items()}
    blocking = {it.topic: it for it in reversed(discovery.problems) if it.blocking}
    found = [
        it
        for topic in chosen
        for it in _sorted(
            flow,
            topic,
            blocking.get(topic.topic),
            said.get(topic.topic, {}),
            source.get(topic.topic, {}),
            target.get(topic.remote_topic, {}),
        )
    ]
    wanted = [replace(it, began_at_start=began_at_start) for it in found if isinstance(it, Place)]
    refused = [it for it in found if isinstance(it, PartitionProof)]
    for problem in hidden:
        if topics is None or problem.topic in topics:
            refused += _hidden(flow, problem, said.get(problem.topic, {}))
    return wanted, refused


def _hidden(flow: FlowSettings, problem: Problem, said: Mapping[int, int]) -> Iterator[PartitionProof]:
    """Refuse the known partitions of a topic the source does not describe; partition 0 if none is known."""
    for number in sorted(said) or [0]:
        remote = remote_name(flow, problem.topic)
        yield refusal_of(
            problem.topic, remote, number, said.get(number), problem.message, problem.hint or TRY_AGAIN
        )


def _sorted(
    flow: FlowSettings,
    topic: DiscoveredTopic,
    problem: Problem | None,
    said_of: Mapping[int, int],
    source: Configs,
    target: Configs,
) -> Iterator[Place | PartitionProof]:
    compacted = any("compact" in (value_of(configs, "cleanup.policy") or "") for configs in (source, target))
    for it in topic.partitions:
        said = said_of.get(it.partition)
        reason = (problem.message, problem.hint) if problem else _against(topic, it, said)
        reason = reason or _transformed(flow, topic, it, said)
        if reason is not None:
            yield refusal_of(topic.topic, topic.remote_topic, it.partition, said, *reason)
        elif it.target is not None:
            yield Place(
                source=topic.at_source(it.partition),
                target=topic.at_target(it.partition),
                topic_id=topic.topic_id,
                source_offsets=it.source,
                target_offsets=it.target,
                said=said,
                compacted=compacted,
                timestamps=value_of(target, "message.timestamp.type") != "LogAppendTime",
            )
    seen = {it.partition for it in topic.partitions}
    for number in sorted({*range(topic.partition_count), *said_of} - seen):
        reason = (problem.message, problem.hint) if problem else _unseen(topic, number)
        yield refusal_of(topic.topic, topic.remote_topic, number, said_of.get(number), *reason)


def _transformed(
    flow: FlowSettings, topic: DiscoveredTopic, it: DiscoveredPartition, said: int | None
) -> tuple[str, str] | None:
    """Return that a copy went through transforms: the proof compares the records of both sides as they are."""
    copied = said is not None or (it.target is not None and it.target.end > 0)
    if not copied or not flow.chain_of(topic.topic, topic.remote_topic):
        return None
    return (
        f"{topic.remote_topic}-{it.partition} is copied through transforms: it cannot be proved record by record where"
        " it ends",
        "copy the topic anew under another name, or exclude it",
    )


def _unseen(topic: DiscoveredTopic, number: int) -> tuple[str, str]:
    """Return why a partition has no offsets on the source: message and hint."""
    if number < topic.partition_count:
        return f"the offsets of {topic.topic}-{number} cannot be read on the source", TRY_AGAIN
    return (
        f"{topic.topic}-{number} has a position, and the topic only {topic.partition_count} partition(s): it was"
        " recreated since it was copied",
        "exclude the topic, or give the new one another name",
    )


def _against(topic: DiscoveredTopic, it: DiscoveredPartition, said: int | None) -> tuple[str, str] | None:
    """Return what keeps a partition from being compared at all: message and hint; None if nothing does."""
    name = f"{topic.topic}-{it.partition}"
    copy = f"{topic.remote_topic}-{it.partition}"
    if it.target is None and topic.remote is not None and it.partition < topic.remote.partitions:
        return f"the offsets of {copy}, the copy of {name}, cannot be read", TRY_AGAIN
    if it.target is None:
        return None if said is None else (f"{copy}, the copy of {name}, is not there", NOT_THERE)
    if said is not None and said >= it.source.end:
        return (
            f"{name} ends at upstream offset {it.source.end}, before the position {said}: the topic was recreated or"
            " truncated since it was copied",
            "exclude the topic, or give the new one another name",
        )
    if said is not None and it.target.end == 0:
        return (
            f"{copy} has never held a record, though {name} was copied up to upstream offset {said}",
            "the copy was deleted and created again: exclude the topic, or copy it anew",
        )
    if it.target.stable_end < it.target.end:
        return (
            f"{copy}: a transaction is open behind downstream offset {it.target.stable_end}",
            "wait until it has ended (a killed MirrorMaker's ends after transaction.timeout.ms), and try again",
        )
    return None
