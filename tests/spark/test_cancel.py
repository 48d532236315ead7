"""Cancelling the jobs of one flow, in a session that runs those of others: a classic one, or a Connect server's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TransientError
from twinlog.lane.spec import LaneSpec, StateTopics
from twinlog.spark.runner import SparkRunner, Work
from twinlog.spark.session import session

def spec(flow):
    return LaneSpec(
        flow=flow, lane=0, transactional_id="", producer_id=0, producer_epoch=0,
        source=ConnectionSettings("A", ()), target=ConnectionSettings("B", ()),
        state=StateTopics("o", 1, "m", 1, "l", "c", "A"), ranges=(),
    )

class Cancelled(Work):
    def failed(self, lanes, reason):
        return TransientError(f"{lanes[0].flow} was cancelled")

def program():
    MASTER, FOLDER = sys.argv[1:]

    def began(flow, job):
        # Wait until the job's task runs.  Spark's count of jobs has those of the session's head start, too.
        while not os.path.exists(f"{FOLDER}/{flow}"):
            if job.done():
                open(f"{FOLDER}/end", "w").close()  # the other's task ends
                job.result()
            time.sleep(0.1)
        os.remove(f"{FOLDER}/{flow}")

    def task(lanes, build, batches):
        import os, pickle, time
        import pyarrow as pa
        open(f"{FOLDER}/{pickle.loads(lanes)[0].flow}", "w").close()
        while not os.path.exists(f"{FOLDER}/end"):
            time.sleep(0.1)
        yield pa.RecordBatch.from_arrays([pa.array([0], pa.int32()), pa.array(["done"])], ["lane", "report"])

    work = Cancelled(task, str, whose="", hint="")
    with session(MASTER) as spark, ThreadPoolExecutor(2) as pool:
        runner = SparkRunner(spark, work, MASTER)

        def begin():
            jobs = {flow: pool.submit(runner.run, [spec(flow)]) for flow in ("A->B", "C->D")}
            for flow, job in jobs.items():
                began(flow, job)
            return list(jobs.values())

        first, second = begin()
        runner.cancel("A->B")
        print(first.exception().message)
        time.sleep(1)
        print(second.done())
        open(f"{FOLDER}/end", "w").close()
        print(second.result())
        os.remove(f"{FOLDER}/end")
        again = begin()
        runner.cancel()
        print([type(job.exception()).__name__ for job in again])

program()
"""


@pytest.mark.parametrize("master", ["local", "connect"])
def test_a_flow_is_cancelled_without_the_others(
    master: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """`cancel` ended the jobs of all flows of the process for one flow's error."""
    address = request.getfixturevalue("connect_server") if master == "connect" else "local[2]"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, address, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    expected = ["A->B was cancelled", "False", "('done',)", str(["TransientError"] * 2)]
    assert expected == done.stdout.splitlines()
