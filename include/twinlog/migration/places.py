"""Choose which partitions are to be proved, and which are refused before any comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import value_of
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import UsageError
from twinlog.grouped import grouped
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.migration.proof import Place
from twinlog.migration.takeover_report import PartitionProof, refusal_of
from twinlog.state.ledger import read_ledger
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic, Discovery, ProblemCode
from twinlog.topics.discovery_rules import decide
from twinlog.topics.snapshot import read_source, read_target

TRY_AGAIN = "wait until it has a leader that answers, and try again"
OTHER_TOPIC = "exclude the topic, or give the new one another name"
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
    copied = {position.topic for position in positions if flow.why_left_out(position.topic) is None}
    source = read_source(flow, clusters.source, copied)
    target = read_target(flow, clusters.target, source.topics.found)
    ledger = replace(read_ledger(flow, clusters.target), flow_state=None)
    return decide(flow, source, target, ledger)


def places(
    flow: FlowSettings,
    clusters: Clusters,
    discovery: Discovery,
    positions: Positions,
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
    known = {discovered_topic.topic for discovered_topic in discovery.topics} | {it.topic for it in hidden}
    for name in sorted(set(topics or ()) - known):
        raise UsageError(f"flow {flow.name} does not replicate topic {name}", "--topic takes source topics")
    chosen = [
        discovered_topic
        for discovered_topic in discovery.topics
        if topics is None or discovered_topic.topic in topics
    ]
    source = clusters.source.topic_configs(discovered_topic.topic for discovered_topic in chosen).found
    target = clusters.target.topic_configs(
        discovered_topic.remote_topic for discovered_topic in chosen if discovered_topic.remote is not None
    ).found
    by_topic = grouped((at.topic, (at.partition, last)) for at, last in positions.items())
    said_of = {topic: dict(pairs) for topic, pairs in by_topic.items()}
    blocking = {it.topic: it for it in reversed(discovery.problems) if it.blocking}
    wanted: list[Place] = []
    refused: list[PartitionProof] = []
    for topic in chosen:
        problem, its = blocking.get(topic.topic), said_of.get(topic.topic, {})
        configs = source.get(topic.topic, {}), target.get(topic.remote_topic, {})
        read = {partition.partition: partition for partition in topic.partitions}
        for number in sorted({*range(topic.partition_count), *its}):
            it, said = read.get(number), its.get(number)
            against = _against(flow, topic, number, it, said)
            why = (problem.message, problem.hint) if problem else next(against, None)
            if why is not None:
                refused.append(refusal_of(topic.topic, topic.remote_topic, number, said, *why))
            elif it is not None and it.target is not None:
                wanted.append(
                    Place(
                        source=topic.at_source(number),
                        target=topic.at_target(number),
                        topic_id=topic.topic_id,
                        source_offsets=it.source,
                        target_offsets=it.target,
                        said=said,
                        compacted=any(
                            "compact" in (value_of(each, "cleanup.policy") or "") for each in configs
                        ),
                        timestamps=value_of(configs[1], "message.timestamp.type") != "LogAppendTime",
                        began_at_start=began_at_start,
                    )
                )
    for one in hidden:
        its = said_of.get(one.topic, {})
        for number in sorted(its) or [0]:  # partition 0 if none is known
            if topics is None or one.topic in topics:
                why = one.message, one.hint or TRY_AGAIN
                refused.append(
                    refusal_of(one.topic, flow.remote_name(one.topic), number, its.get(number), *why)
                )
    return wanted, refused


def _against(
    flow: FlowSettings, topic: DiscoveredTopic, number: int, it: DiscoveredPartition | None, said: int | None
) -> Iterator[tuple[str, str]]:
    """Yield what keeps a partition from being compared at all: message and hint; nothing if nothing does."""
    name, copy = f"{topic.topic}-{number}", f"{topic.remote_topic}-{number}"
    if it is None and number < topic.partition_count:
        yield f"the offsets of {name} cannot be read on the source", TRY_AGAIN
    elif it is None:
        yield (
            f"{name} has a position, and the topic only {topic.partition_count} partition(s): it was recreated since it"
            " was copied",
            OTHER_TOPIC,
        )
    elif it.target is None and topic.remote is not None and number < topic.remote.partitions:
        yield f"the offsets of {copy}, the copy of {name}, cannot be read", TRY_AGAIN
    elif it.target is None and said is not None:
        yield f"{copy}, the copy of {name}, is not there", NOT_THERE
    elif it.target is None:
        return
    elif said is not None and said >= it.source.end:
        yield (
            f"{name} ends at upstream offset {it.source.end}, before the position {said}: the topic was recreated or"
            " truncated since it was copied",
            OTHER_TOPIC,
        )
    elif said is not None and it.target.end == 0:
        yield (
            f"{copy} has never held a record, though {name} was copied up to upstream offset {said}",
            "the copy was deleted and created again: exclude the topic, or copy it anew",
        )
    elif it.target.stable_end < it.target.end:
        yield (
            f"{copy}: a transaction is open behind downstream offset {it.target.stable_end}",
            "wait until it has ended (a killed MirrorMaker's ends after transaction.timeout.ms), and try again",
        )
    elif (said is not None or it.target.end) and flow.transforms.of(topic.remote_topic):
        yield (
            f"{copy} is copied through transforms: it cannot be proved record by record where it ends",
            "copy the topic anew under another name, or exclude it",
        )
