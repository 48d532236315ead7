"""Read with a cloned group as an application would: join it on the target, and take the first record of each partition.

Nothing is committed: the clone stands where it was placed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ClientPartition

from twinlog.cluster.few_records import FETCH_BYTES
from twinlog.cluster.records import client_properties
from twinlog.cluster.refusals import Asked, refusal
from twinlog.config.security.connection import ClusterSettings
from twinlog.config.security.librdkafka import connection_of
from twinlog.drill import joining
from twinlog.drill.joining import SESSION_SECONDS, First
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.protocol.brokers import Brokers

READ_SECONDS = 30.0
"""The longest that one clone waits for its first records."""

_POLL_SECONDS = 0.1
_SAID_OF_A_PARTITION = frozenset({KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET})


Reader = Callable[[str, Collection[TopicPartition]], Mapping[TopicPartition, First]]
"""Reads the first records of partitions with a group; a partition where nothing was met in time is left out."""


def reader(cluster: ClusterSettings) -> Reader:
    """Return a reader that joins groups of a cluster, with the login of the flow."""
    connection = connection_of(cluster, "consumer")
    if connection.sasl is None or connection.sasl.kerberos is None:
        return lambda group, places: first_records(cluster, group, places)

    def by_requests(group: str, places: Collection[TopicPartition]) -> Mapping[TopicPartition, First]:
        with Brokers(connection) as brokers:
            return joining.first_records(brokers, group, places)

    return by_requests


def first_records(
    cluster: ClusterSettings, group: str, places: Collection[TopicPartition]
) -> Mapping[TopicPartition, First]:
    """Read the first record at or after the group's position in each of its partitions.

    Raises the refusal of the cluster, such as ClusterRefused without READ on the group.
    """
    asked = Asked(cluster.alias, "read with", f"group {group}", f"READ on group {group} and on its topics")
    found: dict[TopicPartition, First] = {}
    began = time.monotonic()
    consumer = Consumer(_properties(cluster, group))
    try:
        consumer.subscribe(sorted({place.topic for place in places}))
        while len(found) < len(places) and time.monotonic() < began + READ_SECONDS:
            for message in consumer.consume(num_messages=500, timeout=_POLL_SECONDS):
                for at in _of_a_partition(message, asked):
                    if at in places and at not in found:
                        found[at] = _first(message, time.monotonic() - began)
                        consumer.pause([ClientPartition(*at)])
    except KafkaException as failure:
        raise refusal(failure.args[0], asked) from failure
    finally:
        consumer.close()
    return found


def _of_a_partition(message: Message, asked: Asked) -> Iterator[TopicPartition]:
    """Yield the partition of a message, if it is about one; raise the refusal that it is otherwise."""
    error = message.error()
    if error is not None and error.code() not in _SAID_OF_A_PARTITION:
        raise refusal(error, asked)
    topic, partition = message.topic(), message.partition()
    if topic is not None and partition is not None:
        yield TopicPartition(topic, partition)


def _first(message: Message, seconds: float) -> First:
    error, taken = message.error(), round(seconds, 3)
    if error is not None:
        ended = error.code() == KafkaError._PARTITION_EOF
        return First(None, taken, "" if ended else error.str())
    kind, timestamp = message.timestamp()
    offset = message.offset()
    assert offset is not None  # a record has one
    return First(ReadRecord(offset, timestamp if kind else -1, message.key(), message.value()), taken)


def _properties(cluster: ClusterSettings, group: str) -> dict[str, Any]:
    return {
        **client_properties(cluster, "consumer"),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
        "fetch.message.max.bytes": FETCH_BYTES,
        "session.timeout.ms": SESSION_SECONDS * 1000,
        "log_level": 0,
    }
