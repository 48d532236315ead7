"""Prove that producers have stopped: the end offsets of the source's partitions stand still for a while.

Heartbeats do not count: MM2 and twinlog write them whether producers run or not, and the gate's canary is one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers, PartitionOffsets, TopicPartition
from twinlog.config.flow.settings import FlowSettings
from twinlog.monitoring.heartbeats import own_heartbeats
from twinlog.topics.discover import all_partitions, left_out_reason

Ends = Answers[TopicPartition, PartitionOffsets]


def moving_topics(
    flow: FlowSettings, source: ClusterReader, *, sleep: Callable[[float], None] = time.sleep
) -> frozenset[str]:
    """Watch the flow's topics for the configured time; return those that are written to or could not be watched.

    Raises ClusterUnreachable, ClusterRefused.
    """
    names = [name for name in source.topic_names() if left_out_reason(flow, name) is None]
    heartbeat_topics = own_heartbeats(flow, source, names)
    described = source.describe_topics(name for name in names if name not in heartbeat_topics)
    partitions = all_partitions(described.found.values())
    before = source.offsets(partitions)
    sleep(flow.gate.fence_seconds)
    # Of a topic that cannot be described, it is unknown whether it stands still.
    return moved(partitions, before, source.offsets(partitions)) | frozenset(described.refused)


def moved(partitions: Iterable[TopicPartition], before: Ends, after: Ends) -> frozenset[str]:
    """Return the topics whose end offsets differ, that have open transactions, or whose ends are unknown.  Pure."""
    return frozenset(it.topic for it in partitions if not _stood_still(before.found, after.found, it))


def _stood_still(
    before: Mapping[TopicPartition, PartitionOffsets],
    after: Mapping[TopicPartition, PartitionOffsets],
    partition: TopicPartition,
) -> bool:
    first, second = before.get(partition), after.get(partition)
    return first is not None and second is not None and first.end == second.end == second.stable_end
