"""The tasks that walk the steps of a failover and of the way home, and the one that asks a person.

A retry, or clearing the task, goes on with the run in the ledger.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import BaseOperator

from twinlog.airflow import recovery
from twinlog.airflow.form import CHOSEN
from twinlog.airflow.operators.spark_job import SparkStepOperator, Step
from twinlog.airflow.tasks import failover
from twinlog.airflow.xcom import shortened
from twinlog.jsonable import Json


def walking(task: str, does: str, *, on_spark: bool = False) -> BaseOperator:
    """Return the task that does its part of a failover, or of the way home; `on_spark` if it copies or audits."""
    if not on_spark:
        return PythonOperator(
            task_id=task, python_callable=failover.walked, op_args=[task, CHOSEN], doc_md=does
        )
    step = Step(partial(recovery.request_of, task), _cut, partial(recovery.unfinished, task))
    return SparkStepOperator(task_id=task, step=step, flow=CHOSEN, doc_md=does)


def _cut(outcome: Json) -> Json:
    return shortened(outcome, recovery.WHOLE)


class QuestionOperator(HITLOperator):  # type: ignore[misc]
    """Ask a person, and write the answer into the flow's ledger, by the name that Airflow has of who gave it.

    An ApprovalOperator keeps no answer that is a no.
    """

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        """Note the answer with which Airflow resumes this task: it is in no XCom, which others might have written.

        Raises what keeps it from being noted; another try asks again.
        """
        answer = super().execute_complete(context, event)
        failover.answered(context["params"]["flow"], answer)
        return answer


def asking(subject: str) -> QuestionOperator:
    """Return the task that shows what `gate` has put together, and waits for a person."""
    return QuestionOperator(
        task_id="approve",
        options=[recovery.YES, recovery.NO],
        subject=subject,
        # Cells are escaped, whatever names on the clusters hold.
        body="{{ ti.xcom_pull(task_ids='gate', key='note') }}",
        params=failover.IF_REJECTED,
        doc_md="Wait for a person, who sees the facts.",
    )
