"""Compare which incarnations of a topic and of its copy the ledger knows with those that are seen. Pure.

Stored progress is about the newest incarnation the ledger knows, and about no other
(docs/decisions/0010-lives-of-topics.md). So a topic stops as soon as either side differs from the ledger. The topic is
copied again when a person, or a policy, has decided how to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, TopicDescription
from twinlog.config.flow.copying import RecreatedPolicy
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import Incarnation, IncarnationReason, RebuildPhase
from twinlog.state.ledger import Ledger
from twinlog.topics.discovery import (
    Orphan,
    OrphanKind,
    Problem,
    ProblemCode,
    SourceState,
    TargetState,
)

SCHEMAS = "_schemas"
"""The topic where Confluent's Schema Registry, and registries like it, keep their schemas (kafkastore.topic)."""

_NO_ID = frozenset({"", "AAAAAAAAAAAAAAAAAAAAAA"})
"""The topic ids of a cluster before 2.8 (KIP-516): nothing, or zeros."""


def differ(known: str, seen: str) -> bool:
    """Say whether two ids, both of them known, belong to two incarnations."""
    return known != seen and known not in _NO_ID and seen not in _NO_ID


def copied_from(flow: FlowSettings, ledger: Ledger, remote_topic: str) -> str | None:
    """Return the source topic that this flow copies, or copied, into a topic of the target; None for any other."""
    return sources_of_copies(flow, ledger)(remote_topic)


def sources_of_copies(flow: FlowSettings, ledger: Ledger) -> Callable[[str], str | None]:
    """Return a function that answers as `copied_from`, for many topics of the target.

    The ledger records which topic was copied where. A name alone tells less: `x.y` may be the target's own topic, and
    an alias that contains the separator cannot be found again in the names made with it.
    """
    known = {life.remote_topic: life.topic for life in ledger.every_incarnation}

    def source(remote_topic: str) -> str | None:
        if remote_topic in known:
            return known[remote_topic]
        ours = flow.policy.topic_source(remote_topic) == flow.source.alias
        upstream: str | None = flow.policy.upstream_topic(remote_topic) if ours else None
        return upstream

    return source


def no_longer_copied(flow: FlowSettings, ledger: Ledger, topic: str) -> bool:
    """Say whether the flow copies nothing of a topic any more: it was left out since, or cycles saw it deleted.

    If its copy is gone, too, nobody misses it.
    """
    return topic in ledger.deleted or flow.why_left_out(topic) is not None


def about_incarnation(at_ms: int, life: Incarnation | None) -> bool:
    """Say whether a checkpoint written at `at_ms` is about this incarnation; an older one is about the one before.

    This holds for the checkpoint's downstream offset; `about_source_incarnation` knows more about the upstream one.
    For an incarnation first seen at `since_ms` every checkpoint counts, because the copy may be older than that: MM2
    wrote copy and checkpoints before a migration from it.
    """
    return life is None or life.reason is IncarnationReason.FIRST_SEEN or at_ms >= life.since_ms


def about_source_incarnation(at_ms: int, topic: str, ledger: Ledger) -> bool:
    """Say whether an upstream offset noted at `at_ms` belongs to the topic's present incarnation.

    A copy made anew does not change the source's offsets. But a rebuild replaces the time of the incarnation it copies
    by its own time. If the ledger knows no other incarnation, the offset belongs to this one. Otherwise it may belong
    to an earlier one.
    """
    life = ledger.incarnations.get(topic)
    if life is None or about_incarnation(at_ms, life):
        return True
    only = all(
        incarnation.topic_id == life.topic_id
        for incarnation in ledger.every_incarnation
        if incarnation.topic == topic
    )
    return only and life.reason is IncarnationReason.REBUILD and life.topic_id not in _NO_ID


