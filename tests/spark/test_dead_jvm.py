"""A Spark JVM that is killed under its driver: a process of its own, since no other session can be had in it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import os, signal
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TwinlogError
from twinlog.lane.spec import LaneSpec, StateTopics
from twinlog.spark.runner import open_runner

def copied():
    with open_runner("local[1]") as runner:
        jvm = runner._spark.sparkContext._jvm
        os.kill(jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        spec = LaneSpec(
            flow="A->B", lane=0, transactional_id="", producer_id=0, producer_epoch=0,
            source=ConnectionSettings("A", ()), target=ConnectionSettings("B", ()),
            state=StateTopics("o", 1, "m", 1, "l", "c", "A"), ranges=(),
        )
        try:
            runner.run([spec])
        except TwinlogError as error:
            died = error
        runner.cancel()
        return f"{died.code}: {died.message}"

print(copied())
"""


def test_a_dead_jvm_is_a_death_of_its_tasks_and_takes_no_result_with_it() -> None:
    """The driver says what died, ending the session adds no error, and what was copied before is returned."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=200, check=False
    )
    assert 0 == done.returncode, done.stderr
    assert "tasks-died: the Spark job of A->B failed: " in done.stdout
