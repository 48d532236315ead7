"""Compare, when a schedule is over: both sides are what was written, and map and progress agree with the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from traffic import PARTITIONS

from lab import Seen, read_partitions
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.state.progress import read_maps, read_progress


def ends(cluster: Any, topic: str, *, stable: bool = False) -> list[int]:
    """Where a topic's partitions end, or up to where a reader of committed records may read."""
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "twinlog-chaos",
        "isolation.level": "read_committed" if stable else "read_uncommitted",
    })
    try:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return [consumer.get_watermark_offsets(it, timeout=30)[1] for it in places]
    finally:
        consumer.close()


def assert_equal_and_mapped(
    flow: FlowSettings,
    cluster_a: Any,
    cluster_b: Any,
    topic: str,
    written: Mapping[int, Sequence[Seen]],
) -> None:
    """Both sides are what was written, under read_committed, in order; map and progress agree with the log.

    Behind the last record there may be the end of its transaction: progress is there.
    """
    with open_clusters(flow) as clusters:
        maps = {
            life.partition: found
            for life, found in read_maps(flow, clusters.target).items()
            if life.topic == topic
        }
        progress = read_progress(flow, clusters.target)
    upstreams = read_partitions(cluster_a, topic, range(PARTITIONS), seconds=90)
    upstream_ends = ends(cluster_a, topic)
    downstreams = read_partitions(cluster_b, f"A.{topic}", range(PARTITIONS), seconds=90)
    for partition in range(PARTITIONS):
        upstream, downstream = upstreams[partition], downstreams[partition]
        assert upstream, "a schedule without records proves nothing"
        assert written[partition] == [seen for _, seen in upstream]
        assert [seen for _, seen in downstream] == [seen for _, seen in upstream]
        known = maps[partition]
        known.check()
        found = [known.translate(offset) for offset, _ in upstream]
        assert [item.offset for item in found if item] == [offset for offset, _ in downstream]
        assert upstream_ends[partition] - 1 == progress[topic, partition]
