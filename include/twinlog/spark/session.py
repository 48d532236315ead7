"""The Spark session: classic (local or a standalone master) or a warm Connect server."""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from twinlog.errors import TransientError
from twinlog.spark.jvm import local_address, submit_options
from twinlog.spark.master import check_master, without_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A lane's task must not be tried again by Spark: only a new fence may follow a failure.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.speculation": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.worker.reuse": "true",
    "spark.python.daemon.module": "twinlog.spark.daemon",
    # Lanes hold passwords and keys.  A function above this size PySpark writes to a file, in clear, to broadcast it.
    "spark.broadcast.UDFCompressionThreshold": "1g",
    "spark.sql.session.timeZone": "UTC",
}

_LOCAL = re.compile(r"local\[(\d+|\*)")


@contextmanager
def session(master: str, app_name: str = "twinlog") -> Iterator[SparkSession]:
    """Open a session on `master` (`local[N]`, `spark://...`, or `sc://...` for Spark Connect) and stop it at the end.

    An empty `master` leaves it to spark-submit, which has set it already.

    Raises UsageError for what is no master, TransientError when it cannot be reached.
    """
    if master:
        check_master(master)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    remote = master.startswith("sc://")
    if remote:
        builder = builder.remote(master)
    elif master:
        builder = builder.master(master)
    if not remote:
        os.environ.update(submit_options(os.environ))
        builder = builder.appName(app_name)
        for key, value in CONF.items():
            builder = builder.config(key, value)
        if master.startswith("local"):
            os.environ.update(local_address(master, os.environ))
            builder = builder.config("spark.driver.host", "127.0.0.1").config(
                "spark.driver.bindAddress", "127.0.0.1"
            )
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        first_line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TransientError(
            f"no Spark session on {without_options(master)}: {first_line}",
            hint="check that the Spark master or Connect server runs, and that a JDK 17 or 21 is found",
            code="spark-session",
            master=without_options(master),
        ) from error
    try:
        yield spark
    finally:
        _stop(spark)


def _stop(spark: SparkSession) -> None:
    """Stop a session; of one whose Spark has died nothing is left to stop, and it takes no result or error along."""
    try:
        spark.stop()
    except Exception as error:  # noqa: BLE001  py4j and gRPC have an error each for a process that is gone
        log.warning("the Spark session cannot be stopped: %s: %s", type(error).__name__, error)


def slots(spark: SparkSession, master: str) -> int:
    """How many tasks run at once; for Spark Connect what its server's master says, 2 where it does not."""
    if not master.startswith("sc://"):
        return int(spark.sparkContext.defaultParallelism)
    match = _LOCAL.match(spark.conf.get("spark.master", "") or "")
    return int(match.group(1)) if match and match.group(1).isdigit() else 2
