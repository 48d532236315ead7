"""Measure Spark's own share: the cost of a job of two tasks that copy nothing, once everything is warm.

python -m bench.spark_task [--jobs 30]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bench import pages
from bench.contenders import CORES
from bench.process_tree import DRIVER, JVM, WORKERS, ProcessTree
from twinlog.spark.lane_task import SCHEMA, answer
from twinlog.spark.session import session

if TYPE_CHECKING:
    import pyarrow as pa

WARM_UP_JOBS = 15

Row = dict[str, Any]


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=30)
    pages.add_arguments(parser)
    given = parser.parse_args()
    with session(f"local[{CORES}]") as spark, ProcessTree(os.getpid()) as tree:
        for _ in range(WARM_UP_JOBS):
            run_job(spark)
        used, began = tree.cpu_s(), time.monotonic()
        for _ in range(given.jobs):
            run_job(spark)
        cpu = tree.cpu_s() - used
        wall = time.monotonic() - began
    tasks = given.jobs * CORES
    row = {
        "jobs": given.jobs,
        "tasks": tasks,
        "wall_s_a_job": wall / given.jobs,
        "workers_cpu_s_a_task": cpu[WORKERS] / tasks,
        "jvm_cpu_s_a_job": cpu[JVM] / given.jobs,
        "driver_cpu_s_a_job": cpu[DRIVER] / given.jobs,
    }
    pages.write("spark-task", [row], markdown([row]), given)


def run_job(spark: Any) -> None:
    """Run one task per core, as a copy has one per lane."""
    spark.range(0, CORES, 1, CORES).mapInArrow(nothing, SCHEMA).collect()


def nothing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Answer as a lane does, without copying (task)."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield answer(number, {})


def markdown(rows: Sequence[Row]) -> str:
    """Return a table."""
    lines = [
        f"A job of {CORES} tasks that copy nothing, once all is warm:",
        "",
        "| jobs | s a job | CPU-s: Python worker, a task | JVM, a job | driver, a job |",
        "|---:|---:|---:|---:|---:|",
        *(
            f"| {row['jobs']} | {row['wall_s_a_job']:.3f} | {row['workers_cpu_s_a_task']:.3f} |"
            f" {row['jvm_cpu_s_a_job']:.3f} | {row['driver_cpu_s_a_job']:.3f} |"
            for row in rows
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
