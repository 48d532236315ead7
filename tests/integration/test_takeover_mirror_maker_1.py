"""MirrorMaker 1 to twinlog, with the real one (of Kafka 3.9, the last): each record exactly once on the target.

Costs about a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from test_takeover import check_map, run_cli, some, until_stopped

from lab import committed, create_topic, cycle, produce, read
from twinlog.config.flow.load import load
from twinlog.lab.kafka.jars import OLDER_KAFKA_VERSION, broker_jars, class_path
from twinlog.lab.kafka.java import find_java
from twinlog.lab.kafka.process import JavaProcess

pytestmark = [pytest.mark.mm2, pytest.mark.long]

MAIN = "kafka.tools.MirrorMaker"
PATIENCE_S = 120


def start(folder: Path, consumer: Path, producer: Path, topics: str) -> JavaProcess:
    """Start MM1, which commits every ten seconds."""
    java = (find_java().path, "-Xmx256M", "-cp", class_path(broker_jars(OLDER_KAFKA_VERSION)), MAIN)
    clients = ("--consumer.config", consumer, "--producer.config", producer)
    words = ("--include", topics, "--offset.commit.interval.ms", "10000")
    return JavaProcess((*java, *clients, *words), folder / "mm1.log")


def until(true: Callable[[], bool], process: JavaProcess) -> None:
    """Wait for MM1."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert process.is_running() and time.monotonic() < deadline, process.output()[-3000:]
        time.sleep(0.5)


def end(cluster: Any, topic: str) -> int:
    """Return the end of partition 0, 0 if there is no such topic yet."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "looks"})
    try:
        known = topic in consumer.list_topics(timeout=10).topics
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]) if known else 0
    finally:
        consumer.close()


def test_from_mirror_maker_1(
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Killed between two commits, taken over from its group: nothing lost, doubled, or without a map."""
    topic = create_topic(cluster_a, unique_topic("old"))
    create_topic(cluster_b, topic)
    group = f"mm1-{topic}"
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(
        f"bootstrap.servers={cluster_a.bootstrap_servers}\ngroup.id={group}\nauto.offset.reset=earliest\n"
        "session.timeout.ms=10000\n"
    )
    producer.write_text(f"bootstrap.servers={cluster_b.bootstrap_servers}\nacks=all\n")
    produce(cluster_a, topic, some(0, 200))
    mirror_maker = start(tmp_path, consumer, producer, topic)
    try:
        until(lambda: 200 == committed(cluster_a, group, topic), mirror_maker)
        produce(cluster_a, topic, some(200, 150))
        until(lambda: 350 == end(cluster_b, topic), mirror_maker)

        written = tmp_path / "mm2.properties"
        written.write_text(
            "clusters=A, B\n"
            f"A.bootstrap.servers={cluster_a.bootstrap_servers}\n"
            f"B.bootstrap.servers={cluster_b.bootstrap_servers}\n"
            f"A->B.enabled=true\nA->B.topics={topic}\nreplication.factor=1\n"
            "A->B.replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
            "A->B.emit.heartbeats.enabled=false\nB->A.emit.heartbeats.enabled=false\n"
            "heartbeats.replication.enabled=false\n"
        )
        takeover = ("migrate", "takeover", "--config", str(written), "--source-group", group)
        code, document = run_cli(capsys, *takeover)
        assert (1, "mm2-running") == (code, document["flows"][0]["error"]["code"])
    finally:
        mirror_maker.kill()
    flow = load(written).flows["A->B"]

    code, done = until_stopped(lambda: run_cli(capsys, *takeover))
    assert (0, "done", group) == (code, done["state"], done["source_group"]), done
    [partition] = done["partitions"]
    assert ("proved", 350, 0) == (partition["state"], partition["compared"], partition["duplicates"])
    assert "nothing" == cycle(flow).state, "everything was copied already"
    produce(cluster_a, topic, some(350, 50))
    assert 50 == cycle(flow).records
    assert some(0, 400) == read(cluster_b, topic)
    check_map(flow, cluster_a, cluster_b, topic, topic)
