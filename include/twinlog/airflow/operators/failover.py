"""The task of the failover's Dag that does it, once a person has approved: on Spark, where what is left is copied.

A retry, or clearing the task, goes on where the last try stopped, with the same approval.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from twinlog.airflow.flows import configuration_path
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError
from twinlog.jsonable import Json

if TYPE_CHECKING:
    from twinlog.spark.request import Request


def approver(answer: Mapping[str, Any] | None) -> str:
    """Return the name of the person who approved.  Raises TerminalError if nobody did.  Pure."""
    if answer is None or "Approve" not in answer["chosen_options"]:
        raise TerminalError(
            "nobody has approved this failover", hint="clear the task `approve`", code="not-approved"
        )
    user = answer.get("responded_by_user") or {}
    return str(user.get("name") or "airflow")


def not_promoted(outcome: Json) -> TerminalError | TransientError | None:
    """Return the error that a failover amounts to, None if it is promoted and every step is done.  Pure."""
    stopped = next((it for it in outcome["steps"] if it["state"] in {"waiting", "failed"}), None)
    if stopped is None and outcome["state"] == "promoted":
        return None
    why = f"{stopped['name']}: {stopped['message']}" if stopped is not None else "steps are left"
    way_back = (
        "there is no way back but a failback"
        if outcome["state"] == "promoted"
        else f"`twinlog recovery abort --flow '{outcome['flow']}'` lets the flow follow again"
    )
    kind = TransientError if outcome["transient"] else TerminalError
    return kind(
        f"failover of {outcome['flow']}: {outcome['state']}: {why}",
        hint=f"clear this task to go on; {way_back}",
        code="failover",
    )


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
    )


def _for_xcom(outcome: Json) -> Json:
    return shortened(outcome, "the evidence, and `twinlog recovery status`")


FAILOVER = Step(_request, _for_xcom, not_promoted)