def incarnation_problems(
    flow: FlowSettings, source: SourceState, target: TargetState, ledger: Ledger
) -> Iterator[Problem]:
    """Compare every topic the ledger knows with both clusters."""
    for topic, known in ledger.incarnations.items():
        if _being_emptied(ledger, topic):
            yield _rebuilding(flow, topic, known)
        elif topic in source.topics.found:
            yield from _source_incarnation(flow, source, topic, known)
            yield from _copied_incarnation(flow, target.topics, topic, known)
        elif topic in source.gone:
            yield _deleted(flow, topic, known, target)
    for rebuild in ledger.strange_rebuilds:
        yield Problem(
            ProblemCode.STRANGE_REBUILD,
            rebuild.topic,
            f"the ledger wants {rebuild.remote_topic} deleted on {flow.target.alias} for a rebuild of {rebuild.topic},"
            f" whose copy is {flow.remote_name(rebuild.topic)}: it is not obeyed, {rebuild.topic} is copied as before",
            f"find out who writes to {flow.ledger_topic} (it says {rebuild.by});"
            " `twinlog topics rebuild` takes its place",
        )


def problems_of_copies(
    flow: FlowSettings, copies: Answers[str, TopicDescription], ledger: Ledger
) -> Iterator[Problem]:
    """Compare every topic that the flow still has with the target alone; `copies` are by remote name."""
    for topic, known in ledger.incarnations.items():
        if no_longer_copied(flow, ledger, topic):
            continue
        if _being_emptied(ledger, topic):
            yield _rebuilding(flow, topic, known)
        else:
            yield from _copied_incarnation(flow, copies, topic, known)


def _being_emptied(ledger: Ledger, topic: str) -> bool:
    rebuild = ledger.rebuilds.get(topic)
    return rebuild is not None and rebuild.phase is RebuildPhase.DELETING


def registry_problems(flow: FlowSettings, source: SourceState) -> Iterator[Problem]:
    """Report what a schema registry on the target has to be told (docs/topics.md)."""
    if SCHEMAS not in source.topics.found:
        return
    remote = flow.remote_name(SCHEMAS)
    if remote != SCHEMAS:
        yield Problem(
            ProblemCode.SCHEMAS_RENAMED,
            SCHEMAS,
            f"the schemas of {flow.source.alias} are copied to {remote}, where a schema registry on"
            f" {flow.target.alias} does not look by itself",
            f"set kafkastore.topic={remote} and leader.eligibility=false there, or keep names with the"
            " IdentityReplicationPolicy",
        )


def orphans(
    flow: FlowSettings, source: SourceState, target: TargetState, ledger: Ledger
) -> tuple[Orphan, ...]:
    """List copies on the target that get no more records."""
    return tuple(sorted(_orphans(flow, source, target, ledger), key=lambda it: it.remote_topic))


def _orphans(
    flow: FlowSettings, source: SourceState, target: TargetState, ledger: Ledger
) -> Iterator[Orphan]:
    reasons = {left_out.topic: left_out.reason for left_out in source.left_out}
    known = {incarnation.remote_topic for incarnation in ledger.incarnations.values()}
    on_source, on_target = frozenset(source.names), frozenset(target.names)
    for topic, life in ledger.incarnations.items():
        if life.remote_topic not in on_target or topic in source.topics.found:
            continue
        deleted = ledger.deleted.get(topic)
        if topic in source.gone:
            since = deleted.first_seen_ms if deleted is not None else None
            after = flow.lifecycle.delete_after_ms
            due = None if since is None or after is None else since + after
            yield Orphan(life.remote_topic, topic, OrphanKind.DELETED, since_ms=since, delete_at_ms=due)
        elif topic in reasons:
            yield Orphan(life.remote_topic, topic, OrphanKind.LEFT_OUT, reasons[topic])
    for name in target.names:
        upstream = flow.policy.upstream_topic(name)
        if upstream is None or upstream == name or name in known or flow.policy.is_internal_topic(name):
            continue
        if flow.policy.topic_source(name) == flow.source.alias and upstream not in on_source:
            yield Orphan(name, upstream, OrphanKind.UNKNOWN)


