"""A source of three brokers of Kafka 2.4 or 2.0 that dies in parts, while it is written to and copied.

Five minutes a version on a loaded machine.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ElectionType, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from test_source_brokers import Watched, create, followed_until, in_background, leader_of, wait_for

from lab import cycle, flow_of, read
from twinlog.audit import audit
from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TransientError
from twinlog.follow.report import LaneGeneration
from twinlog.lab.kafka.broker import EmbeddedKafka

pytestmark = [pytest.mark.chaos, pytest.mark.integration, pytest.mark.long]

PARTITIONS = range(3)


@pytest.fixture(params=["2.0.1", "2.4.1"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EmbeddedKafka]:
    """Three brokers of long ago behind one ZooKeeper."""
    with EmbeddedKafka("three-old", tmp_path / "kafka", request.param, nodes=3, jvm=()) as cluster:
        yield cluster


@dataclass
class Writer:
    """Writes numbered records to all partitions, acknowledged by all replicas in sync, until told to stop."""

    source: EmbeddedKafka
    topic: str
    acknowledged: Counter[int] = field(default_factory=Counter)
    enough: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        producer = Producer({
            "bootstrap.servers": self.source.bootstrap_servers,
            "enable.idempotence": True,
            "message.timeout.ms": 120_000,
        })
        number = 0
        while not self.enough.is_set():
            for partition in PARTITIONS:
                producer.produce(self.topic, b"%d" % number, partition=partition, on_delivery=self._delivered)
            number += 1
            producer.poll(0)
            self.enough.wait(0.01)
        assert 0 == producer.flush(120)

    def _delivered(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.acknowledged[message.partition()] += 1


def elect_preferred(source: EmbeddedKafka, topic: str) -> None:
    """Give each partition back to its first replica, as brokers do by themselves every five minutes."""
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, it) for it in PARTITIONS]).result(30)


def in_sync(source: EmbeddedKafka, topic: str) -> int:
    """Count replicas in sync, over all partitions."""
    admin = AdminClient({"bootstrap.servers": source.bootstrap_servers})
    try:
        found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    except KafkaException:
        return 0
    return sum(len(it.isrs) for it in found.values())


def tried(flow: FlowSettings) -> str:
    """Run a cycle; a cluster without a controller at this moment cannot be reached, and the next cycle tries again."""
    try:
        return cycle(flow).state
    except TransientError as error:
        return error.code


def end(cluster: Any, topic: str, partition: int) -> int:
    """Return the end of a partition, 0 if there is none yet; it moves too fast to be read up to."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "looks"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)[1])
    except KafkaException:
        return 0
    finally:
        consumer.close()


def test_brokers_die_and_come_back_while_it_is_followed_and_between_cycles(
    source: EmbeddedKafka, cluster_b: Any, tmp_path: Path
) -> None:
    """A leader dies, others lead, it comes back and leads again: no record is lost or doubled, all are equal."""
    topic = create(source, [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas="2")
    alias = f"three{source.version.replace('.', '')}"
    flow = flow_of(tmp_path, source, cluster_b, [topic], alias=alias)
    writer = Writer(source, topic)
    written = in_background(writer.run)
    stop, runner, windows = threading.Event(), Watched(), list[LaneGeneration]()
    runner.slots = 2

    def goes_on() -> None:
        ends = [end(cluster_b, f"{alias}.{topic}", it) for it in PARTITIONS]
        for partition in PARTITIONS:
            enough = ends[partition] + 100
            wait_for(lambda it=partition, enough=enough: end(cluster_b, f"{alias}.{topic}", it) > enough, 90)

    try:
        followed = followed_until(flow, runner, stop, windows)
        try:
            goes_on()
            source.kill(1)
            wait_for(lambda: leader_of(source, topic) != 1)
            goes_on()
            source.start()
            wait_for(lambda: in_sync(source, topic) == 9)
            if source.version != "2.0.1":  # it knows no such request (KIP-460)
                elect_preferred(source, topic)
                wait_for(lambda: leader_of(source, topic) == 1)
            goes_on()
        finally:
            stop.set()
            result = followed()
        assert "done" == result.state, result

        dies = in_background(lambda: source.kill(2))
        states = [tried(flow) for _ in range(4)]
        dies()
        states += [tried(flow) for _ in range(2)]
        back = in_background(source.start)
        states += [tried(flow) for _ in range(4)]
        back()
        assert "done" in states, states
    finally:
        writer.enough.set()
        written()
    assert "done" == cycle(flow).state
    assert "nothing" == cycle(flow).state
    for partition in PARTITIONS:
        values = [it.value for it in read(cluster_b, f"{alias}.{topic}", partition)]
        assert [b"%d" % n for n in range(writer.acknowledged[partition])] == values
        assert read(source, topic, partition) == read(cluster_b, f"{alias}.{topic}", partition)
    with open_clusters(flow) as clusters:
        audited = audit.run(flow, clusters, LocalAuditRunner())
    assert (True, sum(writer.acknowledged.values())) == (audited.equal, audited.compared)
