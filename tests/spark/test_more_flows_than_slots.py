"""More flows than slots: flows of one process take turns, and a process without a slot says so and goes on later.

Costs two minutes on two idle cores.
"""

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
from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.lifecycle import sync_topics

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.long]

FLOWS = ["A->B", "X->B", "Y->B", "Z->B"]
LATER = "Z->B"
RECORDS = [Seen(b"%d" % n, b"v" * 200, 1_700_000_000_000 + n) for n in range(3000)]
SOONER = """
import sys
from twinlog.cli.main import main
from twinlog.spark import slots
slots.FIRST_WORD_SECONDS, slots.NO_SLOT_SECONDS = 5.0, 10.0
sys.exit(main(sys.argv[1:]))
"""
"""`twinlog`, whose ten minutes are ten seconds."""


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

    def flows(self) -> list[dict[str, Any]]:
        assert self.popen.stdout is not None
        out = self.popen.stdout.read()
        assert 0 == self.popen.wait(120), "".join(self.lines)
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


@dataclass(frozen=True)
class World:
    """Four flows that copy one topic of A to four of B; three of them are followed together."""

    source: Any
    target: Any
    topic: str
    config: Path

    @property
    def together(self) -> list[str]:
        """The words that name the three."""
        return [word for flow in FLOWS if flow != LATER for word in ("--flow", flow)]

    def copied(self, flow: str) -> list[Seen]:
        return read(self.target, f"{flow[0]}.{self.topic}", 0)

    def write(self, begin: int, end: int) -> None:
        produce(self.source, self.topic, RECORDS[begin:end])

    def wait_for(self, count: int, *processes: Process) -> None:
        """Wait until each of the three has copied so many records."""
        for flow in FLOWS[:3]:
            wait_for(lambda flow=flow: len(self.copied(flow)) >= count, *processes)  # type: ignore[misc]


@pytest.fixture
def world(cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path) -> World:
    topic = create_topic(cluster_a, unique_topic("turns"), 1)
    config = configure(
        tmp_path,
        {alias: cluster_b if alias == "B" else cluster_a for alias in "AXYZB"},
        FLOWS,
        topics=topic,
        twinlog__follow__seconds="5",
        heartbeats__replication__enabled="false",
    )
    for flow in map(load(config).flows.get, FLOWS):
        assert flow is not None
        with open_clusters(flow) as clusters:
            sync_topics.run(flow, clusters)
    return World(cluster_a, cluster_b, topic, config)


TOLD = "3 slots are wanted at least, one for each flow, and 2 are there: the flows take turns"


def test_flows_take_turns_and_a_process_without_a_slot_waits(
    standalone: Callable[..., Any], world: World
) -> None:
    """Two slots, three flows in one process: each copies what is written, again and again, and each record once.

    Another process is told that no slot is free, and copies when the first one has ended.
    """
    spark = standalone(
        1, 2, executor__memory="512m", driver__host="127.0.0.1", driver__bindAddress="127.0.0.1"
    )
    place = ["--config", str(world.config), "--master", spark.url]
    with run("--for", "10m", *place, *world.together) as first:
        for end in (1000, 2000):
            world.write(end - 1000, end)
            world.wait_for(end, first)
        assert first.says(TOLD)
        with run("--once", *place, "--flow", LATER) as second:
            wait_for(lambda: second.says("no free slot: "), first, second)
            assert second.says(f"{spark.url}: 1 slot is wanted, 0 are free; the run waits for one")
            world.write(2000, 3000)
            world.wait_for(3000, first, second)
            states = {it["flow"]: it["records"] for it in first.end()}
            (later,) = second.flows()
    assert dict.fromkeys(FLOWS[:3], 3000) == states, "".join(first.lines)
    assert (LATER, "done", 3000) == (later["flow"], later["state"], later["records"])
    assert second.says("has a free slot after")
    assert [RECORDS] * 4 == [world.copied(flow) for flow in FLOWS]


def test_flows_take_turns_on_a_connect_server(connect_server: str, world: World) -> None:
    """As on a master of one's own: the server has two slots."""
    place = ["--config", str(world.config), "--master", connect_server]
    with run("--for", "10m", *place, *world.together) as process:
        for end in (1000, 3000):
            world.write(0 if end == 1000 else 1000, end)
            world.wait_for(end, process)
        assert process.says(TOLD)
        states = {it["flow"]: it["records"] for it in process.end()}
    assert dict.fromkeys(FLOWS[:3], 3000) == states, "".join(process.lines)
    assert [RECORDS] * 3 == [world.copied(flow) for flow in FLOWS[:3]]
