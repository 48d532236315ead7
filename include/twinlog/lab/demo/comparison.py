"""Read both sides of a topic record by record: the demo's own proof, made with ordinary clients.

It shares no code with the copy, on purpose.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from twinlog.errors import ClusterUnreachable

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

CHUNK = 10_000
POLL_S = 0.2
SILENCE_S = 15.0
NOTHING = "no record on either side"
"""The result for a topic of which nothing was compared: it is not equal."""


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """Everything of a record that a consumer can see and a copy must keep, so without its offset."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: tuple[int, int]


PartitionRecords = Mapping[int, Sequence[SeenRecord]]


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """The comparison of one topic.  `difference` is empty if every record is equal, in order."""

    topic: str
    remote_topic: str
    source_records: int
    target_records: int
    difference: str = ""

    @property
    def equal(self) -> bool:
        """Say whether every record of every partition is equal."""
        return not self.difference


def compare_topic(source: str, target: str, topic: str, remote_topic: str) -> TopicComparison:
    """Read `topic` at bootstrap `source` and `remote_topic` at `target`, and compare them in order.

    Reads committed records only, all of a topic into memory.  Raises ClusterUnreachable if a side stops answering.
    """
    theirs, ours = read_topic(source, topic), read_topic(target, remote_topic)
    return TopicComparison(
        topic,
        remote_topic,
        sum(map(len, theirs.values())),
        sum(map(len, ours.values())),
        find_difference(theirs, ours),
    )


def find_difference(theirs: PartitionRecords, ours: PartitionRecords) -> str:
    """Return the first difference between source and target in words, "" if there is none.

    If neither side holds a record, that is reported, too: then nothing was compared.
    """
    if theirs.keys() != ours.keys():
        return f"{len(theirs)} partitions, {len(ours)} on the target"
    for partition in sorted(theirs):
        for position, (left, right) in enumerate(zip_longest(theirs[partition], ours[partition])):
            if left != right:
                return f"partition {partition}, record {position}: {_name_difference(left, right)}"
    return "" if any(theirs.values()) else NOTHING


def _name_difference(left: SeenRecord | None, right: SeenRecord | None) -> str:
    if left is None or right is None:
        return "extra on the target" if left is None else "missing on the target"
    fields = ("key", "value", "headers", "timestamp")
    return ", ".join(name for name in fields if getattr(left, name) != getattr(right, name)) + " differs"


def count_records(bootstrap: str, topic: str) -> int:
    """Count the committed records of a topic by reading them."""
    return sum(map(len, read_topic(bootstrap, topic).values()))


def read_topic(bootstrap: str, topic: str) -> PartitionRecords:
    """Return the committed records of every partition, first to last; empty if there is no such topic."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    records: dict[int, list[SeenRecord]] = {number: [] for number in range(_partitions(bootstrap, topic))}
    consumer = Consumer({
        "bootstrap.servers": bootstrap,
        "group.id": "twinlog-demo-comparison",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "log_level": 0,
    })
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in records])
        _read_to_the_end(consumer, records, f"{bootstrap}: {topic}")
    finally:
        consumer.close()
    return records


def _read_to_the_end(consumer: Consumer, records: dict[int, list[SeenRecord]], what: str) -> None:
    from confluent_kafka import KafkaError

    unfinished = set(records)
    heard = time.monotonic()
    while unfinished:
        messages = consumer.consume(CHUNK, timeout=POLL_S)
        if messages:
            heard = time.monotonic()
        elif time.monotonic() - heard > SILENCE_S:
            raise ClusterUnreachable(f"{what} stopped answering")
        for message in messages:
            error, partition = message.error(), message.partition()
            if error is None and partition is not None:
                records[partition].append(_seen(message))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF and partition is not None:
                unfinished.discard(partition)
            else:
                raise ClusterUnreachable(f"{what}: {error}")


def _partitions(bootstrap: str, topic: str) -> int:
    """Return the number of partitions of a topic, 0 if there is no such topic."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        known = admin.list_topics(timeout=SILENCE_S).topics
    except KafkaException as error:
        raise ClusterUnreachable(f"{bootstrap} does not answer: {error}") from error
    return len(known[topic].partitions) if topic in known else 0


def _seen(message: Message) -> SeenRecord:
    headers: Any = message.headers() or ()
    return SeenRecord(
        message.key(), message.value(), tuple((name, value) for name, value in headers), message.timestamp()
    )
