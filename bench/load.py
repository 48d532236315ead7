"""The records that are copied, and how many have arrived."""

from __future__ import annotations

import os

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
RECORD_BYTES = 1000


def create_topic(servers: str, topic: str) -> None:
    """Make a topic of four partitions."""
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)


def produce(servers: str, topic: str, count: int) -> None:
    """Write `count` records of 1 KB in batches of up to 256 KB, evenly over the partitions."""
    producer = Producer({
        "bootstrap.servers": servers,
        "linger.ms": 200,
        "batch.size": 256 * 1024,
        "queue.buffering.max.messages": 200_000,
    })
    value = os.urandom(RECORD_BYTES)
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise SystemExit("the records of the benchmark could not be written")


def records_in(servers: str, topic: str) -> int:
    """Offsets between start and end of all partitions, 0 while the topic is not there."""
    reader = Consumer({"bootstrap.servers": servers, "group.id": "bench"})
    try:
        partitions = reader.list_topics(topic, timeout=10).topics[topic].partitions
        edges = [
            reader.get_watermark_offsets(TopicPartition(topic, number), timeout=10) for number in partitions
        ]
    except KafkaException:
        return 0
    finally:
        reader.close()
    return sum(end - start for start, end in edges)
