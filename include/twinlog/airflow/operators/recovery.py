"""The tasks that walk the steps of a failover and of the way home.

A retry, or clearing the task, goes on with the run in the ledger.
"""

from __future__ import annotations

from functools import partial

from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperator

from twinlog.airflow import recovery
from twinlog.airflow.form import CHOSEN
from twinlog.airflow.operators.spark_job import SparkStepOperator, Step
from twinlog.airflow.tasks.failover import walked
from twinlog.airflow.xcom import shortened
from twinlog.jsonable import Json


def walking(task: str, does: str, *, on_spark: bool = False) -> BaseOperator:
    """Return the task that does its part of a failover, or of the way home; `on_spark` if it copies or audits."""
    if not on_spark:
        return PythonOperator(task_id=task, python_callable=walked, op_args=[task, CHOSEN], doc_md=does)
    step = Step(partial(recovery.request_of, task), _cut, partial(recovery.unfinished, task))
    return SparkStepOperator(task_id=task, step=step, flow=CHOSEN, doc_md=does)


def _cut(outcome: Json) -> Json:
    return shortened(outcome, recovery.WHOLE)
