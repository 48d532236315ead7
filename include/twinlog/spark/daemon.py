"""The parent of Spark's Python workers, like `pyspark.daemon`, with less work for each worker and each task.

Spark prepends its own `pyspark.zip` to the path of its workers.  CPython rereads the directory of every zip it has
imported from whenever import caches are invalidated, and a worker does that at each task: half of a short task's time
(measured with py-spy on Python 3.11).  Where pyspark is installed nothing is missing without the zips.  Where twinlog
came in an archive (`twinlog spark package`) they are all there is of pyspark, and stay.

Modules that every task needs are imported before the first worker is forked: once, instead of once per worker.

`spark.python.daemon.module` names this module.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import re
import sys
import sysconfig
from pathlib import Path

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


def mismatch() -> str:
    """If twinlog came in an archive for another Python or kind of machine than this worker's, say so; else return "".

    Packages of another Python fail at their import, with errors that say nothing.
    """
    manifest = Path(__file__).resolve().parents[2] / "twinlog-archive.json"
    try:
        made_for = json.loads(manifest.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    wanted = f"Python {made_for['python']} on {made_for['platform']}"
    here = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {sysconfig.get_platform()}"
    return "" if here == wanted else f"this worker has {here} ({sys.executable}), its archive is for {wanted}"


def import_what_tasks_need() -> None:
    """Import the relay.

    BLAS, which is not used here, starts no threads: a process with threads must not fork.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    import twinlog.spark.lane_task  # noqa: F401


if __name__ == "__main__":
    if difference := mismatch():
        sys.exit(f"twinlog: {difference}")
    forget_sparks_zips()
    import_what_tasks_need()
    from pyspark import daemon

    daemon.manager()
