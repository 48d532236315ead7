"""Derive each topic's problems from the state of both clusters: one rule per problem. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType

from twinlog.cluster.permissions.needs import LONGEST_TOPIC
from twinlog.cluster.values import NO_SUCH_TOPIC, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ConfigError
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.policy.state_topics import is_known_heartbeats
from twinlog.state.ledger import Ledger, require_own
from twinlog.topics.discovery import (
    DiscoveredPartition,
    DiscoveredTopic,
    Discovery,
    Problem,
    ProblemCode,
    RemoteTopic,
    SourceState,
    TargetState,
)
from twinlog.topics.incarnations import differ, incarnation_problems, orphans, registry_problems
from twinlog.topics.pauses import why_held, why_paused
from twinlog.topics.same_log import Witness
from twinlog.visible import listed


def decide(
    flow: FlowSettings,
    source: SourceState,
    target: TargetState,
    ledger: Ledger,
    other_logs: Mapping[str, Witness] = MappingProxyType({}),
) -> Discovery:
    """Decide for every topic whether it can be copied, and which problems it has.

    `other_logs` are topics without an id that hold other records than were copied from them.

    Raises ConfigError if both aliases are one cluster: its topics would be copied onto themselves. Raises
    TerminalError if the state on the target belongs to another name, or to other clusters.
    """
    if source.cluster_id and source.cluster_id == target.cluster_id:
        raise same_cluster(flow, source.cluster_id)
    require_own(flow, ledger, source.cluster_id, target.cluster_id)
    selected = frozenset(source.names).difference(left_out.topic for left_out in source.left_out)
    problems = sorted(
        (
            *_refused(flow, source, target),
            *incarnation_problems(flow, source, target, ledger),
            *_other_logs(flow, other_logs),
            *registry_problems(flow, source),
            *_name_clashes(flow, source),
            *_names_refused(flow, source, target),
            *_fewer_partitions(flow, source, target),
            *_unavailable(source),
            *(missing := tuple(_missing_names(flow, source))),
            *(() if missing else nothing_selected(flow, selected)),
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
            _topic(flow, source.topics.found[name], source, target, ledger, blocked=name in blocked)
            for name in sorted(source.topics.found)
        ),
        left_out=tuple(sorted(source.left_out, key=lambda it: it.topic)),
        problems=tuple(problems),
        orphans=orphans(flow, source, target, ledger),
        phase=ledger.phase,
        stands_by=why_held(flow, ledger),
    )


def _topic(
    flow: FlowSettings,
    described: TopicDescription,
    source: SourceState,
    target: TargetState,
    ledger: Ledger,
    *,
    blocked: bool,
) -> DiscoveredTopic:
    remote = flow.remote_name(described.name)
    topic_id, copy = _identity(ledger, described), target.topics.found.get(remote)
    return DiscoveredTopic(
        topic=described.name,
        topic_id=topic_id,
        remote_topic=remote,
        partition_count=len(described.partitions),
        partitions=tuple(
            DiscoveredPartition(
                *(described.name, topic_id, partition.partition),
                offsets,
                target.offsets.found.get(TopicPartition(remote, partition.partition)),
                begins(ledger, described.name, topic_id, partition.partition),
            )
            for partition in described.partitions
            if (offsets := source.offsets.found.get(TopicPartition(described.name, partition.partition)))
            is not None
        ),
        remote=None if copy is None else RemoteTopic(copy.topic_id, len(copy.partitions)),
        blocked=blocked,
        paused=why_paused(ledger, described.name),
    )


def _identity(ledger: Ledger, described: TopicDescription) -> str:
    """Return the id under which a topic's state is kept: the ledger's, unless the source shows another one.

    A source that is upgraded to 2.8 gives its topics ids; their state stays under none.
    """
    known = ledger.incarnations.get(described.name)
    if known is None or differ(known.topic_id, described.topic_id):
        return described.topic_id
    return known.topic_id


def with_beginnings(topics: Iterable[DiscoveredTopic], ledger: Ledger) -> tuple[DiscoveredTopic, ...]:
    """Put into topics where their copies begin by a ledger that was read after them, behind the fence. Pure.

    A rebuild may have moved a beginning forward or back since; by the earlier one, records would be left out.
    """
    return tuple(
        replace(
            topic,
            partitions=tuple(
                replace(partition, begins=begins(ledger, topic.topic, topic.topic_id, partition.partition))
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )


def begins(ledger: Ledger, topic: str, topic_id: str, partition: int) -> int | None:
    """Return the upstream offset where the copy of a partition begins; None if none is recorded for its topic.

    A partition without an offset of its own in that record was added later. Its copy begins at 0, so that no record of
    it is left out.
    """
    noted = ledger.beginnings.get(topic)
    if noted is None or noted.topic_id != topic_id:
        return None
    return noted.offsets.get(str(partition), 0)


def _refused(flow: FlowSettings, source: SourceState, target: TargetState) -> Iterable[Problem]:
    for topic, error in source.topics.refused.items():
        yield Problem(ProblemCode.SOURCE_REFUSED, topic, error.message, error.hint)
    for topic in source.topics.found:
        refused = target.topics.refused.get(flow.remote_name(topic))
        if refused is not None and refused.code != NO_SUCH_TOPIC:
            yield Problem(ProblemCode.TARGET_REFUSED, topic, refused.message, refused.hint)


def _other_logs(flow: FlowSettings, other_logs: Mapping[str, Witness]) -> Iterable[Problem]:
    for topic, it in other_logs.items():
        yield Problem(
            ProblemCode.OTHER_LOG,
            topic,
            f"{topic}-{it.partition} on {flow.source.alias} has another record at upstream offset {it.upstream} than"
            f" was copied from there: the topic was deleted and created again",
            f"its copy {flow.remote_name(topic)} holds the earlier records and stays as it is;"
            f" {flow.copied_anew(topic)}",
        )


def _name_clashes(flow: FlowSettings, source: SourceState) -> Iterable[Problem]:
    by_remote = grouped((flow.remote_name(topic), topic) for topic in sorted(source.topics.found))
    for remote, topics in by_remote.items():
        for topic in topics if len(topics) > 1 else ():
            yield Problem(
                ProblemCode.REMOTE_NAME_CLASH,
                topic,
                f"topics {', '.join(topics)} of {flow.source.alias} would all be copied into {remote}",
                "exclude all but one of them, or choose a replication policy that keeps them apart",
            )


def _names_refused(flow: FlowSettings, source: SourceState, target: TargetState) -> Iterable[Problem]:
    """Report copies that the target would not create: Kafka's rules of topic names (org.apache.kafka...Topic).

    A broker keeps two names apart in its metrics only if they differ in more than "." and "_".
    """
    alike = {name.replace(".", "_"): name for name in target.names}
    for topic in source.topics.found:
        remote = flow.remote_name(topic)
        if remote in target.topics.found:
            continue
        if len(remote) > LONGEST_TOPIC:
            yield Problem(
                ProblemCode.TARGET_REFUSED,
                topic,
                f"the copy's name {remote} has {len(remote)} characters, and Kafka takes {LONGEST_TOPIC}",
                "leave the topic out, or give the cluster a shorter alias",
            )
        elif (taken := alike.get(remote.replace(".", "_"))) is not None and taken != remote:
            yield Problem(
                ProblemCode.REMOTE_NAME_CLASH,
                topic,
                f"{flow.target.alias} has {taken}, beside which Kafka creates no {remote}: only . and _ differ",
                f"leave the topic out, or delete {taken} on {flow.target.alias} if nobody needs it",
            )


def _fewer_partitions(flow: FlowSettings, source: SourceState, target: TargetState) -> Iterable[Problem]:
    for topic, described in source.topics.found.items():
        remote = target.topics.found.get(flow.remote_name(topic))
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
    for topic, partitions in grouped(source.offsets.refused).items():
        first = min(partitions)
        error = source.offsets.refused[TopicPartition(topic, first)]
        yield Problem(
            ProblemCode.PARTITION_UNAVAILABLE,
            topic,
            f"offsets of {len(partitions)} partition(s) of {topic} cannot be read; of {first}: {error.message}",
            "its other partitions are copied; these stop until the source tells",
        )


def _missing_names(flow: FlowSettings, source: SourceState) -> Iterable[Problem]:
    """Report plain names in `topics` that the source does not have: a typo, or a missing DESCRIBE."""
    known = frozenset(source.names)
    for name in flow.topics.include:
        if name in known or not re.fullmatch(r"[\w.-]*\w", name):
            continue
        if "." not in name or not any(map(re.compile(name).fullmatch, source.names)):
            yield Problem(
                ProblemCode.NO_SUCH_TOPIC,
                name,
                f"{flow.source.alias} has no topic {name}, which {flow.name}.topics names",
                "check its spelling, and that this user may DESCRIBE it",
            )


def nothing_selected(flow: FlowSettings, selected: Collection[str]) -> Iterator[Problem]:
    """Report a flow whose patterns select no topic of the source but heartbeats; `selected` are what they select."""
    include = flow.topics.include
    users = (it for it in selected if not is_known_heartbeats(flow.policy, flow.aliases, it))
    if include and flow.homes is None and next(users, None) is None:
        yield Problem(
            ProblemCode.NO_SUCH_TOPIC,
            listed(include),
            f"{flow.source.alias} shows no topic that {flow.name}.topics selects ({listed(include)}):"
            " nothing is copied but heartbeats",
            "check the patterns, and that this user may DESCRIBE the topics; `twinlog plan --explain` says why each is"
            " left out",
        )


def same_cluster(flow: FlowSettings, cluster_id: str) -> ConfigError:
    """Make the error for a flow whose two aliases are one cluster."""
    return ConfigError(
        f"{flow.source.alias} and {flow.target.alias} are the same cluster (id {cluster_id})",
        hint=f"check {flow.source.alias}.bootstrap.servers and {flow.target.alias}.bootstrap.servers",
        code="same-cluster",
        flow=flow.name,
        cluster_id=cluster_id,
    )
