"""How many bytes each partition's log holds on its leader (DescribeLogDirs, KIP-113)."""

from __future__ import annotations

from collections.abc import Iterable

from twinlog.errors import TwinlogError
from twinlog.relay import kafka_python
from twinlog.relay.brokers import Brokers, TopicPartition


def log_bytes(brokers: Brokers, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Ask every leader for the size of its logs, in bytes as on disk.

    Empty where the user may not ask (it needs DESCRIBE on the cluster) or a broker does not answer: sizes only
    serve the packing of lanes, and nothing may fail for want of them.
    """
    wanted = set(partitions)
    found: dict[TopicPartition, int] = {}
    try:
        brokers.metadata({topic for topic, _ in wanted})
        for node, group in brokers.by_leader(wanted).items():
            found |= _sizes_on(brokers, node, group)
    except TwinlogError:
        return {}
    return found


def _sizes_on(brokers: Brokers, node: int, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    request = kafka_python.DESCRIBE_LOG_DIRS.request
    answer = brokers.node(node, "coordinate").call(
        kafka_python.DESCRIBE_LOG_DIRS,
        topics=[
            request.DescribableLogDirTopic(topic=name, partitions=numbers) for name, numbers in topics.items()
        ],
    )
    return {
        (topic.name, item.partition_index): int(item.partition_size)
        for folder in answer.results
        if not folder.error_code
        for topic in folder.topics
        for item in topic.partitions
        if not item.is_future_key
    }
