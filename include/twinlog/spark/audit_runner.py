"""Run the lanes of an audit as Spark tasks, one task per lane."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from twinlog.audit.lane import AuditLaneReport, AuditLaneSpec
from twinlog.errors import TransientError
from twinlog.spark import session as spark_session
from twinlog.spark.audit_task import audit_lanes, parse_audit
from twinlog.spark.build import BUILD
from twinlog.spark.lane_task import SCHEMA, reports
from twinlog.spark.protection import require_safe_way
from twinlog.spark.runner import cancel_jobs, reason_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkAuditRunner:
    """The AuditRunner over a Spark session, classic or Connect (driver)."""

    def __init__(self, spark: SparkSession, slots: int, master: str = "") -> None:
        self._spark = spark
        self._master = master
        self.slots = slots

    def run(self, lanes: Sequence[AuditLaneSpec]) -> tuple[AuditLaneReport, ...]:
        """Run one job with exactly one task per lane.  Raises as SparkLaneRunner.run."""
        for lane in lanes:
            require_safe_way(self._master, (lane.source, lane.target))
        task = functools.partial(audit_lanes, pickle.dumps(tuple(lanes)), BUILD)
        try:
            rows = self._spark.range(0, len(lanes), 1, len(lanes)).mapInArrow(task, SCHEMA).collect()
        except Exception as error:
            raise TransientError(
                f"the Spark job of the audit failed: {reason_of(error)}",
                hint="nothing was remembered; audit again",
                code="tasks-died",
            ) from error
        return tuple(map(parse_audit, reports(rows)))

    def cancel(self) -> None:
        """Cancel the session's jobs; Spark kills the Python workers of their tasks."""
        cancel_jobs(self._spark)


@contextmanager
def open_audit_runner(master: str, app_name: str = "twinlog audit") -> Iterator[SparkAuditRunner]:
    """Open a session on `master` and yield a runner over it."""
    with spark_session.session(master, app_name) as spark:
        yield SparkAuditRunner(spark, spark_session.slots(spark, master), master)
