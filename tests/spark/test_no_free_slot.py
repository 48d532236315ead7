"""A process that finds no free slot says so: what follows goes on when one is free, a cycle gives up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, produce, read
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.errors import ExitCode
from twinlog.lifecycle import sync_topics

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.long]

FLOWS = ["A->B", "X->B"]
RECORDS = [Seen(b"%d" % n, b"v" * 200, 1_700_000_000_000 + n) for n in range(3000)]
SOONER = """
import sys
from twinlog.cli.main import main
from twinlog.spark import slots
slots.FIRST_WORD_SECONDS, slots.NO_SLOT_SECONDS = 5.0, 10.0
sys.exit(main(sys.argv[1:]))
"""
"""`twinlog`, whose two minutes are ten seconds."""


@dataclass
class Process:
    """A run of twinlog, and the lines that it says."""

    popen: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def says(self, words: str) -> bool:
        return any(words in line for line in self.lines)

    def end(self) -> list[dict[str, Any]]:
        """End it as Ctrl-C does; its flows."""
        self.popen.send_signal(signal.SIGINT)
        return self.flows()

    def flows(self, exit_code: int = 0) -> list[dict[str, Any]]:
        assert self.popen.stdout is not None
        out = self.popen.stdout.read()
        assert exit_code == self.popen.wait(120), "".join(self.lines)
        flows: list[dict[str, Any]] = json.loads(out)["flows"]
        return flows


@contextmanager
def run(*words: str) -> Iterator[Process]:
    """Run twinlog until the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", SOONER, "run", *words, "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    ) as popen:
        process = Process(popen)
        reading = threading.Thread(target=lambda: process.lines.extend(popen.stderr or ()))
        reading.start()
        try:
            yield process
        finally:
            if popen.poll() is None:
                os.killpg(popen.pid, signal.SIGKILL)  # its JVM, too
            reading.join(30)


def wait_for(happened: Callable[[], bool], *processes: Process) -> None:
    deadline = time.monotonic() + 400
    while not happened():
        assert time.monotonic() < deadline, "".join(line for it in processes for line in it.lines)
        time.sleep(1)


@pytest.mark.parametrize("connect", [False, True], ids=["standalone", "connect"])
def test_a_cycle_without_executors_gives_up(
    connect: bool,
    standalone: Callable[..., Any],
    connect_anywhere: Callable[[str], str],
    cluster_a: Any,
    cluster_b: Any,
    tmp_path: Path,
) -> None:
    """The only worker is gone: one line says so, and what to do, instead of a wait for ever."""
    config = configure(tmp_path, {"A": cluster_a, "B": cluster_b}, FLOWS[:1])
    spark = standalone(1, 1, executor__memory="512m", driver__host="127.0.0.1")
    os.killpg(spark.workers[0].pid, signal.SIGKILL)
    master = connect_anywhere(spark.url) if connect else spark.url
    with run("--once", "--config", str(config), "--master", master) as cycle:
        (flow,) = cycle.flows(ExitCode.CLUSTER)
        assert cycle.says("0 are free; the run waits for one")
    assert "no-slot" == flow["error"]["code"]


def test_a_process_without_a_slot_waits(
    standalone: Callable[..., Any],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """It is told that no slot is free, and copies when the other one has ended; more flows than slots are refused."""
    topic = create_topic(cluster_a, unique_topic("slots"), 1)
    config = configure(
        tmp_path,
        {"A": cluster_a, "X": cluster_a, "B": cluster_b},
        FLOWS,
        topics=topic,
        twinlog__follow__seconds="5",
        heartbeats__replication__enabled="false",
    )
    for flow in map(load(config).flows.get, FLOWS):
        assert flow is not None
        with open_clusters(flow) as clusters:
            sync_topics.run(flow, clusters)
    produce(cluster_a, topic, RECORDS)
    spark = standalone(
        1, 1, executor__memory="512m", driver__host="127.0.0.1", driver__bindAddress="127.0.0.1"
    )
    place = ["--config", str(config), "--master", spark.url]
    with run("--for", "1m", *place) as both:
        wait_for(lambda: both.popen.poll() is not None, both)
        assert 2 == both.popen.returncode
        assert both.says("2 flows cannot be followed with 1 Spark slots")
    with run("--for", "10m", *place, "--flow", FLOWS[0]) as first:
        wait_for(lambda: len(read(cluster_b, f"A.{topic}", 0)) == len(RECORDS), first)
        with run("--for", "10m", *place, "--flow", FLOWS[1]) as second:
            wait_for(lambda: second.says("no free slot: "), first, second)
            assert second.says(f"{spark.url}: 1 slot is wanted, 0 are free; the run waits for one")
            first.end()
            wait_for(lambda: len(read(cluster_b, f"X.{topic}", 0)) == len(RECORDS), second)
            second.end()
    assert second.says("has a free slot after")
    assert [RECORDS] * 2 == [read(cluster_b, f"{flow[0]}.{topic}", 0) for flow in FLOWS]
