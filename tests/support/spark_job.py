"""The job that spark-submit runs, and records for it to copy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lab import Seen, create_topic, produce, read, with_copies

JOB = Path(__file__).resolve().parents[2] / "jobs" / "run_step.py"
SCRIPTS = Path(sys.executable).parent
RECORDS = [Seen(b"%d" % n, b"v" * 50, 1_700_000_000_000 + n, (("h", b"1"),)) for n in range(3000)]


def prepared(tmp_path: Path, cluster_a: Any, cluster_b: Any, topic: str, **properties: str) -> Path:
    """A configuration, its topics made, records waiting in two partitions, in batches of some fifty."""
    create_topic(cluster_a, topic, 2)
    for partition in (0, 1):
        produce(cluster_a, topic, RECORDS, partition, batch_size=4000)
    config, _ = with_copies(tmp_path, cluster_a, cluster_b, [topic], **properties)
    return config


def equal(cluster_a: Any, cluster_b: Any, topic: str) -> bool:
    """Both partitions, record by record."""
    return all(read(cluster_b, f"A.{topic}", n) == RECORDS == read(cluster_a, topic, n) for n in (0, 1))
