"""Prepare the flow that brings records home from copies with other names: which, where they begin, who has to know.

    A.orders on B   copies, and earlier homecomers ... | written by clients since the failover | end
                                                       ^ the copied end: here the flow home begins

What lies before the copied end is known to `A->B`'s map, or was judged by the audit and the gate of the failover.  So
the flow home passes over it, once for each failover, before anything else is copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from twinlog import clock
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.formats.ledger.writers import ReverseFlow
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring.heartbeats import own_heartbeats
from twinlog.offsets.offset_map import OffsetMap
from twinlog.recovery.reverse import Way, with_homes
from twinlog.recovery.transitions import PassedOver
from twinlog.state.internal_topics import internal_topics
from twinlog.state.ledger import Ledger, read_ledger, write_ledger
from twinlog.state.progress import SourceIncarnation, read_maps, read_progress
from twinlog.topics.discovery import DiscoveredPartition, DiscoveredTopic
from twinlog.topics.own_topics import ensure_topics
from twinlog.topics.snapshot import FlowSnapshot


def named(there: Way, back: Way) -> Way:
    """Return the way home of every topic of the promoted flow that it could copy; heartbeats do not go home."""
    flow, clusters = there.flow, there.clusters
    topics = [it for it in FlowSnapshot(flow, clusters).discovery.topics if not it.blocked]
    beats = own_heartbeats(flow, clusters.source, [it.topic for it in topics])
    return with_homes(
        back,
        {
            it.remote_topic: it.topic
            for it in topics
            if it.topic not in beats and not comes_from_elsewhere(flow, it.topic)
        },
    )


def comes_from_elsewhere(flow: FlowSettings, topic: str) -> bool:
    """Say whether a topic of the source is itself a copy, so that another flow owns its records.  Pure."""
    upstream = flow.policy.upstream_topic(topic)
    return upstream not in {None, topic} and flow.policy.topic_source(topic) in flow.aliases


def make_known(there: Way, back: Way) -> None:
    """Tell the promoted flow whose records it leaves out, before the first one comes home.

    It stops if that ledger is ever lost, for then nobody knows them.  Raises errors of the clusters.
    """
    ensure_topics(back.clusters.target, internal_topics(back.flow))
    name = back.flow.ledger_topic
    topic_id = back.clusters.target.describe_topics([name]).require()[name].topic_id
    known = read_ledger(there.flow, there.clusters.target).reverse_flows
    if topic_id not in {it.ledger_topic_id for it in known}:
        note = ReverseFlow(name, topic_id, clock.now_ms())
        write_ledger(there.flow, there.clusters.target, [note])


def passed_over(there: Way, back: Way, failover: str, ledger: Ledger) -> tuple[PassedOver, ...]:
    """Return what the flow home has to pass over; nothing if a way home of this failover has begun before.

    `ledger` is that of the flow home, read behind its fence, while the promoted flow copies nothing.  Raises
    TerminalError `no-way-home` if a map does not say where the copies end.
    """
    runs = {
        it.run for it in read_ledger(there.flow, there.clusters.target).recoveries if it.failover == failover
    }
    if any(it.run in runs for it in ledger.recoveries):
        return ()
    return tuple(_passed_over(there, back.flow, back.clusters))


def _passed_over(there: Way, home: FlowSettings, clusters: Clusters) -> Iterator[PassedOver]:
    snapshot = FlowSnapshot(there.flow, there.clusters).read_state()
    maps = read_maps(there.flow, there.clusters.target)
    come_to = read_progress(home, clusters.target)
    for topic in snapshot.discovery.topics:
        if topic.remote is None or home.homes is None or topic.remote_topic not in home.homes:
            continue
        for it in topic.partitions:
            if it.target is None:
                continue
            life = SourceIncarnation(topic.topic, topic.topic_id, it.partition)
            end = _copied_end(snapshot.progress, maps.get(life), topic, it)
            start = come_to.get(TopicPartition(topic.remote_topic, it.partition), -1) + 1
            if start < end:
                copy = SourceIncarnation(topic.remote_topic, topic.remote.topic_id, it.partition)
                yield PassedOver(copy, start, end)


def _copied_end(
    progress: Mapping[TopicPartition, int],
    known: OffsetMap | None,
    topic: DiscoveredTopic,
    it: DiscoveredPartition,
) -> int:
    """Return the downstream offset behind the last copy, 0 if nothing was copied."""
    if known is not None and len(known.length):
        return known.end_downstream
    last = progress.get(TopicPartition(topic.topic, it.partition))
    first = it.begins if it.begins is not None else it.source.log_start
    if last is None or last < first or (known is not None and known.covers_all(first, last + 1)):
        return 0
    raise TerminalError(
        f"{topic.topic}-{it.partition} was copied, and its map does not say where the copies in {topic.remote_topic}"
        " end, so what clients wrote behind them is not known",
        hint="`twinlog failback` saves what there is; docs/failover.md says how clients go home by hand",
        code="no-way-home",
        topic=topic.topic,
    )
