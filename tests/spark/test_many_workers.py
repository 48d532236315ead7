"""A standalone Spark of four workers of one core each: lanes run on all of them, and outlive each of them.

Costs about a minute and a half on two idle cores.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, create_topic, produce, read, with_copies

pytestmark = [pytest.mark.spark, pytest.mark.integration]

PARTITIONS = 8


def records(first: int, end: int) -> list[Seen]:
    return [Seen(b"%d" % n, b"v" * 200, 1_700_000_000_000 + n) for n in range(first, end)]


@pytest.mark.long
def test_a_killed_worker_costs_its_lane_a_pause_and_no_record(
    standalone: Callable[..., Any],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Four lanes on four executors; after the kill, with its Python worker alive as a zombie, three carry on.

    The slots are counted anew: a fourth lane would wait for one as long as the flow is followed.
    """
    spark = standalone(
        4, 1, executor__memory="512m", driver__host="127.0.0.1", driver__bindAddress="127.0.0.1"
    )
    topic = unique_topic("workers")
    create_topic(cluster_a, topic, PARTITIONS)
    config, flow = with_copies(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
        twinlog__lanes="4",
        twinlog__follow__seconds="5",
    )
    command = [sys.executable, "-m", "twinlog", "run", "--for", "10m", "--config", str(config)]
    lines: list[str] = []
    with subprocess.Popen(
        [*command, "--master", spark.url, "--output", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
    ) as running:
        assert running.stderr is not None and running.stdout is not None
        reading = threading.Thread(target=lambda: lines.extend(running.stderr or ()))
        reading.start()
        try:
            written = write(cluster_a, topic, 0)
            wait_for(lambda: copied(cluster_b, topic) == written, lines)
            victim = spark.workers[0]
            os.killpg(victim.pid, signal.SIGKILL)
            written = write(cluster_a, topic, written)
            wait_for(lambda: copied(cluster_b, topic) == written, lines)
        except BaseException:
            os.killpg(running.pid, signal.SIGKILL)  # its JVM, too
            raise
        running.send_signal(signal.SIGINT)
        out = running.stdout.read()
        running.wait(120)
        reading.join(30)
    told = "".join(lines)
    assert 0 == running.returncode, told
    (flow,) = json.loads(out)["flows"]
    assert ("done", PARTITIONS * written) == (flow["state"], flow["records"]), told
    assert "3 lanes instead of 4" in told
    for partition in range(PARTITIONS):
        assert records(0, written) == read(cluster_b, f"A.{topic}", partition)


def write(cluster: Any, topic: str, first: int) -> int:
    """Write a thousand records to each partition, from number `first`; return the next number."""
    for partition in range(PARTITIONS):
        produce(cluster, topic, records(first, first + 1000), partition)
    return first + 1000


def copied(cluster: Any, topic: str) -> int:
    """The number of records in the partition that has the fewest."""
    return min(len(read(cluster, f"A.{topic}", it)) for it in range(PARTITIONS))


def wait_for(happened: Callable[[], bool], lines: list[str]) -> None:
    deadline = time.monotonic() + 180
    while not happened():
        assert time.monotonic() < deadline, "".join(lines)
        time.sleep(1)
