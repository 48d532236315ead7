"""`twinlog run` as people start it: a process of its own, real brokers, a real Spark session."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from lab import create_topic
from twinlog.lab.kafka.broker import EmbeddedKafka

pytestmark = [pytest.mark.integration, pytest.mark.spark]


def _twinlog(*words: str) -> tuple[int, dict[str, Any], str]:
    program = "import sys; from twinlog.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program, *words, "--output", "json"],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    return done.returncode, json.loads(done.stdout), done.stderr


def _produce(cluster: EmbeddedKafka, topic: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, str(value).encode(), partition=value % 2)
    producer.flush()


def _values(cluster: EmbeddedKafka, topic: str, count: int) -> list[list[int]]:
    """Values by partition, in order; reads a little further than `count` to find what should not be there."""
    consumer = Consumer({
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "reader",
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    })
    consumer.assign([TopicPartition(topic, partition, 0) for partition in (0, 1)])
    found: list[list[int]] = [[], []]
    while batch := consumer.consume(count + 1, timeout=3):
        for record in batch:
            if record.error() is None:
                found[record.partition()].append(int(record.value()))
    consumer.close()
    return found


def _flow_of(topic: str, source: EmbeddedKafka, target: EmbeddedKafka, folder: Path) -> Path:
    """Make a topic of two partitions, and the file of a flow of it."""
    create_topic(source, topic, 2)
    file = folder / "mm2.properties"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {source.bootstrap_servers}\n"
        f"B.bootstrap.servers = {target.bootstrap_servers}\nA->B.enabled = true\nA->B.topics = {topic}\n"
        "A->B.heartbeats.replication.enabled = false\nreplication.factor = 1\n"
    )
    return file


def test_cycles_copy_everything_once(
    cluster_a: EmbeddedKafka, cluster_b: EmbeddedKafka, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The first run copies all, following what came since; stdout is one JSON document."""
    topic = unique_topic("run")
    file = _flow_of(topic, cluster_a, cluster_b, tmp_path)
    _produce(cluster_a, topic, range(1000))

    code, report, err = _twinlog("run", "--once", "--config", str(file))
    (flow,) = report["flows"]
    assert (code, flow["state"], flow["records"], flow["failures"]) == (0, "done", 1000, []), err
    assert [it["last_upstream_offset"] for it in flow["topics"][0]["partitions"]] == [499, 499]
    assert "Traceback" not in err

    _produce(cluster_a, topic, range(1000, 1500))
    code, report, err = _twinlog("run", "--for", "5s", "--config", str(file), "--master", "local[1]")
    (flow,) = report["flows"]
    assert (code, flow["state"], flow["records"], flow["windows"] > 0) == (0, "done", 500, True), err

    code, report, _ = _twinlog("status", "--config", str(file))
    assert (code, report["flows"][0]["lag_records"]) == (0, 0)
    assert _values(cluster_b, f"A.{topic}", 1500) == [list(range(0, 1500, 2)), list(range(1, 1500, 2))]


def test_a_followed_flow_ends_in_order_on_ctrl_c(
    cluster_a: EmbeddedKafka, cluster_b: EmbeddedKafka, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """The report says what was copied, and no open transaction is left behind for readers to wait for."""
    topic = unique_topic("ctrlc")
    file = _flow_of(topic, cluster_a, cluster_b, tmp_path)
    command = [sys.executable, "-m", "twinlog.cli.main", "run", "--for", "10m", "--config", str(file)]
    with subprocess.Popen([*command, "--output", "json"], stdout=subprocess.PIPE, text=True) as running:
        _produce(cluster_a, topic, range(100))
        deadline = time.monotonic() + 180
        while sum(map(len, _values(cluster_b, f"A.{topic}", 100))) < 100 and time.monotonic() < deadline:
            time.sleep(1)
        running.send_signal(signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    (flow,) = json.loads(out)["flows"]
    assert (0, "done", 100, []) == (running.returncode, flow["state"], flow["records"], flow["failures"])
    assert _values(cluster_b, f"A.{topic}", 100) == [list(range(0, 100, 2)), list(range(1, 100, 2))]


@pytest.mark.long
def test_a_followed_flow_whose_spark_dies_says_so_and_what_is_copied(
    cluster_a: EmbeddedKafka, cluster_b: EmbeddedKafka, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Exit 3 as for whatever may go away by itself, with a report, though the JVM cannot even be stopped any more."""
    topic = unique_topic("jvm")
    file = _flow_of(topic, cluster_a, cluster_b, tmp_path)
    command = [sys.executable, "-m", "twinlog.cli.main", "run", "--for", "10m", "--config", str(file)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "--output", "json"], **pipes) as running:
        _produce(cluster_a, topic, range(100))
        deadline = time.monotonic() + 180
        while sum(map(len, _values(cluster_b, f"A.{topic}", 100))) < 100 and time.monotonic() < deadline:
            time.sleep(1)
        for child in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "java":
                os.kill(int(child), signal.SIGKILL)
        try:
            out, err = running.communicate(timeout=120)
        finally:
            running.kill()  # or leaving the context would wait for its ten minutes
    (flow,) = json.loads(out)["flows"]
    assert (3, "failed", None) == (running.returncode, flow["state"], flow["error"]), err
    assert "tasks-died" in [it["code"] for it in flow["failures"]]
    assert [49, 49] == [it["last_upstream_offset"] for it in flow["topics"][0]["partitions"]]
    assert "A->B: not everything was copied: the Spark job of A->B failed: " in err
