"""Ask one broker with DescribeProducers (KIP-664) which producers write to its partitions, and from which offset."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from twinlog.protocol import kafka_python
from twinlog.protocol.socket.connection import Connection

Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer known to a partition; `first_offset` is where its open transaction begins, -1 if it has none."""

    producer_id: int
    producer_epoch: int
    first_offset: int


def tells_producers(connection: Connection) -> bool:
    """Say whether the broker supports the request: Kafka before 2.8 does not."""
    return connection.offers(kafka_python.DESCRIBE_PRODUCERS.request.API_KEY) >= 0


def producer_states(
    connection: Connection, partitions: Iterable[Place]
) -> tuple[dict[Place, tuple[ProducerState, ...]], dict[Place, int]]:
    """Ask the leader of some partitions for their producers; return those, and error codes for the others.

    Requires READ on the topics.
    """
    api = kafka_python.DESCRIBE_PRODUCERS
    names: dict[str, list[int]] = {}
    for topic, partition in partitions:
        names.setdefault(topic, []).append(partition)
    entry: Any = api.request.TopicRequest
    answer = connection.call(
        api, topics=[entry(name=name, partition_indexes=numbers) for name, numbers in names.items()]
    )
    found: dict[Place, tuple[ProducerState, ...]] = {}
    refused: dict[Place, int] = {}
    for topic in answer.topics:
        for item in topic.partitions:
            place = topic.name, item.partition_index
            if item.error_code:
                refused[place] = int(item.error_code)
                continue
            found[place] = tuple(
                ProducerState(
                    int(one.producer_id), int(one.producer_epoch), int(one.current_txn_start_offset)
                )
                for one in item.active_producers
            )
    return found, refused
