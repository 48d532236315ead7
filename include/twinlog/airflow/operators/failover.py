"""The task of the failover's Dag that does it, once a person has approved: on Spark, where what is left is copied.

A retry, or clearing the task, goes on where the last try stopped, with the same approval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context

from twinlog.airflow.flows import configuration_path
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.recovery import WHOLE, approver, consistent_cut, driver_of, groups_at_ms, not_promoted
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings

if TYPE_CHECKING:
    from twinlog.spark.request import Request


def _request(flow: FlowSettings, context: Context) -> Request:
    from twinlog.spark.request import FailoverRequest

    seen = context["ti"].xcom_pull(task_ids="preview")
    return FailoverRequest(
        config=configuration_path(),
        flow=flow.name,
        mode=context["params"]["mode"],
        by=approver(context["ti"].xcom_pull(task_ids="approve")),
        at_risk_records=seen["at_risk_records"],
        last_ended=seen["last_ended"],
        driver=driver_of(context["dag_run"]),
        groups_at_ms=groups_at_ms(context["params"]),
        consistent_cut=consistent_cut(context["params"]),
    )


FAILOVER = Step(_request, lambda outcome: shortened(outcome, WHOLE), not_promoted)
