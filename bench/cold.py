"""Measure the cold cost: one copy by spark-submit and one cycle by `twinlog run --once`, of 1 GB and of 1 MB.

    python -m bench.cold [--megabytes 1000 1]

The JVM start is included; each runs in a process of its own, and only the brokers are warm.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import load, pages
from bench.contenders import CORES, TWINLOG, twinlog
from bench.process_tree import DRIVER, JVM, WORKERS, ProcessTree
from bench.side_by_side import Clusters
from bench.topics import Kind
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.load import load as load_configuration
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.lifecycle import sync_topics
from twinlog.spark.classes import submit_options

JOB = Path(__file__).parent.parent / "jobs" / "run_step.py"
SIZES = (1000, 1)

Row = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """One way to copy once: its name in the table, and whether it is a whole cycle."""

    name: str
    whole_cycle: bool

    def command(self, config: Path) -> list[str | Path]:
        """Return the command line."""
        if self.whole_cycle:
            return [twinlog(), "run", "--once", "--output", "json", "--config", config]
        spark_submit = Path(sys.executable).with_name("spark-submit")
        request = json.dumps({"step": "copy", "config": str(config), "flow": "A->B"})
        return [spark_submit, "--master", f"local[{CORES}]", JOB, request]

    def copied(self, output: str) -> Row:
        """Read records and bytes from the printed output."""
        if self.whole_cycle:
            flow: Row = json.loads(output)["flows"][0]
            return flow
        job: Row = json.loads(output.strip().splitlines()[-1])["twinlog"]
        return job


WAYS = (Way("the copy, by spark-submit", False), Way("a whole cycle, `twinlog run --once`", True))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, nargs="+", default=SIZES)
    pages.add_arguments(parser)
    given = parser.parse_args()
    rows: list[Row] = []
    with (
        tempfile.TemporaryDirectory(prefix="twinlog-bench-") as folder,
        EmbeddedKafka("A") as source,
        EmbeddedKafka("B") as target,
    ):
        for row in run(Clusters(source, target), Path(folder), given.megabytes):
            rows.append(row)
            print(row, flush=True)
    pages.write("cold", rows, markdown(rows), given)


def run(clusters: Clusters, folder: Path, megabytes: Sequence[int] = SIZES) -> Iterator[Row]:
    """Yield a row for each size and way."""
    for size in megabytes:
        for way in WAYS:
            yield measure(way, size, clusters, folder)


def measure(way: Way, size: int, clusters: Clusters, folder: Path) -> Row:
    """Fill a topic, copy it once, delete its records.  Returns seconds, and CPU by role."""
    topic = f"cold-{uuid.uuid4().hex[:6]}"
    kind = Kind("cold", 1000, records_per_batch=0 if size > 10 else 50)
    servers = clusters.source.bootstrap_servers
    load.create(servers, kind, topic)
    load.fill(servers, kind, topic, size * 1000, clusters.source_data)
    config = folder / f"{topic}.properties"
    config.write_text(TWINLOG.properties(clusters.source, clusters.target, topic))
    with open_clusters(load_configuration(config).flows["A->B"]) as both:
        sync_topics.run(load_configuration(config).flows["A->B"], both)
    log = config.with_suffix(".log")
    began = time.monotonic()
    with (
        log.open("w") as errors,
        subprocess.Popen(
            way.command(config),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            # As the Dag's: else Spark uses the first python3 on the path, and a JVM that still compiles for hours.
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, **submit_options(os.environ)},
        ) as process,
        ProcessTree(process.pid) as tree,
    ):
        output, _ = process.communicate()
        cpu = tree.cpu_s()
    wall = time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"{way.name} ended with {process.returncode}:\n{log.read_text()[-2000:]}")
    copied = way.copied(output)
    for cluster, name in ((clusters.source, topic), (clusters.target, TWINLOG.remote(topic))):
        load.forget_records(cluster.bootstrap_servers, name)
    return {
        "way": way.name,
        "megabytes": size,
        "bytes": copied["bytes"],
        "records": copied["records"],
        "wall_s": round(wall, 1),
        "cpu_s": round(cpu.total(), 1),
        **{role: round(cpu[role], 1) for role in (JVM, WORKERS, DRIVER)},
    }


def markdown(rows: Sequence[Row]) -> str:
    """Return a table."""
    lines = [
        "From nothing to the end of the process:",
        "",
        "| MB | what | s | CPU-s | JVM | workers | driver |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = [f"{row[key]:.1f}" for key in ("wall_s", "cpu_s", JVM, WORKERS, DRIVER)]
        lines.append(f"| {row['bytes'] / 1e6:,.0f} | {row['way']} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
