"""Ask a Spark how many tasks it can run at once, when that is needed: executors come and go.

`spark.range` without a number of partitions makes as many as the scheduler has slots (`defaultParallelism`, which
counts the executors that are registered now).  So a job of no work tells them, over Spark Connect too, where a client
sees no scheduler.  A cluster that has just been asked for executors has two slots by that measure until the first is
there.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_SECONDS = 15.0
"""How long executors of a new session may go on to come before the first answer."""

PAUSE_SECONDS = 1.0
"""Pause between two questions; the first answer is one that has held for so long."""

_ROWS = 1 << 16
_LOCAL = re.compile(r"local\[(\d+)\W")
_THREADS = re.compile(r"local($|\[)")


@dataclass(slots=True)
class Slots:
    """The slots of a session on `master`; of the master that spark-submit has set if that is empty."""

    spark: SparkSession
    master: str
    _settled: bool = False

    def now(self) -> int:
        """Return how many tasks run at once.  Raises what Spark raises if its first job fails."""
        if not self.master.startswith("sc://"):
            context = self.spark.sparkContext
            if _THREADS.match(context.master):
                return int(context.defaultParallelism)
        elif found := self._of_local_server():
            return found
        found = self._asked()
        end = time.monotonic() + SETTLE_SECONDS
        while not self._settled:
            time.sleep(PAUSE_SECONDS)
            before, found = found, self._asked()
            self._settled = found == before or time.monotonic() >= end
        return found

    def _of_local_server(self) -> int:
        """Return the slots of a Connect server in `local[N]`, which need no job; else 0."""
        match = _LOCAL.match(self.spark.conf.get("spark.master", "") or "")
        return int(match.group(1)) if match else 0

    def _asked(self) -> int:
        """Run a job, which waits for the first executor, with one task for each slot."""
        numbers = self.spark.range(0, _ROWS).selectExpr("spark_partition_id() AS number")
        (last,) = numbers.selectExpr("max(number) AS last").collect()
        return int(last["last"]) + 1
