"""Connect's transforms in Spark's workers, by spark-submit.  Costs two minutes on two idle cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, create_topic, produce, read, with_copies

pytestmark = [pytest.mark.spark, pytest.mark.integration]

JOB = Path(__file__).resolve().parents[2] / "jobs" / "run_step.py"
SCRIPTS = Path(sys.executable).parent


def submit(step: str, config: Path) -> tuple[int, dict[str, Any]]:
    """spark-submit as an operator would do it; its exit code, and what it printed last."""
    conf = ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    request = json.dumps({"step": step, "config": str(config), "flow": "A->B"})
    done = subprocess.run(
        [str(SCRIPTS / "spark-submit"), "--master", "local[2]", *conf, str(JOB), request],
        capture_output=True,
        text=True,
        timeout=400,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"},
        check=False,
    )
    lines = done.stdout.strip().splitlines()
    assert lines, done.stderr[-3000:]
    return done.returncode, json.loads(lines[-1])["twinlog"]


def test_a_copy_and_its_audit_on_spark(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """What the chain drops is no difference, and so in the next cycle."""
    topic = create_topic(cluster_a, unique_topic("tombstones"), 2)
    records = [Seen(b"%d" % n, None if n % 4 == 0 else b"v", 1_700_000_000_000 + n) for n in range(2000)]
    for partition in (0, 1):
        produce(cluster_a, topic, records, partition, compression_type="zstd")
    config, _ = with_copies(
        tmp_path,
        cluster_a,
        cluster_b,
        [topic],
        **{
            "A->B__transforms": "live",
            "A->B__transforms__live__type": "Filter",
            "A->B__transforms__live__predicate": "gone",
            "A->B__predicates": "gone",
            "A->B__predicates__gone__type": "RecordIsTombstone",
        },
    )
    code, copied = submit("copy", config)
    assert (0, "done", 3000) == (code, copied["state"], copied["records"])
    for partition in (0, 1):
        copies = read(cluster_b, f"A.{topic}", partition)
        assert [it.key for it in records if it.value is not None] == [it.key for it in copies]
    code, audited = submit("audit", config)
    assert (0, True, 3000, 1.0) == (code, audited["equal"], audited["records"], audited["coverage"])
    produce(cluster_a, topic, records[:1], 0)
    produce(cluster_a, topic, records[1:2], 1)
    code, copied = submit("copy", config)
    assert (0, "done", 1) == (code, copied["state"], copied["records"])
    code, audited = submit("audit", config)
    assert (0, True, 1) == (code, audited["equal"], audited["records"])
