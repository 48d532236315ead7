"""Facts of both clusters about the topics of a flow, as the rows of the suite "topics".  Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.checks.check import Row
from twinlog.checks.partitions import PartitionRow
from twinlog.checks.topics import TopicSide, topic_columns
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.monitoring.cycle_report import rows_by_topic
from twinlog.monitoring.survey import Survey, ages_of
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.snapshot import FlowSnapshot

Sides = Mapping[str, TopicSide]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The flow's topics by their names on each side; a topic that a cluster would not describe is missing."""

    source: Sides
    target: Sides
    target_brokers: int


def read(snapshot: FlowSnapshot, topics: Iterable[DiscoveredTopic]) -> TopicFacts:
    """Read the configuration of discovered topics and of their copies, whose layout the snapshot has.

    Raises ClusterUnreachable; a topic that a cluster refuses to describe is left out.
    """
    wanted, clusters = tuple(topics), snapshot.clusters
    here, there = snapshot.source.topics.found, snapshot.target.topics.found
    copies = [it.remote_topic for it in wanted if it.remote_topic in there]
    return TopicFacts(
        source=with_configs(clusters.source, {it.topic: here[it.topic] for it in wanted}),
        target=with_configs(clusters.target, {name: there[name] for name in copies}),
        target_brokers=snapshot.target.brokers,
    )


def with_configs(cluster: ClusterReader, described: Mapping[str, TopicDescription]) -> Sides:
    """Read the configuration of topics that one cluster described."""
    configs = cluster.topic_configs(described).found
    return {name: TopicSide(it, configs[name]) for name, it in described.items() if name in configs}


def topic_rows(flow: FlowSettings, seen: Survey, facts: TopicFacts) -> tuple[Row, ...]:
    """Make one row per topic of the flow that is not blocked.  Pure."""
    by_topic = rows_by_topic(seen.rows)
    return tuple(
        _row(flow, topic, by_topic.get(topic.topic, []), seen.at_ms, facts)
        for topic in seen.discovery.topics
        if not topic.blocked
    )


def _row(
    flow: FlowSettings, topic: DiscoveredTopic, rows: list[PartitionRow], now_ms: int, facts: TopicFacts
) -> Row:
    sides = facts.source.get(topic.topic), facts.target.get(topic.remote_topic)
    return {
        **topic_columns(topic.topic, *sides, facts.target_brokers),
        **ages_of(flow, topic, rows, now_ms),
        "rpo_seconds": flow.tier_of(topic.topic).rpo_seconds,
    }
