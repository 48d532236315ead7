"""The parent of Spark's Python workers, as `pyspark.daemon`, without the zips that Spark puts on its path.

Spark prepends its own `pyspark.zip` to the path of its workers, and CPython reads the directory of every zip on the
path anew whenever import caches are invalidated, which a worker does at each task: half of a short task's time
(measured with py-spy on Python 3.11).  pyspark is installed wherever twinlog is, so nothing is missing without them.

Named by `spark.python.daemon.module`.
"""

from __future__ import annotations

import re
import sys

_SPARKS_ZIP = re.compile(r"(^|[/\\])(pyspark|py4j-[^/\\]*)\.zip$")


def without_sparks_zips(path: list[str]) -> list[str]:
    """Return a module path without pyspark.zip and py4j's; archives of the user's own stay.  Pure."""
    return [entry for entry in path if not _SPARKS_ZIP.search(entry)]


if __name__ == "__main__":
    sys.path[:] = without_sparks_zips(sys.path)
    from pyspark import daemon

    daemon.manager()
