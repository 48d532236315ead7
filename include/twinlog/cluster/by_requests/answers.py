"""Make what confluent-kafka returns, of the parts of an answer to a request of our own.  Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Node, TopicPartitionInfo, Uuid
from confluent_kafka import admin as kafka_admin

from twinlog.protocol.errors import Request, repeats


def future(code: int, said: str | None = None, value: Any = None) -> Future[Any]:
    """Return a future that is done: with the broker's error, or with the value if there is none."""
    done: Future[Any] = Future()
    if code:
        done.set_exception(
            KafkaException(KafkaError(code, said or None, False, repeats(Request.LOOK_UP, code)))
        )
    else:
        done.set_result(value)
    return done


def operations(codes: Iterable[int] | None) -> list[kafka_admin.AclOperation]:
    """Return what the user may do, by the numbers that a broker lists; nothing if it lists none."""
    return [kafka_admin.AclOperation(code) for code in codes or ()]


def topic_description(topic: Any, nodes: dict[int, Node]) -> kafka_admin.TopicDescription:
    """Return a topic as Metadata describes it; a leader or replica that is down has no address."""

    def at(node: int) -> Node:
        return nodes.get(node) or Node(node, "", -1)

    partitions = [
        TopicPartitionInfo(
            partition.partition_index,
            at(partition.leader_id) if partition.leader_id >= 0 else None,
            [at(node) for node in partition.replica_nodes],
            [at(node) for node in partition.isr_nodes],
        )
        for partition in topic.partitions
    ]
    topic_id = Uuid(*struct.unpack(">qq", topic.topic_id.bytes)) if topic.topic_id else Uuid(0, 0)
    allowed = operations(topic.authorized_operations)
    return kafka_admin.TopicDescription(topic.name, topic_id, topic.is_internal, partitions, allowed)


def config_entry(it: Any) -> kafka_admin.ConfigEntry:
    """Return a setting as DescribeConfigs tells it."""
    return kafka_admin.ConfigEntry(
        it.name, it.value, it.config_source, is_read_only=it.read_only, is_sensitive=it.is_sensitive
    )
