"""Spark's error of a worker that cannot run twinlog becomes one clear line that ends the run."""

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
from twinlog.spark.runner import refusal

NO_TWINLOG = """\
Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times: org.apache.spark.SparkException:
Error from python worker:
  python3.11: Error while finding module specification for 'twinlog.spark.daemon' (ModuleNotFoundError: No module\
 named 'twinlog')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from twinlog.spark.daemon's stdout
"""
MISMATCH = """\
PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11,\
 PySpark cannot run with different minor versions.
Please check environment variables.
"""
NO_PYTHON = 'java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory'


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NO_TWINLOG, "the executors' Python has no module twinlog"),
        (MISMATCH, "Python in worker has different version: 3.12 than that in driver: 3.11"),
        (NO_PYTHON, "the executors' machines have no python3.11"),
    ],
)
def test_a_python_that_cannot_is_named(error, message):
    """With what to do, and a code of its own."""
    found = refusal(error)
    assert found is not None
    assert (message, "executor-python") == (found.message, found.code)
    assert found.hint


@pytest.mark.parametrize(
    "error",
    [
        "",
        "Job 0 cancelled",
        "No module named 'numpy'",
        "No module named 'twinlog.newer'",
        "ExecutorLostFailure",
        'java.io.IOException: Cannot run program "python3.11": error=12, Cannot allocate memory',
    ],
)
def test_other_errors_are_not_refusals(error):
    """They may go away: the driver fences again."""
    assert refusal(error) is None


@pytest.mark.spark
@pytest.mark.integration
@pytest.mark.long
def test_a_run_ends_with_one_line_if_executors_cannot(
    standalone: Callable[..., Any],
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their Python is missing or has no twinlog: nothing is copied, and then, by one that can, every record once."""
    driver_path = os.environ.get("PYTHONPATH", "")
    monkeypatch.delenv("PYTHONPATH", raising=False)  # workers inherit it, and would find this work tree
    settings = {"driver__host": "127.0.0.1", "driver__bindAddress": "127.0.0.1", "executor__memory": "512m"}
    spark = standalone(1, 2, **settings)
    monkeypatch.setenv("PYTHONPATH", driver_path)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    topic = unique_topic("python")
    create_topic(cluster_a, topic, 1)
    records = [Seen(b"%d" % n, b"v" * 200, 1_700_000_000_000 + n) for n in range(1000)]
    produce(cluster_a, topic, records, 0)
    config, _ = with_copies(tmp_path, cluster_a, cluster_b, [topic])
    defaults = Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf")
    secret = defaults.read_text()
    command = [sys.executable, "-m", "twinlog", "run", "--once", "--config", str(config)]
    command += ["--master", spark.url, "--output", "json"]

    for python, said in (
        ("no-such-python", "the executors' machines have no no-such-python"),
        (str(tmp_path / "bare/bin/python"), "the executors' Python has no module twinlog"),
        (sys.executable, ""),
    ):
        defaults.write_text(f"{secret}spark.pyspark.python {python}\n")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        told = done.stdout
        assert (1 if said else 0) == done.returncode, told + done.stderr
        assert said in json.dumps(json.loads(told)), told
        assert bool(said) == ("executor-python" in told), told
    assert records == read(cluster_b, f"A.{topic}", 0)
