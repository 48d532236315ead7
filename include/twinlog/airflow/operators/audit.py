"""The audit as the task of its Dag: compare both sides.  It never stops the copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Context

from twinlog.airflow import form
from twinlog.airflow.alerts import sound_if_standing_still
from twinlog.airflow.flows import configuration_path
from twinlog.airflow.following import SCHEDULED
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.tasks.frame import opened, skip_out_of_service
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError
from twinlog.jsonable import Json

if TYPE_CHECKING:
    from twinlog.audit.request import AuditRequest
    from twinlog.spark.request import Request

MOST_DIFFERENCES = 100
"""Differences kept in XCom; `twinlog audit` shows all, and the records."""

PARAMS = {
    "full": form.flag("Full", "Compare everything again, not only what is new since the last audit."),
    "topics": form.names(
        "Topics", "Source topics to audit in this run; empty means every topic of the flow."
    ),
}


def audit_request(params: Json) -> AuditRequest:
    """Return what the trigger form asks for."""
    # Dag files are parsed every few seconds, without what only tasks need.
    from twinlog.audit.request import AuditMode, AuditRequest

    mode = AuditMode.FULL if params.get("full") else AuditMode.INCREMENTAL
    return AuditRequest(mode, frozenset(params.get("topics") or ()) or None)


def for_xcom(outcome: Json) -> Json:
    """Cut an AuditResult to what XCom holds; the least proved partitions come first."""
    whole_in = "`twinlog audit`; what is proved is in the ledger (audit)"
    cut = {**outcome, "differences": outcome["differences"][:MOST_DIFFERENCES]}
    return shortened(cut, whole_in, partitions=lambda it: it["coverage"])


def not_equal(outcome: Json) -> TerminalError | None:
    """Describe the differences of a copy that is not equal as an error."""
    if outcome["equal"]:
        return None
    places = [
        f"{it['topic']}-{it['partition']} {it['kind']} at {it['upstream_offset']} -> {it['downstream_offset']}"
        for it in outcome["differences"][:5]
    ]
    problems = outcome["problems"][:5]
    reasons = [*places, *(it["message"] for it in problems)]
    hints = ["docs/audit.md says how to see the records"] if places else [it["hint"] for it in problems[:1]]
    return TerminalError(
        f"the audit does not call the copy equal, {outcome['difference_count']} differences: {'; '.join(reasons)}",
        "".join(hints),
        code="not-equal",
    )


def _audit(flow: FlowSettings, context: Context) -> Request:
    from twinlog.spark.request import AuditStepRequest

    if context["dag_run"].run_type.value == SCHEDULED:
        # Before Spark is started, and without asking a source that may be lost.
        with opened(flow) as clusters:
            ledger = skip_out_of_service(flow, clusters, "nothing is copied that could be audited")
        sound_if_standing_still(flow, ledger, context)
    return AuditStepRequest(
        config=configuration_path(), flow=flow.name, audit=audit_request(context["params"])
    )


AUDIT = Step(_audit, for_xcom, not_equal)