def _source_incarnation(
    flow: FlowSettings, source: SourceState, topic: str, known: Incarnation
) -> Iterable[Problem]:
    alias, remote = flow.source.alias, flow.remote_name(topic)
    seen = source.topics.found[topic].topic_id
    if differ(known.source_cluster_id, source.cluster_id):
        return [
            Problem(
                ProblemCode.SOURCE_CHANGED,
                topic,
                f"{alias} is another cluster than the one {remote} was copied from: its id was"
                f" {known.source_cluster_id} and is {source.cluster_id}",
                f"check {alias}.bootstrap.servers; if it is meant: {flow.copied_anew(topic)}",
            )
        ]
    if not differ(known.topic_id, seen):
        return []
    advice = {
        RecreatedPolicy.FAIL: f"its copy {remote} holds the earlier records and stays as it is;"
        f" {flow.copied_anew(topic)}{'' if flow.observed else ', or set twinlog.on.recreated'}",
        RecreatedPolicy.APPEND: f"the next cycle puts its records behind the earlier ones in {remote}",
        RecreatedPolicy.NEW_INCARNATION: f"the next cycle deletes {remote} and copies it anew",
    }
    return [
        Problem(
            ProblemCode.RECREATED,
            topic,
            f"topic {topic} was deleted and created again on {alias}: its id was {known.topic_id} and is {seen}",
            advice[flow.lifecycle.on_recreated],
        )
    ]


def _copied_incarnation(
    flow: FlowSettings, copies: Answers[str, TopicDescription], topic: str, known: Incarnation
) -> Iterator[Problem]:
    """Find copies that are not the ones the flow wrote.

    A copy made anew holds the records to come, and lacks those copied before: progress outlives the copy, and MM2
    continues from there without a word.
    """
    remote, alias = flow.remote_name(topic), flow.target.alias
    advice = f"{flow.copied_anew(topic)} from the first record left; or exclude the topic"
    if known.remote_topic != remote:
        yield Problem(
            ProblemCode.COPY_RENAMED,
            topic,
            f"{topic} was copied to {known.remote_topic}, and by the configuration of now it goes to {remote}",
            f"set the replication policy back; or {advice}",
        )
        return
    found, error = copies.found.get(remote), copies.refused.get(remote)
    if found is not None and differ(known.remote_topic_id, found.topic_id):
        yield Problem(
            ProblemCode.COPY_RECREATED,
            topic,
            f"{remote}, the copy of {topic}, was deleted and created again on {alias}: its id was"
            f" {known.remote_topic_id} and is {found.topic_id}",
            advice,
        )
    if error is not None and error.code == NO_SUCH_TOPIC:
        yield Problem(
            ProblemCode.COPY_DELETED,
            topic,
            f"{remote}, the copy of {topic}, was deleted from {alias}",
            advice,
        )


def _deleted(flow: FlowSettings, topic: str, known: Incarnation, target: TargetState) -> Problem:
    if known.remote_topic not in target.names:
        return Problem(
            ProblemCode.DELETED,
            topic,
            f"topic {topic} is gone from {flow.source.alias}, and {flow.target.alias} shows no {known.remote_topic}",
            f"`twinlog topics forget --topic {topic}` drops what is known of it",
        )
    after = flow.lifecycle.delete_after_ms
    stays = (
        "delete it there when nobody needs it" if after is None else "twinlog.on.deleted deletes it in time"
    )
    return Problem(
        ProblemCode.DELETED,
        topic,
        f"topic {topic} is gone from {flow.source.alias}",
        f"its copy {known.remote_topic} on {flow.target.alias} stays: {stays}",
    )


def _rebuilding(flow: FlowSettings, topic: str, known: Incarnation) -> Problem:
    return Problem(
        ProblemCode.REBUILDING,
        topic,
        f"{known.remote_topic}, the copy of {topic}, is being rebuilt",
        f"the next cycle goes on with it, or `twinlog topics rebuild --flow '{flow.name}' --topic {topic}`",
    )
