"""Whether Spark can be used: the extra `spark` brings PySpark, Airflow's provider its client, spark-submit its own.

The first two install into the same folder, so of two versions the files of whichever came last are there.
"""

from __future__ import annotations

import os
import pwd
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from twinlog.errors import UsageError


def require_spark(master: str) -> None:
    """Raise UsageError if there is no PySpark for this master, or a client of another version lies in its folder.

    So it does if this process's user, by whose name Java logs in for Spark, has none: in a container, with any number.
    """
    spark, client = installed("pyspark"), installed("pyspark-client")
    if spark is None and (not master.startswith("sc://") if client else find_spec("pyspark") is None):
        raise UsageError(
            "PySpark, which copies and compares, is not installed",
            hint="pip install 'twinlog[spark] @ file:...'",
            code="not-installed",
        )
    if spark and client and spark != client:
        raise UsageError(
            f"pyspark {spark} and pyspark-client {client} lie in one folder, and must be equal",
            hint=f"pip install --force-reinstall --no-deps pyspark=={client} pyspark-client=={client}",
            code="spark-version",
        )
    if not master.startswith("sc://"):
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            raise UsageError(
                f"Spark cannot start for user {os.getuid()}, who has no name on this machine",
                hint="run it as a user of /etc/passwd: in the image of docker/Dockerfile 1000",
            ) from None


def installed(distribution: str) -> str | None:
    """Return the version of a distribution, None if it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
