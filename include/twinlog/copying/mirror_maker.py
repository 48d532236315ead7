"""Refuse the first copy of a flow that MirrorMaker 2 copies, or has copied: every record would be there twice.

`twinlog migrate takeover` is the way to go on behind it.  After it, and after the first copy, nothing is asked here.
"""

from __future__ import annotations

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FormatError, TerminalError
from twinlog.formats.ledger.reading import of_kind
from twinlog.formats.ledger.records import LaneFence
from twinlog.kafka_types import TopicPartition
from twinlog.state.ledger import latest_or_empty
from twinlog.state.mm2_topics import read_syncs
from twinlog.state.progress import read_progress
from twinlog.topics.discovery import DiscoveredTopic, Discovery


def require_taken_over(flow: FlowSettings, clusters: Clusters, discovery: Discovery) -> None:
    """Look for MirrorMaker 2 before a flow's first fence.

    Raises TerminalError `mm2-running` if workers of its dedicated mode run the flow's connector, and `mm2-copied` if
    its offset-syncs name a partition whose copy holds records, of which nobody knows how far they go.  Where a cluster
    does not let us ask, nothing is known, and nothing is refused.
    """
    known = latest_or_empty(clusters.target, flow.ledger_topic)
    if discovery.stands_by or flow.homes is not None or next(iter(of_kind(known, LaneFence)), None):
        return
    if tasks := _tasks(flow, clusters):
        raise TerminalError(
            f"MirrorMaker copies {flow.name}: its workers of {flow.worker_group} run {tasks} task(s) of"
            f" {flow.connector_name}",
            hint="stop it; then `twinlog migrate takeover` goes on behind the last record that it has copied",
            code="mm2-running",
            flow=flow.name,
        )
    filled = [at for topic in discovery.ready_topics for at in _filled(flow, topic)]
    progress = read_progress(flow, clusters.target) if filled else {}
    unknown = [(at, copy) for at, copy in filled if at not in progress]
    synced = _synced(flow, clusters) if unknown else frozenset()
    for at, copy in unknown:
        if at in synced:
            raise TerminalError(
                f"MirrorMaker has copied {flow.name}: its offset-syncs name {at.topic}-{at.partition}, and"
                f" {copy.topic}-{copy.partition} holds records; {flow.offsets_topic} does not say how far they go",
                hint="`twinlog migrate takeover` goes on behind them (--offsets-topic and --connector for a Connect"
                " cluster's); or delete the copies: then everything is copied from its beginning",
                code="mm2-copied",
                flow=flow.name,
                topic=at.topic,
                partition=at.partition,
            )


def _tasks(flow: FlowSettings, clusters: Clusters) -> int:
    try:
        return clusters.target.connect_workers(flow.worker_group).tasks.get(flow.connector_name, 0)
    except (ClusterRefused, FormatError):
        return 0


def _filled(flow: FlowSettings, topic: DiscoveredTopic) -> list[tuple[TopicPartition, TopicPartition]]:
    """Return the partitions whose copies hold records, with these copies; heartbeats do not matter."""
    if flow.policy.is_heartbeats_topic(topic.topic):
        return []
    return [
        (topic.at_source(partition.partition), topic.at_target(partition.partition))
        for partition in topic.partitions
        if partition.target is not None and partition.target.log_start < partition.target.end
    ]


def _synced(flow: FlowSettings, clusters: Clusters) -> frozenset[TopicPartition]:
    try:
        return frozenset(TopicPartition(sync.topic, sync.partition) for sync in read_syncs(flow, clusters))
    except ClusterRefused:
        return frozenset()
