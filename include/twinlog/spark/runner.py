"""Runs lanes as Spark tasks, one task a lane."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import twinlog
from twinlog.errors import TransientError
from twinlog.relay.spec import LaneReport, LaneSpec
from twinlog.spark import session as spark_session
from twinlog.spark.lane_task import SCHEMA, copy_lanes, parse_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkLaneRunner:
    """The runner of `twinlog.steps.copy` over a Spark session, classic or Connect (driver)."""

    def __init__(self, spark: SparkSession, slots: int) -> None:
        self._spark = spark
        self.slots = slots

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run one job with exactly one task per lane (`spark.range` does that; a repartition does not).

        Raises TransientError when a task died without a report.
        """
        task = functools.partial(copy_lanes, pickle.dumps(tuple(lanes)), twinlog.__version__)
        frame = self._spark.range(0, len(lanes), 1, len(lanes)).mapInArrow(task, SCHEMA)
        try:
            rows = frame.collect()
        except Exception as error:
            message = str(error).strip().splitlines()
            raise TransientError(
                f"the Spark job of {lanes[0].flow} failed: {message[0] if message else type(error).__name__}",
                hint="what was committed counts; the driver fences again",
                code="spark-job",
                flow=lanes[0].flow,
            ) from error
        return tuple(parse_report(row["report"]) for row in rows)


@contextmanager
def open_runner(master: str, app_name: str = "twinlog") -> Iterator[SparkLaneRunner]:
    """Open a session on `master` and give a runner over it."""
    with spark_session.session(master, app_name) as spark:
        yield SparkLaneRunner(spark, spark_session.slots(spark, master))
