"""The task of the failback's Dag that brings clients home, once a person has approved: on Spark, where it copies.

A retry, or clearing the task, goes on where the last try stopped, with the same approval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from twinlog.airflow.flows import configuration_path
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.recovery import WHOLE, approver, driver_of, goes_home, not_home
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings

if TYPE_CHECKING:
    from twinlog.spark.request import Request


def _request(flow: FlowSettings, context: Context) -> Request:
    from twinlog.spark.request import FailbackRequest

    params, seen = context["params"], context["ti"].xcom_pull(task_ids="preview")
    if not goes_home(params):
        raise AirflowSkipException("not asked for: clients stay where they are")
    return FailbackRequest(
        config=configuration_path(),
        flow=flow.name,
        by=approver(context["ti"].xcom_pull(task_ids="approve")),
        failover=seen["failover"],
        last_turned_back=seen["last_turned_back"],
        tail=params["tail"] or None,
        driver=driver_of(context["dag_run"]),
    )


HOME = Step(_request, lambda outcome: shortened(outcome, WHOLE), not_home)
