"""A Structured Streaming query goes over to the target by its own checkpoint: files that a real Spark wrote and reads.

Spark's Kafka connector is not among what this project fetches, so the query's source is tests/integration/
stream_with_spark.py.  Two Spark sessions, about a minute.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from lab import Seen, configure, create_topic, cycle, produce, produce_transaction
from twinlog.cli.main import main
from twinlog.config.flow.load import load

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).parent / "stream_with_spark.py"
NOW = int(time.time() * 1000)


def some(first: int, count: int) -> list[Seen]:
    return [Seen(b"%d" % n, b"%d" % n, NOW + n) for n in range(first, first + count)]


def stream(cluster: Any, topic: str, checkpoint: Path, out: Path) -> list[int]:
    """Run the query until it has read everything; return what it has read in all its runs."""
    command = [sys.executable, str(PROGRAM), cluster.bootstrap_servers, topic, str(checkpoint), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(line) for line in out.read_text().splitlines()]


def test_a_query_goes_on_at_the_other_side(cluster_a, cluster_b, tmp_path, unique_topic, capsys) -> None:
    """Its checkpoint's newest offsets file is translated in place: each record once over both sides."""
    topic, alias = create_topic(cluster_a, unique_topic("stream")), f"A{uuid.uuid4().hex[:5]}"
    path = configure(
        tmp_path,
        {alias: cluster_a, "B": cluster_b},
        [f"{alias}->B"],
        topics=topic,
        heartbeats__replication__enabled="false",
    )
    flow = load(path).flows[f"{alias}->B"]
    produce(cluster_a, topic, some(0, 20))
    produce_transaction(cluster_a, topic, some(1000, 7), commit=False)
    produce_transaction(cluster_a, topic, some(20, 10))
    checkpoint, out = tmp_path / "checkpoint", tmp_path / "read"
    assert [*range(30)] == stream(cluster_a, topic, checkpoint, out)
    produce(cluster_a, topic, some(30, 15))
    cycle(flow)
    newest = max((checkpoint / "offsets").glob("[0-9]*"), key=lambda it: int(it.name))
    print(newest, newest.read_text())
    moved = tmp_path / "moved"
    shutil.copytree(checkpoint, moved)
    (moved / "offsets" / f".{newest.name}.crc").unlink(missing_ok=True)
    capsys.readouterr()
    words = ["--offsets", str(newest), "--write", str(moved / "offsets" / newest.name)]
    assert 0 == main(["translate", "--config", str(path), *words]), capsys.readouterr()
    lines = (moved / "offsets" / newest.name).read_text().splitlines()
    before = newest.read_text().splitlines()
    assert before[:2] == lines[:2]
    assert ({topic: {"0": 39}}, {f"{alias}.{topic}": {"0": 30}}) == (
        json.loads(before[2]),
        json.loads(lines[2]),
    )
    assert [*range(45)] == stream(cluster_b, f"{alias}.{topic}", moved, out)
