"""Find other writers to a flow's copies, and records of the source that came from the target, by the flows' state.

| topology                          | on the target                        | on the source                         |
|-----------------------------------|--------------------------------------|---------------------------------------|
| both ways, unchanged names        | its own producers write there        | the reverse flow's map: not copied    |
| failed over and home, other names | a failback brought or exported them  | the map of the flow home: not copied  |
| several flows into one topic      | the other flows' maps: theirs        |                                       |
| one way                           | no other writer                      |                                       |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from twinlog.cluster.api import ClusterReader, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FormatError
from twinlog.formats.ledger.records import LedgerRecord
from twinlog.formats.ledger.topics import Incarnation
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.spans import Spans
from twinlog.policy.state_topics import ledger_topic, source_of_ledger, source_of_offset_map
from twinlog.state.ledger import Ledger, ledger_in, read_ledger
from twinlog.state.progress import maps_in
from twinlog.topics.discovery import DiscoveredTopic, Discovery
from twinlog.topics.incarnations import differ
from twinlog.topics.reverse_flows import (
    ReverseState,
    copy_names,
    gone_reverse_flows,
    read_reverse_states,
    source_ledgers,
)


@dataclass(frozen=True, slots=True)
class OtherWriters:
    """Records that the flow did not write.

    `loopback` are upstream offsets, by source partition, that the reverse flow wrote. `others` are downstream offsets,
    by partition of the copy, that other flows wrote, that came home from the copy, or that were exported because they
    never will. `shared` are copies to which the target's own producers write.
    """

    loopback: Mapping[TopicPartition, Spans] = field(default_factory=dict)
    others: Mapping[TopicPartition, Spans] = field(default_factory=dict)
    shared: frozenset[str] = frozenset()


def read_other_writers(
    flow: FlowSettings, clusters: Clusters, discovery: Discovery, ledger: Ledger | None = None
) -> OtherWriters:
    """Find the reverse flow's records, and other flows that write into the same copies.

    If the state of another flow may not, or cannot, be read, it is skipped: records of that flow are then not known to
    be its own. Raises FormatError for unreadable state of the reverse flow, and errors of the clusters.
    """
    came_home = (ledger or read_ledger(flow, clusters.target)).came_home or flow.homes is not None
    topics = [topic for topic in discovery.topics if came_home or topic.remote_topic == topic.topic]
    ids = {topic.topic: topic.topic_id for topic in topics}
    ways = read_reverse_states(flow, clusters, ids) if ids else ()
    known = {life.topic for way in ways for life in way.ledger.every_incarnation}
    same = frozenset(
        topic.topic
        for topic in topics
        if topic.remote_topic == topic.topic and _comes_back(flow, topic.topic, known)
    )
    copies = {topic.remote_topic for topic in discovery.topics if topic.remote is not None}
    home = {
        topic.topic: topic
        for topic in topics
        if topic.remote_topic != topic.topic and topic.remote is not None
    }
    back = _ways_home(ways, {topic.remote_topic: topic for topic in home.values()})
    written: defaultdict[TopicPartition, list[Spans]] = defaultdict(list)
    # Producers of the target wrote what came home.
    came = ((TopicPartition(remote, it), Spans.upstream_of(maps)) for (_, remote, it), maps in back.items())
    others = _other_flows(flow, clusters.target, copies)
    for at, spans in (*others.items(), *came, *_exported_from(ways, home.values())):
        written[at].append(spans)
    brought = {
        TopicPartition(topic, number): Spans.downstream_of(maps) for (topic, _, number), maps in back.items()
    }
    return OtherWriters(
        {**_loopback(ways, same), **brought},
        {at: Spans.joined(several) for at, several in written.items()},
        # The source's own producers write to the topics to which a flow brings records home.
        same
        | (
            frozenset(topic.remote_topic for topic in home.values())
            if flow.homes is not None
            else frozenset()
        ),
    )


def _comes_back(flow: FlowSettings, topic: str, known: Collection[str]) -> bool:
    """Say whether the reverse flow has copied a topic under its name, or will do so by the file.

    Clients of the target may write before its first cycle.
    """
    return topic in known or (flow.topics_back is not None and flow.topics_back.accepts(topic))


def _ways_home(
    ways: Iterable[ReverseState], topics: Mapping[str, DiscoveredTopic]
) -> Mapping[tuple[str, str, int], list[OffsetMap]]:
    """Return, by topic, copy and partition, the maps of the flows that brought records home; `topics` are by copy."""
    found: defaultdict[tuple[str, str, int], list[OffsetMap]] = defaultdict(list)
    for way in ways:
        led_to = copy_names(way.ledger)
        for life, packed in way.maps.items():
            topic = topics.get(life.topic)
            if topic is None or topic.remote is None or differ(life.topic_id, topic.remote.topic_id):
                continue
            if led_to.get((life.topic, life.topic_id)) == topic.topic:
                found[topic.topic, topic.remote_topic, life.partition].append(packed.open())
    return found


def _exported_from(
    ways: Iterable[ReverseState], topics: Iterable[DiscoveredTopic]
) -> Iterable[tuple[TopicPartition, Spans]]:
    """Return the records of copies that were exported when the target was lost on the way home (decision 28)."""
    ids = {topic.remote_topic: topic.remote.topic_id for topic in topics if topic.remote is not None}
    for way in ways:
        for tail in way.ledger.tails:
            if tail.topic in ids and not differ(tail.topic_id, ids[tail.topic]):
                yield (
                    TopicPartition(tail.topic, tail.partition),
                    Spans.between(tail.first, tail.next_offset),
                )


def other_writers(
    flow: FlowSettings, clusters: Clusters, topic: str, remote_topic: str, remote_topic_id: str
) -> tuple[str, ...]:
    """Name the other writers of a copy, before it is deleted; empty if only this flow writes to it.

    Here unreadable state counts against the deletion, unless the copy's name has the flow's alias. A flow that wrote
    into another incarnation of the copy has no records in this one. Raises ClusterUnreachable.
    """
    found: list[str] = []
    if remote_topic == topic or read_ledger(flow, clusters.target).came_home:
        found += _reverse_writers(flow, clusters, topic, remote_topic, remote_topic_id)
    named = remote_topic != topic and flow.policy.topic_source(remote_topic) == flow.source.alias
    for name in clusters.target.topic_names():
        alias = source_of_ledger(name)
        if alias is None or name == flow.ledger_topic:
            continue
        try:
            found_here = ledger_in(clusters.target, name).every_incarnation
        except (ClusterRefused, FormatError):
            found += [] if named else [f"whoever {name} tells of, which cannot be read"]
            continue
        if any(
            incarnation.remote_topic == remote_topic
            and not differ(incarnation.remote_topic_id, remote_topic_id)
            for incarnation in found_here
        ):
            found.append(f"the flow {alias}->{flow.target.alias}")
    return tuple(found)


def _reverse_writers(
    flow: FlowSettings, clusters: Clusters, topic: str, remote_topic: str, remote_topic_id: str
) -> Iterable[str]:
    """Name the reverse flows by which a copy holds records of the target itself."""

    def copied(it: LedgerRecord) -> bool:
        if not isinstance(it, Incarnation) or it.topic != remote_topic:
            return False
        home = it.remote_topic == topic and not differ(it.topic_id, remote_topic_id)
        return home or remote_topic == topic

    here, there = flow.source.alias, flow.target.alias
    try:
        for ledger in source_ledgers(flow, clusters):
            if ledger.refused:
                yield f"whoever {ledger.ledger_topic} on {here} tells of, which may not be read"
            if not any(map(copied, ledger.records)):
                continue
            if ledger.reverse:
                yield f"producers of {there}, from which {ledger.alias}->{here} copies it"
            elif not ledger.known:
                yield f"whoever {ledger.ledger_topic} on {here} tells of, which does not say which cluster that is"
    except (ClusterRefused, FormatError) as error:
        yield f"whoever the ledgers on {here} tell of, of which one cannot be read: {error.message}"
    for gone in gone_reverse_flows(clusters, read_ledger(flow, clusters.target).reverse_flows):
        yield f"producers of {there}: the flow from there, whose ledger {gone.ledger_topic} was deleted from {here}"


def _loopback(ways: Iterable[ReverseState], topics: frozenset[str]) -> Mapping[TopicPartition, Spans]:
    """Return what the reverse flows wrote into `topics`."""
    maps = (it for way in ways for it in way.maps.items())
    return _joined(grouped((life.topic_partition, it.open()) for life, it in maps if life.topic in topics))


def _other_flows(
    flow: FlowSettings, target: ClusterReader, copies: set[str]
) -> Mapping[TopicPartition, Spans]:
    found: defaultdict[TopicPartition, list[OffsetMap]] = defaultdict(list)
    for name in target.topic_names():
        alias = source_of_offset_map(name)
        if alias is None or name == flow.offset_map_topic:
            continue
        try:
            written = list(_written_by(target, alias, name, copies))
        except (ClusterRefused, FormatError):
            continue  # not known to belong to another flow: reported as extra, rather than skipped
        for at, offset_map in written:
            found[at].append(offset_map)
    return _joined(found)


def _written_by(
    target: ClusterReader, alias: str, map_topic: str, copies: set[str]
) -> Iterable[tuple[TopicPartition, OffsetMap]]:
    """Return the maps of the flow from `alias`, for the records it writes into these copies."""
    theirs = ledger_in(target, ledger_topic(alias))
    goes_to = {life: copy for life, copy in copy_names(theirs).items() if copy in copies}
    if goes_to:
        for life, packed in maps_in(target, map_topic).items():
            remote = goes_to.get((life.topic, life.topic_id))
            if remote is not None:
                yield TopicPartition(remote, life.partition), packed.open()


def _joined(found: Mapping[TopicPartition, list[OffsetMap]]) -> Mapping[TopicPartition, Spans]:
    return {at: Spans.downstream_of(maps) for at, maps in found.items()}
