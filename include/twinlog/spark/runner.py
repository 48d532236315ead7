"""Run lanes as Spark tasks, one task per lane."""

from __future__ import annotations

import functools
import logging
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from twinlog.copying.rounds import TASKS_DIED
from twinlog.errors import TransientError
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.spark import session as spark_session
from twinlog.spark.build import BUILD
from twinlog.spark.lane_task import SCHEMA, copy_lanes, parse_report, reports, start_worker
from twinlog.spark.protection import require_safe_way

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_EXCEPTION_LINE = re.compile(r"[\w.]+(Error|Exception): ")


class SparkLaneRunner:
    """The runner of `twinlog.copying.copy` over a Spark session, classic or Connect (driver)."""

    def __init__(self, spark: SparkSession, slots: int, master: str = "") -> None:
        self._spark = spark
        self._master = master
        self.slots = slots

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run one job with exactly one task per lane (`spark.range` does that; a repartition does not).

        Raises TransientError if a task died without a report, or Spark itself did; ConfigError if the way to the tasks
        is not safe for what the lanes hold; TerminalError if a worker runs a twinlog other than the driver's.
        """
        for lane in lanes:
            require_safe_way(self._master, (lane.source, lane.target))
        task = functools.partial(copy_lanes, pickle.dumps(tuple(lanes)), BUILD)
        try:
            rows = self._spark.range(0, len(lanes), 1, len(lanes)).mapInArrow(task, SCHEMA).collect()
        except Exception as error:
            raise TransientError(
                f"the Spark job of {lanes[0].flow} failed: {reason_of(error)}",
                hint="what was committed counts; the driver fences again",
                code=TASKS_DIED,
                flow=lanes[0].flow,
            ) from error
        return tuple(map(parse_report, reports(rows)))

    def warm(self) -> None:
        """Make Spark start a Python worker, which stays for the first lane; a start after the fence delays records.

        A Connect server has workers already, and its slots may all be taken.  If a session cannot do it, `run` reports
        why.
        """
        if _is_remote(self._spark):
            return
        with suppress(Exception):
            self._spark.range(0, 1, 1, 1).mapInArrow(start_worker, SCHEMA).collect()

    def cancel(self) -> None:
        """Cancel the session's jobs; Spark kills the Python workers of their tasks."""
        cancel_jobs(self._spark)


def cancel_jobs(spark: SparkSession) -> None:
    """Cancel the jobs of a session, from any thread; if Spark has died, its jobs are over."""
    try:
        if _is_remote(spark):
            spark.interruptAll()
        else:
            spark.sparkContext.cancelAllJobs()
    except Exception as error:  # noqa: BLE001  whoever waits for the jobs hears what became of them
        log.warning("Spark's jobs cannot be cancelled: %s", reason_of(error))


def _is_remote(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def reason_of(error: Exception) -> str:
    """Find the line that says what happened in the pages of a Spark error."""
    if isinstance(error, ConnectionError):  # as it is, it would be taken for a broker's error
        return f"Spark's JVM does not answer: {error}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION_LINE.match(line)]
    return (named or lines or [type(error).__name__])[-1 if named else 0]


@contextmanager
def open_runner(master: str, app_name: str = "twinlog") -> Iterator[SparkLaneRunner]:
    """Open a session on `master` and yield a runner over it."""
    with spark_session.session(master, app_name) as spark:
        yield SparkLaneRunner(spark, spark_session.slots(spark, master), master)
