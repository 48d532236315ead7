"""A run of the main Dag by itself, without a scheduler: what .ci/cell tries with each Airflow and PySpark."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, produce, read
from twinlog.lab.demo.airflow_instance import AirflowInstance

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.spark]

RECORDS = [Seen(f"{it}".encode(), b"v", 1_700_000_000_000) for it in range(500)]


def test_airflow_dags_test(tmp_path: Path, cluster_a: Any, cluster_b: Any) -> None:
    """All tasks succeed, and what was written on the one side can be read on the other."""
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
    alone.command("db", "migrate")

    alone.command("dags", "test", "replicate__here__there", timeout_s=400)

    assert RECORDS == read(cluster_b, f"here.{topic}")
