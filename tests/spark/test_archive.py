"""Executors whose Python has nothing but itself copy a topic by an archive, and say so clearly when they cannot.

Costs about a minute on two idle cores, half of it the archive.
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

from lab import Seen, configure, create_topic, produce, read
from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.lifecycle import sync_topics
from twinlog.spark.archive import make
from twinlog.spark.archive.manifest import running_python
from twinlog.spark.archive.use import ARCHIVES, FOLDER, MODULE_PATH, PYTHON

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.long]

RECORDS = [Seen(b"%d" % n, b"v" * 200, 1_700_000_000_000 + n) for n in range(1000)]


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A Python of this version without any package."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, capture_output=True
    )
    return tmp_path / "bare" / "bin" / "python"


def run(config: Path, master: str) -> tuple[int, dict[str, Any]]:
    """One cycle on a master; its exit code and its document."""
    command = [sys.executable, "-m", "twinlog", "run", "--once", "--config", str(config)]
    done = subprocess.run(
        [*command, "--master", master, "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_worker_without_twinlog_copies_by_an_archive(
    standalone: Callable[..., Any],
    bare: Path,
    cluster_a: Any,
    cluster_b: Any,
    unique_topic: Callable[[str], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every record arrives.  Without a Python, or where it finds no twinlog, one line says so and no more is copied."""
    driver_path = os.environ.get("PYTHONPATH", "")
    monkeypatch.delenv("PYTHONPATH", raising=False)  # workers inherit it, and would find this work tree
    settings = {"driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", "executor.memory": "512m"}
    spark = standalone(1, 2, **{key.replace(".", "__"): value for key, value in settings.items()})
    monkeypatch.setenv("PYTHONPATH", driver_path)
    topic = unique_topic("archive")
    create_topic(cluster_a, topic, 2)
    config = configure(
        tmp_path,
        {"A": cluster_a, "B": cluster_b},
        ["A->B"],
        topics=topic,
        twinlog__lanes="2",
        heartbeats__replication__enabled="false",
    )
    flow = load(config).flows["A->B"]
    with open_clusters(flow) as clusters:
        sync_topics.run(flow, clusters)
    for partition in range(2):
        produce(cluster_a, topic, RECORDS, partition)
    defaults = Path(os.environ["SPARK_CONF_DIR"], "spark-defaults.conf")
    secret = defaults.read_text()
    made = make.make(tmp_path / "twinlog.tar.gz", running_python())

    def cycle(**more: str) -> tuple[int, dict[str, Any]]:
        chosen = {ARCHIVES: f"{made.archive}#{FOLDER}", PYTHON: str(bare), **more}
        defaults.write_text(secret + "".join(f"{key} {value}\n" for key, value in chosen.items()))
        return run(config, spark.url)

    code, document = cycle()
    assert (0, 2000) == (code, document["flows"][0]["records"]), document
    assert [RECORDS, RECORDS] == [read(cluster_b, f"A.{topic}", it) for it in range(2)]
    for partition in range(2):
        produce(cluster_a, topic, RECORDS, partition)
    for wrong, said in (
        ({PYTHON: "no-such-python"}, "the executors' machines have no no-such-python"),
        ({MODULE_PATH: "/nowhere"}, "the executors' Python has no module twinlog"),
    ):
        code, document = cycle(**wrong)
        told = json.dumps(document)
        assert (1, True, True) == (code, said in told, '"executor-python"' in told), told
    assert [RECORDS, RECORDS] == [read(cluster_b, f"A.{topic}", it) for it in range(2)]
