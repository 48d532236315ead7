"""Cycles of a real scheduler between clusters that log in by Kerberos, by a keytab.  Costs two to five minutes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, create_topic, produce, read
from twinlog.lab.demo.airflow_instance import AirflowInstance

pytestmark = [pytest.mark.airflow, pytest.mark.integration, pytest.mark.long]

DAG = "replicate__KA__KB"


def test_a_scheduled_cycle_logs_in(
    kerberos_clusters: Any,
    kerberos_file: Callable[..., Path],
    unique_topic: Callable[[str], str],
    watching: Callable[..., Any],
    tmp_path: Path,
) -> None:
    """Every task, and the Spark job that one of them submits."""
    source, target = kerberos_clusters
    topic, now = unique_topic("scheduled"), int(time.time() * 1000)
    records = [Seen(b"k", b"%d" % n, now) for n in range(100)]
    create_topic(source, topic)
    produce(source, topic, records)
    lines = {"twinlog.spark.master": "local[2]", "twinlog.schedule": "0 0 1 1 *"}
    config = kerberos_file(topic, lines | {"twinlog.reports.folder": str(tmp_path / "reports")})
    with AirflowInstance(tmp_path / "airflow", config) as instance:
        instance.wait_until_healthy()
        running = watching(instance)
        running.wait("the Dag", lambda: DAG in instance.api.dag_ids())
        states = running.finish(DAG, running.unpause(DAG))
        assert {"success"} == set(states.values()), states
    assert records == read(target, f"KA.{topic}")
