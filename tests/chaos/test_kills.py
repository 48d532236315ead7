"""Kill the copy midway, again and again: nothing is lost, nothing is doubled.

Every schedule is drawn from a seed that stands in the test's name.  Costs about a minute and a half: a few kills of a
plain driver, each with its start, and one of the Spark job, whose starts are longer.  `make chaos` kills both twenty
times (TWINLOG_KILLS, TWINLOG_SPARK_KILLS).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from checks import assert_equal_and_mapped
from report import PLAYED
from stage import SMALL
from traffic import PARTITIONS, Traffic
from wired import start_driver

from lab import create_topic, with_copies
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.state.progress import read_progress

pytestmark = [pytest.mark.chaos, pytest.mark.integration]

RECORDS = 3_000
LARGEST = 300
"""Bytes of a value."""
KILLS = int(os.environ.get("TWINLOG_KILLS", "6"))
SPARK_KILLS = int(os.environ.get("TWINLOG_SPARK_KILLS", "1"))
JOB = Path(__file__).resolve().parents[2] / "jobs" / "run_step.py"


def kill_midway(driver: subprocess.Popen[str], chance: random.Random) -> bool:
    """Wait until lanes begin, then a little, then kill: the driver alone, so that its lanes live on, or all.

    Return whether it was still copying.
    """
    assert driver.stdout is not None
    line = driver.stdout.readline()
    time.sleep(chance.uniform(0.0, 0.8))
    whole = chance.random() < 0.5
    midway = line == "copying\n" and driver.poll() is None
    if driver.poll() is None:
        (os.killpg if whole else os.kill)(driver.pid, signal.SIGKILL)
    driver.wait()
    return midway and driver.returncode == -signal.SIGKILL


def a_slow_copy(
    tmp_path: Path, cluster_a: Any, cluster_b: Any, topic: str, **lines: str
) -> tuple[Path, FlowSettings]:
    """A flow with tiny transactions and little bandwidth: a copy of a megabyte takes seconds on any machine."""
    create_topic(cluster_a, topic, PARTITIONS)
    config, flow = with_copies(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
        twinlog__bytes__per__second="500000",
        **SMALL,
        **lines,
    )
    return config, flow


def copied_under_kills(config: Path, traffic: Traffic, chance: random.Random) -> None:
    """Write and kill in turn, then let a last driver copy what is left."""
    midway = 0
    for _ in range(KILLS):
        traffic.write(RECORDS)
        midway += kill_midway(start_driver(config), chance)
    last = start_driver(config)
    out, err = last.communicate(timeout=180)
    assert last.returncode == 0, out + err
    assert midway >= KILLS * 3 // 4  # else too few kills fell into a copy to mean something
    PLAYED["killed drivers and lanes"] += KILLS


@pytest.mark.parametrize("seed", [20261121])
def test_kills_of_a_driver_and_its_lanes(
    seed: int, cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Records, progress and map agree after the last run, however often drivers and lanes died before."""
    chance = random.Random(seed)
    topic = unique_topic("kills")
    config, flow = a_slow_copy(tmp_path, cluster_a, cluster_b, topic)
    traffic = Traffic(cluster_a, topic, chance, LARGEST)
    copied_under_kills(config, traffic, chance)
    assert_equal_and_mapped(flow, cluster_a, cluster_b, topic, traffic.written)


@pytest.mark.spark
@pytest.mark.parametrize("seed", [20261122])
def test_kills_of_the_spark_job(
    seed: int, cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """SIGKILL to the launcher, its JVM, a Python worker or all of them, while the copy is on its way."""
    chance = random.Random(seed)
    topic = unique_topic("spark-kills")
    config, flow = a_slow_copy(tmp_path, cluster_a, cluster_b, topic)
    traffic = Traffic(cluster_a, topic, chance, LARGEST)
    midway = 0
    for _ in range(SPARK_KILLS):
        traffic.write(RECORDS)
        before = copied(flow)
        job = start_job(config)
        while copied(flow) == before and job.poll() is None:
            time.sleep(0.1)
        time.sleep(chance.uniform(0.0, 0.5))
        midway += kill_some(job, chance)
    last = start_job(config)
    out, err = last.communicate(timeout=300)
    assert last.returncode == 0, out + err[-3000:]
    assert midway >= 1
    assert_equal_and_mapped(flow, cluster_a, cluster_b, topic, traffic.written)
    PLAYED["killed Spark jobs"] += SPARK_KILLS


def copied(flow: FlowSettings) -> int:
    """Sum of committed progress: it moves when a lane has committed."""
    with open_clusters(flow) as clusters:
        return sum(read_progress(flow, clusters.target).values())


def start_job(config: Path) -> subprocess.Popen[str]:
    """spark-submit of the job, in a process group of its own."""
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PATH": f"{scripts}:{os.environ['PATH']}"}
    conf = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    return subprocess.Popen(
        [
            *(str(scripts / "spark-submit"), "--master", "local[2]", *conf),
            *(str(JOB), json.dumps({"step": "copy", "config": str(config), "flow": "A->B"})),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def descendants(pid: int) -> Iterator[tuple[int, str, int]]:
    """Number, name and parent of every process below one; those that end meanwhile are left out."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for it in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                yield it.pid, it.name(), it.ppid()


def kill_some(job: subprocess.Popen[str], chance: random.Random) -> bool:
    """Kill one process of the job, or all; return whether it was still running.  Survivors are zombies for a while."""
    if job.poll() is not None:
        return False
    processes = list(descendants(job.pid))
    victims = [
        [job.pid],
        [pid for pid, name, _ in processes if "java" in name],
        [pid for pid, _, _ in processes],
    ]
    workers = [pid for pid, name, parent in processes if "python" in name and parent != job.pid]
    for pid in chance.choice([*victims, workers[-1:] or [job.pid]]):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    time.sleep(1.0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    return True
