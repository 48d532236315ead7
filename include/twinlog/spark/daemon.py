"""The parent of Spark's Python workers, as `pyspark.daemon`, with less to do for each worker and each task.

Spark prepends its own `pyspark.zip` to the path of its workers, and CPython reads the directory of every zip it has
imported from anew whenever import caches are invalidated, which a worker does at each task: half of a short task's time
(measured with py-spy on Python 3.11).  pyspark is installed wherever twinlog is, so nothing is missing without them.

What every task needs is imported before the first worker is forked, and so once instead of once a worker.

Named by `spark.python.daemon.module`.
"""

from __future__ import annotations

import os
import re
import sys

_SPARKS_ZIP = re.compile(r"(^|[/\\])(pyspark|py4j-[^/\\]*)\.zip$")


def without_sparks_zips(path: list[str]) -> list[str]:
    """Return a module path without pyspark.zip and py4j's; archives of the user's own stay.  Pure."""
    return [entry for entry in path if not _SPARKS_ZIP.search(entry)]


def forget_sparks_zips() -> None:
    """Take Spark's zips off this process's module path, and what the import system remembers of them."""
    sys.path[:] = without_sparks_zips(sys.path)
    for entry in filter(_SPARKS_ZIP.search, list(sys.path_importer_cache)):
        del sys.path_importer_cache[entry]


def import_what_tasks_need() -> None:
    """Import the relay.  BLAS, which nothing here uses, starts no threads: a process with threads is no parent."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import twinlog.spark.lane_task  # noqa: F401


if __name__ == "__main__":
    forget_sparks_zips()
    import_what_tasks_need()
    from pyspark import daemon

    daemon.manager()
