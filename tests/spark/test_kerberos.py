"""Kerberos where Spark's executors are processes of their own, in folders of their own, without a ticket cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from spark_job import JOB, RECORDS, SCRIPTS

from lab import create_topic, produce, read
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load
from twinlog.steps import sync_topics

pytestmark = [pytest.mark.spark, pytest.mark.integration]


def test_a_keytab_travels_to_executors(
    kerberos_clusters: Any,
    keytabs: dict[str, Path],
    kerberos_file: Callable[..., Path],
    standalone: Callable[..., Any],
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `spark.files`, if the login names it without a folder: it lies where each process works."""
    source, target = kerberos_clusters
    topic = unique_topic("shipped")
    create_topic(source, topic)
    produce(source, topic, RECORDS)
    monkeypatch.chdir(keytabs["twinlog"].parent)
    config = kerberos_file(topic, keyTab=keytabs["twinlog"].name)
    flow = load(config).flows["KA->KB"]
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    spark = standalone(1, 1, driver__host="127.0.0.1", files=str(keytabs["twinlog"]))
    job = json.dumps({"step": "copy", "config": str(config), "flow": "KA->KB"})
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PATH": f"{SCRIPTS}:{os.environ['PATH']}"}
    done = subprocess.run(
        [str(SCRIPTS / "spark-submit"), "--master", spark.url, str(JOB), job],
        capture_output=True,
        text=True,
        timeout=300,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    result = json.loads(done.stdout.strip().splitlines()[-1])["twinlog"]
    assert ("done", len(RECORDS)) == (result["state"], result["records"])
    assert read(target, f"KA.{topic}") == RECORDS
