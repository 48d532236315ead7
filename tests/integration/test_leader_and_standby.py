"""Several `twinlog run --follow` of one flow: one leads, the others go on when it is killed or ends.  Cost: 60 s."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from lab import alter_configs, configure, create_topic
from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.state.seats import LEADER, Member, Role, read_seats

PROCESS = Path(__file__).parent / "follow_process.py"
MOST_SECONDS = 30.0
"""The longest that nothing may be copied when a leader is killed: 6 s on a quiet machine of two cores, 14 s with a load
of 9.  The test fails for what does not go on, not for a slow machine."""


@dataclass
class Traffic:
    """Numbers that are written to the source, and the times at which their copies were there to read."""

    source: object
    target: object
    topic: str
    written: int = 0
    over: threading.Event = field(default_factory=threading.Event)
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    def write(self) -> None:
        producer = Producer({"bootstrap.servers": self.source.bootstrap_servers, "linger.ms": 0})
        while not self.over.wait(0.02):
            producer.produce(self.topic, str(self.written).encode(), partition=0)
            self.written += 1
            producer.poll(0)
        producer.flush()

    def read(self) -> None:
        consumer = Consumer({
            "bootstrap.servers": self.target.bootstrap_servers,
            "group.id": "reader",
            "isolation.level": "read_committed",
        })
        consumer.assign([TopicPartition(f"A.{self.topic}", 0, 0)])
        deadline = None
        while deadline is None or (len(self.arrivals) < self.written and time.monotonic() < deadline):
            record = consumer.poll(0.5)
            if record is not None and record.error() is None:
                self.arrivals.append((time.monotonic(), int(record.value())))
            if deadline is None and self.over.is_set():
                deadline = time.monotonic() + 20
        consumer.close()

    def gap_after(self, moment: float) -> float:
        """Return the longest time between two arrivals that lies, in part at least, in the 15 s after `moment`."""
        times = [at for at, _ in self.arrivals]
        return max(
            later - earlier
            for earlier, later in pairwise(times)
            if later >= moment and earlier <= moment + 15
        )


@contextmanager
def traffic(source, target, topic: str) -> Iterator[Traffic]:
    made = Traffic(source, target, topic)
    threads = [threading.Thread(target=work) for work in (made.write, made.read)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.over.set()
        for thread in threads:
            thread.join()


class TestRunsOfOneFlow:
    """Two processes under traffic."""

    def test_a_killed_or_ended_leader_is_followed(self, cluster_a, cluster_b, unique_topic, tmp_path) -> None:
        """Three leaders are killed and one is ended: 0 lost, 0 doubled, and the other goes on within seconds."""
        topic = create_topic(cluster_a, unique_topic("lead"))
        settings = {
            "A->B.topics": topic,
            "A->B.heartbeats.replication.enabled": "false",
            "sync.topic.configs.interval.seconds": "2",
        }
        file = configure(tmp_path, {"A": cluster_a, "B": cluster_b}, ["A->B"], **settings)
        flow = load(file).flows["A->B"]
        runs: list[subprocess.Popen] = []
        gaps = []

        def start() -> None:
            log = (tmp_path / f"run-{len(runs)}.log").open("w")
            out = (tmp_path / f"run-{len(runs)}.json").open("w")
            command = [sys.executable, str(PROCESS), "run", "--follow", "--config", str(file)]
            runs.append(subprocess.Popen([*command, "--output", "json"], stdout=out, stderr=log))

        def members() -> dict[Role, list[Member]]:
            with open_clusters(flow) as clusters:
                there = [it.member for it in read_seats(flow, clusters.target).values()]
            alive = {it.pid for it in runs if it.poll() is None}
            leading = {it.pid for it in there if it.role is Role.LEADS}
            return {
                Role.LEADS: [it for it in there if it.role is Role.LEADS and it.pid in alive],
                Role.STANDS_BY: [
                    it for it in there if it.role is Role.STANDS_BY and it.pid in alive - leading
                ],
            }

        def until(what: Callable[[], bool]) -> None:
            deadline = time.monotonic() + 40
            while not what():
                assert time.monotonic() < deadline, _logs(tmp_path)
                time.sleep(0.1)

        try:
            start()
            until(lambda: bool(cluster_b) and _has_topic(cluster_b, f"A.{topic}"))
            with traffic(cluster_a, cluster_b, topic) as seen:
                start()
                for _ in range(3):
                    until(lambda: bool(members()[Role.LEADS] and members()[Role.STANDS_BY]))
                    reached = len(seen.arrivals)
                    until(lambda reached=reached: len(seen.arrivals) > reached + 50)
                    os.kill(members()[Role.LEADS][0].pid, 9)
                    gaps.append(time.monotonic())
                    until(lambda: bool(members()[Role.LEADS]))
                    start()
                until(lambda: bool(members()[Role.LEADS] and members()[Role.STANDS_BY]))
                reached = len(seen.arrivals)
                until(lambda reached=reached: len(seen.arrivals) > reached + 50)
                leader = members()[Role.LEADS][0].pid
                ended = next(it for it in runs if it.pid == leader)
                gaps.append(time.monotonic())
                ended.terminate()
                until(lambda: ended.poll() is not None)
                until(
                    lambda: len([it for it in runs if it.poll() is None]) == 1 and bool(members()[Role.LEADS])
                )
                alter_configs(cluster_a, ResourceType.TOPIC, topic, max_message_bytes="1234567")
                until(lambda: _largest(cluster_b, f"A.{topic}") == "1234567")
                beside = _once(file)
            assert list(range(seen.written)) == [number for _, number in seen.arrivals]
            assert 0 == ended.returncode, _logs(tmp_path)
            last = next(it for it in runs if it.poll() is None)
            last.terminate()
            assert 0 == last.wait(30), _logs(tmp_path)
            *killed, handed_over = [round(seen.gap_after(at), 1) for at in gaps]
            print("gaps", killed, handed_over)
            assert max(killed) < MOST_SECONDS, _logs(tmp_path)
            assert handed_over < min(killed), _logs(tmp_path)
            found = [
                json.loads(path.read_text()) for path in tmp_path.glob("run-*.json") if path.stat().st_size
            ]
            reports = {it["run_id"]: it for document in found for it in document["flows"]}
            assert 2 == len(reports)
            led = reports[beside["left_to"]]
            assert "done" == {it["name"]: it["state"] for it in led["duties"]}["topic_configs"], led["duties"]
            assert ([], 0) == (beside["duties"], beside["records"])
            with open_clusters(flow) as clusters:
                assert Role.GONE is read_seats(flow, clusters.target)[LEADER].member.role
        finally:
            for it in runs:
                it.kill()
                it.wait()


def _once(file: Path) -> dict:
    """Run a cycle beside the process that leads, and return its report."""
    command = [sys.executable, str(PROCESS), "run", "--once", "--config", str(file), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)["flows"][0]


def _largest(cluster, topic: str) -> str | None:
    """Return `max.message.bytes` of a topic."""
    asked = ConfigResource(ResourceType.TOPIC, topic)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return admin.describe_configs([asked])[asked].result()["max.message.bytes"].value


def _has_topic(cluster, name: str) -> bool:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "looks"})
    found = name in consumer.list_topics(timeout=10).topics
    consumer.close()
    return found


def _logs(folder: Path) -> str:
    return "\n".join(f"{path.name}: {path.read_text()}" for path in sorted(folder.glob("run-*")))
