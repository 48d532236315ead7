"""Read how much disk a cluster's brokers have left, and how large logs are there (KIP-113, KIP-827)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.cluster.values import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.error_codes import error_for


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The disks and logs of all brokers together.

    `sizes` is the largest replica of each partition, in bytes. `free_percent` is that of the fullest disk, None if
    brokers do not tell (before 3.3).
    """

    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    free_percent: float | None = None


def log_dirs(brokers: Brokers) -> LogDirs:
    """Ask every broker for its log directories.

    Raises ClusterRefused (this needs DESCRIBE on the cluster), TransientError.
    """
    sizes: dict[TopicPartition, int] = {}
    free: list[float] = []
    for connection in brokers.all_brokers():
        answer = connection.call(kafka_python.DESCRIBE_LOG_DIRS, topics=None)
        if getattr(answer, "error_code", 0):
            raise error_for(answer.error_code, "the question for its disks", brokers.settings.alias)
        for folder in answer.results:
            for topic in folder.topics:
                for it in topic.partitions:
                    at = TopicPartition(topic.name, it.partition_index)
                    sizes[at] = max(sizes.get(at, 0), it.partition_size)
            total, usable = getattr(folder, "total_bytes", -1), getattr(folder, "usable_bytes", -1)
            if total > 0 and usable >= 0:
                free.append(100 * usable / total)
    return LogDirs(sizes, min(free, default=None))
