"""The audit as a Spark application, by spark-submit.  Costs about a minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, create_topic, cycle, file_and_flow, produce

pytestmark = [pytest.mark.spark, pytest.mark.integration]

JOB = Path(__file__).resolve().parents[2] / "jobs" / "run_step.py"
SCRIPTS = Path(sys.executable).parent
GOOD = [Seen(b"%d" % n, b'{"n": %d}' % n, 1_700_000_000_000 + n) for n in range(2000)]


def submit(step: str, config: Path) -> tuple[int, dict[str, Any]]:
    """spark-submit as an operator would do it; its exit code, and what it printed last."""
    conf = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    command = [str(SCRIPTS / "spark-submit"), "--master", "local[2]", *conf, str(JOB)]
    done = subprocess.run(
        [*command, json.dumps({"step": step, "config": str(config), "flow": "A->B"})],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    assert lines, done.stderr[-3000:]
    return done.returncode, json.loads(lines[-1])["twinlog"]


@pytest.mark.long
def test_a_good_and_a_damaged_copy(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """A good copy is proved; a record that the source does not have ends the application with 1."""
    topic = create_topic(cluster_a, unique_topic("good"), 2)
    for partition in (0, 1):
        produce(cluster_a, topic, GOOD, partition, compression_type="lz4")
    config, flow = file_and_flow(tmp_path, cluster_a, cluster_b, [topic])
    cycle(flow)
    code, audited = submit("audit", config)
    assert (0, True, 4000, 1.0) == (code, audited["equal"], audited["records"], audited["coverage"])
    produce(cluster_b, f"A.{topic}", GOOD[:1])
    code, audited = submit("audit", config)
    assert (1, False) == (code, audited["equal"])
