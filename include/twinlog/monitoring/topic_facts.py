"""Facts of both clusters about the topics of a flow, as the rows of the suite "topics".  Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twinlog.checks.check import Row
from twinlog.checks.partitions import PartitionRow
from twinlog.checks.topics import Side, TopicSide, topic_columns
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown
from twinlog.monitoring.cycle_report import rows_by_topic
from twinlog.monitoring.survey import Survey, ages_of
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.snapshot import FlowSnapshot

Sides = Mapping[str, TopicSide]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The flow's topics by their names on each side; a topic that a cluster did not describe is missing."""

    source: Sides
    target: Sides
    target_brokers: int

    def sides(self, topic: DiscoveredTopic) -> tuple[Side, Side]:
        """Return a topic and its copy; a copy that was not made yet is None."""
        no_copy = None if topic.remote is None else Unknown("the copy cannot be described")
        ours = self.source.get(topic.topic, Unknown("the topic cannot be described"))
        return ours, self.target.get(topic.remote_topic, no_copy)


def read(snapshot: FlowSnapshot, topics: Iterable[DiscoveredTopic]) -> TopicFacts:
    """Read the configuration of discovered topics and of their copies, whose layout the snapshot has.

    Raises ClusterUnreachable; of a topic whose configuration a cluster refuses to tell, it is unknown.
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
    """Add the configuration to topics that one cluster described, as far as it tells it."""
    configs = cluster.topic_configs(described).found
    return {name: TopicSide(it, configs.get(name, {})) for name, it in described.items()}


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
    return {
        **topic_columns(topic.topic, *facts.sides(topic), facts.target_brokers),
        **ages_of(flow, topic, rows, now_ms),
        "rpo_seconds": flow.tier_of(topic.topic).rpo_seconds,
    }
