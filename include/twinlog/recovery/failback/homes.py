"""Prepare the flow that brings records home from copies with other names: which, where they begin, who has to know.

    A.orders on B   copies, and earlier homecomers ... | written by clients since the failover | end
                                                       ^ the copied end: here the flow home begins

What lies before the copied end is known to `A->B`'s map, or was judged by the audit and the gate of the failover.  So
the flow home passes over it, once for each failover, before anything else is copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.facts.heartbeats import own_heartbeats
from twinlog.formats.ledger.topics import Incarnation, IncarnationReason
from twinlog.formats.ledger.writers import ReverseFlow
from twinlog.kafka_types import Positions, SourceIncarnation, TopicPartition
from twinlog.policy.selection import is_internal
from twinlog.recovery.reverse import Way
from twinlog.recovery.transitions import Move, PassedOver
from twinlog.state.changes import Entries, change
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import read_progress
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.topics.incarnations import differ, sources_of_copies
from twinlog.topics.own_topics import ensure_topics
from twinlog.topics.snapshot import FlowSnapshot


def named(there: FlowSnapshot, back: Way) -> Way:
    """Return the way home of every topic of the promoted flow that it could copy; heartbeats do not go home.

    Raises TerminalError `no-way-home` if a cluster does not tell its id.
    """
    flow, clusters = there.flow, there.clusters
    if not clusters.source.cluster_id() or not clusters.target.cluster_id():
        raise TerminalError(
            f"{flow.name} cannot go home: a cluster does not tell its id, so what came home could not be told from the"
            " rest",
            code="no-way-home",
            flow=flow.name,
        )
    names = {topic.remote_topic: topic.topic for topic in going_home(flow, saved_topics(there))}
    return Way(replace(back.flow, homes=names), back.clusters)


def saved_topics(snapshot: FlowSnapshot) -> list[DiscoveredTopic]:
    """Return the topics of the flow whose records may have to be exported: those that it can copy, no heartbeats."""
    topics = snapshot.discovery.unblocked
    beats = own_heartbeats(snapshot.flow, snapshot.clusters.source, [topic.topic for topic in topics])
    return [topic for topic in topics if topic.topic not in beats]


def going_home(flow: FlowSettings, saved: Iterable[DiscoveredTopic]) -> list[DiscoveredTopic]:
    """Return those of a promoted flow's topics whose records are the source's own.  Pure."""

    def is_a_copy(topic: str) -> bool:
        """Say whether another flow owns its records."""
        upstream = flow.policy.upstream_topic(topic)
        return upstream not in {None, topic} and flow.policy.topic_source(topic) in flow.aliases

    return [topic for topic in saved if not is_a_copy(topic.topic)]


def staying(there: Way, back: Way, usual: FlowSettings | None) -> tuple[str, ...]:
    """Return the topics of the target that no flow brings to the source: those that clients made there, above all.

    `usual` is the enabled flow in the other direction, None without one.  Raises errors of the target.
    """
    known = sources_of_copies(there.flow, read_ledger(there.flow, there.clusters.target))
    return tuple(
        sorted(
            name
            for name in there.clusters.target.topic_names()
            if name not in homes_of(back.flow)
            and known(name) is None
            and not is_internal(name, there.flow.policy)
            and not there.flow.policy.is_heartbeats_topic(name)
            and (usual is None or usual.why_left_out(name) is not None)
        )
    )


def make_known(there: Way, back: Way) -> None:
    """Tell the promoted flow whose records it leaves out, before the first one comes home.

    It stops if that ledger is ever lost, for then nobody knows them.  Raises errors of the clusters.
    """
    ensure_topics(back.clusters.target, internal_topics(back.flow))
    name = back.flow.ledger_topic
    topic_id = back.clusters.target.describe_topics([name]).require()[name].topic_id
    note = ReverseFlow(name, topic_id, clock.now_ms())
    change(
        there.flow,
        there.clusters.target,
        lambda it: Entries(
            [] if topic_id in {known.ledger_topic_id for known in it.reverse_flows} else [note]
        ),
    )


def begin(move: Move, there: Way, back: Way, failover: str, ledger: Ledger) -> Move:
    """Let the move that begins the way home, or goes on with it, also say what is passed over.

    Up to the copied end that is said once for each failover; what has expired meanwhile, each time.

    `ledger` is that of the flow home, read behind its fence, while the promoted flow copies nothing.  Raises
    TerminalError `no-way-home` if a map does not say where the copies end, or if records came home to another
    incarnation of a topic.
    """
    before = read_ledger(there.flow, there.clusters.target)
    runs = {recovery.run for recovery in before.recoveries if recovery.failover == failover}
    fresh = not any(recovery.run in runs for recovery in ledger.recoveries)
    snapshot = FlowSnapshot(there.flow, there.clusters).read_state()
    topics = [
        topic
        for topic in snapshot.discovery.topics
        if topic.remote is not None and topic.remote_topic in homes_of(back.flow)
    ]
    begun = [life for topic in topics if (life := _begun(topic, back, ledger)) is not None]
    anew = {incarnation.topic for incarnation in begun}
    come_to = read_progress(back.flow, back.clusters.target)
    over = [
        passed
        for topic in topics
        for passed in _passed_over(snapshot, topic, come_to, topic.remote_topic in anew, fresh)
    ]
    return replace(move, passed_over=tuple(over), begun=tuple(begun))


def homes_of(flow: FlowSettings) -> Mapping[str, str]:
    """Return the topics that a flow brings home, by their copies; none for another flow."""
    return flow.homes or {}


def _begun(topic: DiscoveredTopic, back: Way, ledger: Ledger) -> Incarnation | None:
    """Return the incarnation of the copy if the flow home does not know it yet.

    A copy that was made anew since a way home is copied from as another topic.
    """
    assert topic.remote is not None
    known = ledger.incarnations.get(topic.remote_topic)
    if known is not None and not differ(known.topic_id, topic.remote.topic_id):
        if differ(known.remote_topic_id, topic.topic_id):
            raise TerminalError(
                f"{topic.topic} was deleted and created again on {back.flow.target.alias} since records came home to"
                " it, so which of them it holds is not known",
                "`twinlog failback --save` saves what there is; docs/runbooks/failback.md: by hand",
                code="no-way-home",
                topic=topic.topic,
            )
        return None
    return Incarnation(
        topic.remote_topic,
        topic.remote.topic_id,
        clock.now_ms(),
        topic.topic,
        topic.topic_id,
        back.clusters.source.cluster_id(),
        1 if known is None else known.number + 1,
        IncarnationReason.FIRST_SEEN if known is None else IncarnationReason.APPEND,
    )


def _passed_over(
    snapshot: FlowSnapshot,
    topic: DiscoveredTopic,
    come_to: Positions,
    anew: bool,
    fresh: bool,
) -> Iterator[PassedOver]:
    """Yield what the flow home passes over in each partition: up to the copied end, and what has expired.

    `anew`: it knows no such incarnation yet.  `fresh`: no way home of this failover has begun before.
    """
    assert topic.remote is not None
    for partition in topic.partitions:
        if partition.target is None:
            continue
        copy = SourceIncarnation(topic.remote_topic, topic.remote.topic_id, partition.partition)
        start = 0 if anew else come_to.get(copy.topic_partition, -1) + 1
        end = _copied_end(snapshot, topic, partition) if fresh or anew else 0
        gone = partition.target.log_start
        if anew or start < max(end, gone):
            yield PassedOver(copy, start, max(end, gone), max(0, gone - max(start, end)))


def _copied_end(snapshot: FlowSnapshot, topic: DiscoveredTopic, it: DiscoveredPartition) -> int:
    """Return the downstream offset behind the last copy of any incarnation of the topic, 0 if nothing was copied."""
    lives = [
        SourceIncarnation(life.topic, life.topic_id, it.partition)
        for life in snapshot.ledger.every_incarnation
        if (life.topic, life.remote_topic) == (topic.topic, topic.remote_topic)
        and not differ(life.remote_topic_id, topic.copy_id)
    ]
    found = [snapshot.maps[life].open() for life in lives if snapshot.maps.seen(life) is not None]
    end = max((known.end_downstream for known in found), default=0)
    if end:
        return end
    last = snapshot.progress.get(TopicPartition(topic.topic, it.partition))
    first = it.begins if it.begins is not None else it.source.log_start
    if last is None or last < first or any(known.covers_all(first, last + 1) for known in found):
        return 0
    raise TerminalError(
        f"{topic.topic}-{it.partition} was copied, and its map does not say where the copies in {topic.remote_topic}"
        " end, so what clients wrote behind them is not known",
        "`twinlog failback --save` saves what there is; docs/runbooks/failback.md: by hand",
        code="no-way-home",
        topic=topic.topic,
    )
