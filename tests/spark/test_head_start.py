"""A session imports modules and starts its worker while Spark's JVM starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from twinlog.spark.head_start import HeadStart

PIDS = """
import psutil, time
from twinlog.spark.session import session

with session("local[1]", "test") as spark:
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())

    def daemons():
        known = [it.info for it in psutil.process_iter(["pid", "ppid", "cmdline"])]
        return [it["pid"] for it in known if it["ppid"] == jvm and "twinlog.spark.daemon" in (it["cmdline"] or ())]

    def no_rows(batches):
        for _ in batches:
            yield from ()

    ends = time.monotonic() + 60
    while not daemons() and time.monotonic() < ends:
        time.sleep(0.1)
    before = daemons()
    spark.range(0, 1, 1, 1).mapInArrow(no_rows, "pid int").collect()
    print(before == daemons(), len(before))
"""


def test_an_import_that_fails_beside_fails_where_it_is_needed() -> None:
    """The thread keeps its error to itself."""
    HeadStart().import_modules("twinlog.no_such_module", "")
    with pytest.raises(ModuleNotFoundError):
        __import__("twinlog.no_such_module")


@pytest.mark.spark
def test_the_workers_that_are_started_beside_are_those_of_the_lanes(tmp_path: Path) -> None:
    """A lane's task starts no second parent of workers, and a terminal sees nothing of Spark's.  Cost: 10 s."""
    told = subprocess.run(
        [sys.executable, "-c", PIDS],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if name != "JAVA_TOOL_OPTIONS"},
    )
    assert ["True", "1"] == told.stdout.split()
    assert ["WARNING: Using incubator modules: jdk.incubator.vector"] == told.stderr.splitlines()
