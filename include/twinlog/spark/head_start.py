"""Import modules and start the first Python worker while Spark's JVM starts.

A JVM and a session in it take some four seconds, in which Python only waits.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


SAME_WORKERS = {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"}
"""With its default, SQL's workers have an environment variable that those of other jobs lack."""

WAIT_SECONDS = 10.0
"""The longest that the end of a session waits for work that nobody needed."""


class HeadStart:
    """Work in threads beside that of the one who opens a session.  Its errors are those of whoever needs it after."""

    def __init__(self) -> None:
        self._jobs: list[threading.Thread] = []

    def import_modules(self, *modules: str) -> None:
        """Begin to import modules.  Whoever needs one imports it, and waits for this one."""
        _begin(lambda: [importlib.import_module(module) for module in modules])

    def start_worker(self, context: SparkContext) -> None:
        """Begin to start a Python worker by a job without SQL, whose classes the JVM is still loading.

        A first lane would wait two seconds for it.  Spark gives a worker to SQL's tasks only if these were to start it
        with the same environment (`SAME_WORKERS`).
        """
        self._jobs.append(_begin(lambda: context.range(1, numSlices=1).foreachPartition(_nothing)))

    def plan(self, spark: SparkSession) -> None:
        """Begin to do a job like those of lanes: the JVM loads the classes of its plan, half a second.

        PySpark's modules import each other, so that two threads which load them may each find one half loaded.
        """
        import pyspark.sql.classic.dataframe  # noqa: F401  the job would load both
        import pyspark.sql.pandas.map_ops  # noqa: F401

        self._jobs.append(
            _begin(lambda: spark.range(0, 1, 1, 1).mapInArrow(_no_rows, "lane int, report string").collect())
        )

    def wait(self) -> None:
        """Wait for the jobs before their session ends: Spark calls a task that it kills a crash."""
        for job in self._jobs:
            job.join(WAIT_SECONDS)


def _nothing(rows: Iterator[Any]) -> None:
    """Do no work (task)."""


def _no_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do no work (task)."""
    for _ in batches:
        yield from ()


def _begin(work: Callable[[], object]) -> threading.Thread:
    def quietly() -> None:
        with suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    return thread
