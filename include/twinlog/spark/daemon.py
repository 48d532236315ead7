"""The parent of Spark's Python workers, like `pyspark.daemon`, with less work for each worker and each task.

Spark prepends its own `pyspark.zip` to the path of its workers.  CPython rereads the directory of every zip it has
imported from whenever import caches are invalidated, and a worker does that at each task: half of a short task's time
(measured with py-spy on Python 3.11).  Where pyspark is installed nothing is missing without the zips.  Where they
are all there is of pyspark, they stay.

Modules that every task needs are imported before the first worker is forked: once, instead of once per worker.

`spark.python.daemon.module` names this module.
"""

from __future__ import annotations

import importlib.machinery
import os
import re
import sys

_SPARKS_ZIP = re.compile(r"(^|[/\\])(pyspark|py4j-[^/\\]*)\.zip$")


def without_sparks_zips(path: list[str]) -> list[str]:
    """Return a module path without pyspark.zip and py4j's zip; the user's own archives stay.  Pure."""
    return [entry for entry in path if not _SPARKS_ZIP.search(entry)]


def forget_sparks_zips() -> None:
    """Remove Spark's zips from this process's module path and import caches, if pyspark is found without them."""
    path = without_sparks_zips(sys.path)
    if importlib.machinery.PathFinder.find_spec("pyspark", path) is None:
        return
    sys.path[:] = path
    for entry in filter(_SPARKS_ZIP.search, list(sys.path_importer_cache)):
        del sys.path_importer_cache[entry]


def import_what_tasks_need() -> None:
    """Import the relay.

    BLAS, which is not used here, starts no threads: a process with threads must not fork.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import twinlog.spark.lane_task  # noqa: F401


if __name__ == "__main__":
    forget_sparks_zips()
    import_what_tasks_need()
    from pyspark import daemon

    daemon.manager()
