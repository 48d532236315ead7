"""The tasks of a failover and of the way home that copy or audit: on Spark.

A retry, or clearing the task, goes on with the run in the ledger.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from twinlog.airflow import recovery
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.xcom import shortened
from twinlog.jsonable import Json

if TYPE_CHECKING:
    pass


def walks(task: str) -> Step:
    """Return the step of a task that does a part of a failover, or of the way home."""
    return Step(partial(recovery.request_of, task), _cut, partial(recovery.unfinished, task))


def _cut(outcome: Json) -> Json:
    return shortened(outcome, recovery.WHOLE)
