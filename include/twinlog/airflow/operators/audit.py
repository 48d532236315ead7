"""The audit as an Airflow task: one Spark job, its result in XCom, its verdict as the task's state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import Context, Param

from twinlog.airflow.flows import AUDIT_JOB, configuration_path
from twinlog.airflow.operators.outcome import error_of
from twinlog.airflow.operators.spark_job import JobOperator
from twinlog.airflow.xcom import shortened
from twinlog.audit.plan import AuditMode, AuditRequest
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import Json, to_json

MOST_DIFFERENCES = 100
"""Differences kept in XCom, without the records themselves; `twinlog audit` shows those."""

PARAMS = {
    "full": Param(
        False,
        type="boolean",
        title="Full",
        description="Compare everything again, not only what is new since the last audit.",
    ),
    "sample": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=0,
        maximum=1,
        title="Sample",
        description="Compare a share of everything, such as 0.1, instead of what is new.",
    ),
    "seed": Param(
        0, type="integer", title="Seed", description="Which sample; the same number chooses the same records."
    ),
    "topics": Param(
        [],
        type="array",
        items={"type": "string"},
        title="Topics",
        description="Source topics to audit in this run; empty means every topic of the flow.",
    ),
}


class AuditOperator(JobOperator):
    """Audit one flow: by spark-submit, or on a Connect server if the Spark master is `sc://`.

    Its XCom is the AuditResult as JSON without records.  If the copy is not equal, the XCom is there too, the task
    fails and is not tried again.
    """

    def execute(self, context: Context) -> Json:
        """Run the job.  Raises its error, as transient or terminal."""
        outcome = self._audit(audit_request(context["params"]))
        error = error_of(outcome)
        if error is not None or outcome is None:
            raise error or TerminalError("the audit has no result")
        shown = for_xcom(outcome)
        if not outcome["equal"]:
            context["ti"].xcom_push("return_value", shown)
            raise not_equal(outcome)
        return shown

    def _audit(self, request: AuditRequest) -> Json | None:
        master = self.settings().copy.spark_master
        if master.startswith("sc://"):
            from twinlog.spark.application import audit

            result = audit(configuration_path(), self.flow, request, master=master, on_start=self.started)
            outcome: Json = to_json(result)
            return outcome
        return self.submit(AUDIT_JOB, master, job_arguments(configuration_path(), self.flow, request))


def audit_request(params: Mapping[str, Any]) -> AuditRequest:
    """Return what the trigger form asks for.  Raises UsageError if the form asks for two things at once."""
    share = params.get("sample")
    if params.get("full") and share is not None:
        raise UsageError("the form asks for a full audit and for a sample", hint="choose one of them")
    mode = AuditMode.INCREMENTAL if share is None else AuditMode.SAMPLE
    return AuditRequest(
        AuditMode.FULL if params.get("full") else mode,
        1.0 if share is None else float(share),
        int(params.get("seed") or 0),
        frozenset(params.get("topics") or ()) or None,
    )


def job_arguments(config: Path, flow: str, request: AuditRequest) -> list[str]:
    """Return the command line of jobs/audit_partitions.py."""
    arguments = ["--config", str(config), "--flow", flow, "--mode", request.mode.value]
    if request.mode is AuditMode.SAMPLE:
        arguments += ["--share", str(request.share), "--seed", str(request.seed)]
    if request.topics:
        arguments += ["--topics", ",".join(sorted(request.topics))]
    return arguments


def without_contents(outcome: Json) -> Json:
    """Leave out the contents of records: offsets and kinds say where to look."""
    hidden = {"source", "target"}
    differences = [
        {name: value for name, value in it.items() if name not in hidden}
        for it in outcome["differences"][:MOST_DIFFERENCES]
    ]
    return {**outcome, "differences": differences}


def for_xcom(outcome: Json) -> Json:
    """Cut an AuditResult to what XCom holds, without contents; the least proved partitions come first."""
    whole_in = "`twinlog audit`; what is proved is in the ledger (audit)"
    return shortened(without_contents(outcome), whole_in, partitions=lambda it: it["coverage"])


def not_equal(outcome: Json) -> TerminalError:
    """Describe the differences of the copy as an error."""
    places = [
        f"{it['topic']}-{it['partition']} {it['kind']} at {it['upstream_offset']} -> {it['downstream_offset']}"
        for it in outcome["differences"][:5]
    ]
    reasons = [*places, *(it["message"] for it in outcome["problems"][:5])]
    return TerminalError(
        f"the audit does not call the copy equal, {outcome['difference_count']} differences: {'; '.join(reasons)}",
        hint="`twinlog audit --full` shows the records",
        code="not-equal",
    )
