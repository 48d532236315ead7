"""What is done while Spark's JVM starts: modules are imported, and the first Python worker starts.

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


def import_beside(*modules: str) -> None:
    """Begin to import modules in a thread.  Whoever needs one imports it, waits for this one, and sees its errors."""
    _begin(lambda: [importlib.import_module(module) for module in modules if module])


def start_worker_beside(context: SparkContext) -> None:
    """Begin to start a Python worker by a job without SQL, whose classes the JVM is still loading.

    A first lane would wait two seconds for it.  Spark gives a worker to SQL's tasks only if these were to start it with
    the same environment (`SAME_WORKERS`).
    """
    _begin(lambda: context.range(1, numSlices=1).foreachPartition(_nothing))


def plan_beside(spark: SparkSession) -> None:
    """Begin to do a job like those of lanes: the JVM loads the classes of its plan, half a second."""
    _begin(lambda: spark.range(0, 1, 1, 1).mapInArrow(_no_rows, "lane int, report string").collect())


SAME_WORKERS = {"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"}
"""With its default, SQL's workers have an environment variable that those of other jobs lack."""


def _nothing(rows: Iterator[Any]) -> None:
    """Do no work (task)."""


def _no_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do no work (task)."""
    for _ in batches:
        yield from ()


def _begin(work: Callable[[], object]) -> None:
    def quietly() -> None:
        with suppress(Exception):
            work()

    threading.Thread(target=quietly, daemon=True).start()
