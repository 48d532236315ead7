"""Ask one broker with ListOffsets where logs begin and end, and where the first record at or after a time lies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from twinlog.protocol import kafka_python
from twinlog.protocol.socket.connection import Connection

EARLIEST = -2
LATEST = -1
"""Special timestamps of ListOffsets."""


def list_offsets(
    connection: Connection, partitions: Iterable[tuple[str, int]], timestamp: int, *, read_committed: bool
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """Ask the leader of some partitions for one offset each; return those, and error codes for the others."""
    request = kafka_python.LIST_OFFSETS.request
    by_topic: dict[str, list[Any]] = {}
    for topic, partition in partitions:
        entry = request.ListOffsetsTopic.ListOffsetsPartition(
            partition_index=partition, current_leader_epoch=-1, timestamp=timestamp
        )
        by_topic.setdefault(topic, []).append(entry)
    topics = [request.ListOffsetsTopic(name=name, partitions=items) for name, items in by_topic.items()]
    answer = connection.call(
        kafka_python.LIST_OFFSETS, replica_id=-1, isolation_level=int(read_committed), topics=topics
    )
    found, refused = {}, {}
    for topic in answer.topics:
        for item in topic.partitions:
            if item.error_code:
                refused[topic.name, item.partition_index] = int(item.error_code)
            else:
                found[topic.name, item.partition_index] = int(item.offset)
    return found, refused
