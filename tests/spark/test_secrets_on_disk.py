"""Where secrets go that travel to Spark's tasks: a process of its own, whose JVM writes below a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

PROGRAM = """
import os, pickle
from pathlib import Path
from twinlog.config.security.connection import ConnectionSettings, SaslSettings
from twinlog.config.file.providers import Secret
from twinlog.lane.spec import LaneSpec, RangeSpec, StateTopics
from twinlog.spark.runner import open_runner

sasl = SaslSettings("PLAIN", "twinlog", Secret("hunter2hunter2"))
nowhere = ConnectionSettings("A", (("127.0.0.1", 1),), sasl=sasl, connect_timeout_ms=200)
topic_id = "AAAAAAAAAAAAAAAAAAAAAA"
ranges = tuple(RangeSpec(f"{n:0200}", topic_id, f"A.{n:0200}", 0, 0, 5) for n in range(5_000))
spec = LaneSpec(
    flow="A->B", lane=0, transactional_id="x", producer_id=1, producer_epoch=0, source=nowhere, target=nowhere,
    state=StateTopics("o", 1, "m", 1, "l", "c", "A"), ranges=ranges,
)
assert len(pickle.dumps((spec,))) > 2**20
with open_runner("local[1]") as runner:
    (report,) = runner.run([spec])
    written = [it for it in Path(os.environ["SPARK_LOCAL_DIRS"]).rglob("*") if it.is_file()]
    found = [str(it) for it in written if b"hunter2hunter2" in it.read_bytes()]
    print(report.state, found)
"""


@pytest.mark.long
def test_a_large_plan_leaves_no_secret_in_a_file(tmp_path: Path) -> None:
    """What is above Spark's own bound for a function (1 MiB) is handed to the workers as small ones are."""
    environment = os.environ | {"SPARK_LOCAL_DIRS": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True, text=True, timeout=500, env=environment, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stderr
    assert "fence-again []" == done.stdout.strip().splitlines()[-1]
