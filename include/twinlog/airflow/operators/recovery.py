"""The tasks that act once a person has approved, on Spark, where they copy: the failover, and the way home.

A retry, or clearing the task, goes on where the last try stopped, with the same approval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context

from twinlog.airflow import recovery
from twinlog.airflow.flows import configuration_path
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings

if TYPE_CHECKING:
    from twinlog.spark.request import Request


def _failover(flow: FlowSettings, context: Context) -> Request:
    from twinlog.spark.request import FailoverRequest

    params, seen = context["params"], context["ti"].xcom_pull(task_ids="preview")
    return FailoverRequest(
        config=configuration_path(),
        flow=flow.name,
        mode=params["mode"],
        by=recovery.approver(context["ti"].xcom_pull(task_ids="approve")),
        known=seen["known"],
        last_ended=seen["last_ended"],
        driver=recovery.driver_of(context["dag_run"]),
    )


def _home(flow: FlowSettings, context: Context) -> Request:
    from twinlog.spark.request import FailbackRequest

    params, seen = context["params"], context["ti"].xcom_pull(task_ids="preview")
    if not recovery.goes_home(params):
        raise AirflowSkipException("not asked for: clients stay where they are")
    return FailbackRequest(
        config=configuration_path(),
        flow=flow.name,
        by=recovery.approver(context["ti"].xcom_pull(task_ids="approve")),
        failover=seen["failover"],
        last_turned_back=seen["last_turned_back"],
        tail=params["tail"] or None,
        driver=recovery.driver_of(context["dag_run"]),
    )


FAILOVER = Step(_failover, lambda outcome: shortened(outcome, recovery.WHOLE), recovery.not_promoted)
HOME = Step(_home, lambda outcome: shortened(outcome, recovery.WHOLE), recovery.not_home)
