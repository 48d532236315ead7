"""A run of the main Dag by itself, without a scheduler: what .ci/cell tries with each Airflow and PySpark."""

from __future__ import annotations

import re
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, produce, read
from twinlog.lab.demo.airflow_instance import AirflowInstance

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.spark]

STEPS = "discover sync_topics plan_ranges copy offset_syncs checkpoints heartbeats validate publish"
RECORDS = [Seen(f"{it}".encode(), b"v", 1_700_000_000_000) for it in range(500)]


def test_airflow_dags_test(tmp_path: Path, cluster_a: Any, cluster_b: Any) -> None:
    """Airflow lists the provider, all tasks succeed, and what was written on the one side is read on the other.

    From 3.2 on Airflow then fails to close the run: it takes the Dag's deadline, as it is declared, for its id.
    """
    topic = f"tested-{uuid.uuid4().hex[:6]}"
    create_topic(cluster_a, topic, **{"retention.ms": "-1"})
    produce(cluster_a, topic, RECORDS)
    config = configure(
        tmp_path,
        {"here": cluster_a, "there": cluster_b},
        ["here->there"],
        **{"topics": topic, "groups": "none", "twinlog.spark.master": "local[2]"},
    )
    alone = AirflowInstance(tmp_path / "airflow", config)
    alone.home.mkdir()
    alone.command("db", "migrate", timeout_s=400)
    assert ["twinlog"] == re.findall(r"^twinlog\b", alone.command("providers", "list"), re.MULTILINE)

    command = [sys.executable, "-m", "airflow", "dags", "test", "replicate__here__there"]
    done = subprocess.run(
        command, env=alone.environment, capture_output=True, text=True, timeout=600, check=False
    )

    said = done.stdout + done.stderr
    assert done.returncode == 0 or "FROM deadline_alert" in said.splitlines()[-3], said
    assert STEPS.split() == re.findall(r"end task task_id=(\w+)", said), said
    assert RECORDS == read(cluster_b, f"here.{topic}")
