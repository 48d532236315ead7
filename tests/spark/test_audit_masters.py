"""The audit and the user's own rules as Spark applications, by spark-submit.  Costs about a minute."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, create_topic, cycle, file_and_flow, produce
from twinlog.cluster.api import open_clusters
from twinlog.state.ledger import read_ledger

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
def test_audit_and_rules(
    cluster_a: Any, cluster_b: Any, unique_topic: Callable[[str], str], tmp_path: Path, repository: Path
) -> None:
    """A good copy is proved on Spark; rules name the records against them, and pause a topic only if told to."""
    good, bad = create_topic(cluster_a, unique_topic("good"), 2), create_topic(cluster_a, unique_topic("bad"))
    for partition in (0, 1):
        produce(cluster_a, good, GOOD, partition, compression_type="lz4")
    damaged = [*GOOD[:-1], dataclasses.replace(GOOD[-1], key=None, value=b"{no json", timestamp=5)]
    produce(cluster_a, bad, damaged)
    config, flow = file_and_flow(
        tmp_path,
        cluster_a,
        cluster_b,
        [f"{good},{bad}"],
        twinlog__data__quality__suite=str(repository / "include" / "config" / "suites" / "sane-records.json"),
        twinlog__data__quality__stop="true",
    )
    cycle(flow)
    code, audited = submit("audit", config)
    assert (0, True, 6000, 1.0) == (code, audited["equal"], audited["records"], audited["coverage"])
    code, told = submit("data_rules", config)
    assert (1, False, [bad]) == (code, told["success"], told["paused"])
    rules = {
        topic["topic"]: {it["rule"]: (it["passed"], it["places"]) for it in topic["rules"]}
        for topic in told["topics"]
    }
    assert {True} == {passed for passed, _ in rules[good].values()}
    places = {rule: places for rule, (passed, places) in rules[bad].items() if not passed}
    assert {
        "expect_column_values_to_not_be_null(key)": ["0/1999"],
        "expect_column_values_to_be_between(timestamp)": ["0/1999"],
    } == places  # one value in a thousand may be no JSON
    # The last 1000 offsets of each partition; the last of all is the marker of the copy's transaction.
    assert {topic["topic"]: topic["records"] for topic in told["topics"]} == {good: 2 * 999, bad: 999}
    with open_clusters(flow) as clusters:
        assert bad in read_ledger(flow, clusters.target).pauses
