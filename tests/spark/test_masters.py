"""The copy job on every kind of master: spark-submit to local[2], a standalone master, a warm Connect server.

Each is a process of its own, as in production (classic and Connect sessions do not mix in one process).
Costs about 90 s on two idle cores, JVM starts included.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spark_job import JOB, SCRIPTS, equal, prepared

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def last_line(command: list[str]) -> dict[str, Any]:
    """Run a job and return what it printed last."""
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return dict(json.loads(done.stdout.strip().splitlines()[-1])["twinlog"])


def submit(config: Path, master: str) -> dict[str, Any]:
    """spark-submit of the job, as an operator would do it."""
    conf = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    job = [str(JOB), json.dumps({"step": "copy", "config": str(config), "flow": "A->B"})]
    return last_line([str(SCRIPTS / "spark-submit"), "--master", master, *conf, *job])


@pytest.mark.long
def test_spark_submit_to_local(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """One task per lane; the result is the last line."""
    topic = unique_topic("local")
    result = submit(prepared(tmp_path, cluster_a, cluster_b, topic), "local[2]")
    assert (result["state"], result["records"], result["lanes"]) == ("done", 6000, 2)
    assert equal(cluster_a, cluster_b, topic)


def test_spark_submit_to_a_standalone_master(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, standalone_master: str
) -> None:
    """Executors are processes of their own."""
    topic = unique_topic("standalone")
    result = submit(prepared(tmp_path, cluster_a, cluster_b, topic), standalone_master)
    assert (result["state"], result["records"]) == ("done", 6000)
    assert equal(cluster_a, cluster_b, topic)


def test_a_warm_connect_server(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, connect_server: str
) -> None:
    """Two clients one after the other on one server; the second finds nothing to copy."""
    topic = unique_topic("connect")
    config = prepared(tmp_path, cluster_a, cluster_b, topic)
    client = (
        "import json; from pathlib import Path; from twinlog.spark.application import run;"
        "from twinlog.spark.request import CopyRequest;"
        f"request = CopyRequest(config=Path({str(config)!r}), flow='A->B', run_id='run');"
        f"print(json.dumps({{'twinlog': run(request, master={connect_server!r}).told}}))"
    )
    result = last_line([sys.executable, "-c", client])
    assert (result["state"], result["records"]) == ("done", 6000)
    assert equal(cluster_a, cluster_b, topic)
    assert last_line([sys.executable, "-c", client])["state"] == "nothing"
