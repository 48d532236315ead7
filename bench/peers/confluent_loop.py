"""A relay of records from one Kafka cluster to another with confluent-kafka: consume, produce, flush, commit.

    python -m bench.peers.confluent_loop --source A:9092 --target B:9092 --topics '^orders' --prefix A. --group relay

It reads what is committed as a consumer group, with one process a core since a Python process keeps one busy.  It
writes each record, with its partition, key, value, headers and timestamp, to the topic of the same name with a prefix.
At least once: a round's offsets are committed when all of its records have been acknowledged.  Topics of the target
must exist.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
from multiprocessing.connection import wait

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

ROUND = 20_000
"""Records of a round at most: enough that the wait for its last acknowledgements is little of it."""

PAUSE_MS = 600_000
"""The benchmark pauses the relay while it fills topics: that must be no reason to leave the group."""

# Tuned for throughput: much is fetched ahead, as librdkafka's own benchmark does.  Batches are of 1 MB by default.
CONSUMER = {
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "partition.assignment.strategy": "roundrobin",
    "max.partition.fetch.bytes": 8 << 20,
    "queued.min.messages": 1_000_000,
    "session.timeout.ms": PAUSE_MS,
    "max.poll.interval.ms": PAUSE_MS,
}
PRODUCER = {
    "enable.idempotence": True,
    "linger.ms": 20,
    "delivery.report.only.error": True,
}


def main() -> None:
    """Copy with a process a core until SIGTERM; when one of them dies, end the others and exit with 1."""
    given = arguments()
    context = multiprocessing.get_context("spawn")
    tasks = [context.Process(target=relay, args=(given,), daemon=True) for _ in range(given.tasks)]
    for task in tasks:
        task.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        wait([task.sentinel for task in tasks])
        sys.exit("a task has died: its error is above")
    finally:
        for task in tasks:
            task.terminate()
        for task in tasks:
            task.join(10)


def relay(given: argparse.Namespace) -> None:
    """Copy round by round until SIGTERM.  Raises KafkaException if a record cannot be read or written."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    refused: list[KafkaError] = []
    consumer = Consumer(CONSUMER | cluster(given.source, given.source_ca) | {"group.id": given.group})
    producer = Producer(
        PRODUCER
        | cluster(given.target, given.target_ca)
        | {"on_delivery": lambda error, _: refused.append(error)}
    )
    consumer.subscribe([given.topics])
    try:
        while True:
            messages = consumer.consume(ROUND, timeout=0.1)
            if not messages:
                continue
            pass_on(messages, producer, given.prefix)
            producer.flush()
            if refused:
                raise KafkaException(refused[0])
            consumer.commit(asynchronous=True)
    finally:
        consumer.close()


def cluster(servers: str, ca: str | None) -> dict[str, str]:
    """Return the settings to reach a cluster, over TLS if there is a certificate to trust."""
    found = {"bootstrap.servers": servers}
    return found | {"security.protocol": "SSL", "ssl.ca.location": ca} if ca else found


def pass_on(messages: list[Message], producer: Producer, prefix: str) -> None:
    """Hand all records to the producer, as they are but for the topic."""
    names: dict[str, str] = {}
    produce = producer.produce
    for message in messages:
        if (error := message.error()) is not None:
            raise KafkaException(error)
        topic = message.topic()
        remote = names.get(topic) or names.setdefault(topic, prefix + topic)
        while True:
            try:
                produce(
                    remote,
                    message.value(),
                    message.key(),
                    message.partition(),
                    timestamp=message.timestamp()[1],
                    headers=message.headers(),
                )
                break
            except BufferError:  # as many bytes wait as may
                producer.poll(0.1)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", required=True, help="bootstrap servers to read from")
    parser.add_argument("--target", required=True, help="bootstrap servers to write to")
    parser.add_argument("--source-ca", help="PEM file to trust; the source is then read over TLS")
    parser.add_argument("--target-ca", help="the same for the target")
    parser.add_argument("--topics", required=True, help="regular expression of the topics to copy, from ^")
    parser.add_argument("--prefix", required=True, help="what the names of the copies begin with")
    parser.add_argument("--group", required=True, help="consumer group that holds the progress")
    parser.add_argument("--tasks", type=int, default=os.cpu_count(), help="processes; default: one a core")
    return parser.parse_args()


if __name__ == "__main__":
    main()
