"""The copy task's decisions: whether a job is needed, its arguments, and the meaning of its result.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from twinlog import errors
from twinlog.airflow.cycle_request import CycleRequest
from twinlog.airflow.xcom import all_of, shortened
from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.jsonable import Json

SHOWN = 5


def why_no_job(plan: Json | None, request: CycleRequest, try_number: int = 1) -> str:
    """Return why no Spark job is needed, "" if one is.

    `plan` is a RangePlan as JSON, None if there is none because its task was marked as a success by hand.  It counts
    for the first try only: a later one, a retry or a cleared task, may come because something has changed since.

    Raises TerminalError if there is nothing to copy because partitions have stopped (TransientError if all of them may
    go on by themselves): the job could only repeat that, and would cost a Spark session each time.
    """
    if request.dry_run:
        if plan is None:
            return "dry run"
        return (
            f"dry run: up to {plan['records']} records in {all_of(plan, 'ranges')} partitions would be copied"
        )
    if plan is None or try_number > 1:
        return ""
    if plan["ranges"] or plan["unended"] or request.follow_seconds:
        return ""
    if plan["stopped"]:
        from twinlog.copying.result import TRANSIENT_CODES  # here: Dag files are parsed every few seconds

        passing = {item["code"] for item in plan["stopped"]} <= TRANSIENT_CODES
        kind = TransientError if passing else TerminalError
        raise kind(_listed([item["message"] for item in plan["stopped"]]), hint=_STOPPED_HINT, code="stopped")
    return "nothing to copy"


def for_xcom(outcome: Json) -> Json:
    """Cut a CopyResult to what XCom holds: stopped partitions first, then those with the most records.

    The report uses all of it, which the copy has put into the ledger (twinlog.copying.result).
    """
    if "partitions" not in outcome:
        return outcome
    whole_in = "the ledger (copy-outcome), and `twinlog status`"
    return shortened(outcome, whole_in, partitions=lambda it: (not it["error"], -it["copied_records"]))


def job_arguments(
    config: Path, flow: str, run_id: str, request: CycleRequest, gives_way_to: str = ""
) -> list[str]:
    """Return the command line of jobs/replicate_partitions.py."""
    arguments = ["--config", str(config), "--flow", flow, "--run-id", run_id]
    if request.until_ms is not None:
        arguments += ["--until-ms", str(request.until_ms)]
    if request.follow_seconds is not None:
        arguments += ["--follow-seconds", str(request.follow_seconds)]
        arguments += ["--gives-way-to", gives_way_to] if gives_way_to else []
    if request.topics:
        arguments += ["--topics", ",".join(request.topics)]
    return arguments


def failure_of(outcome: Json | None) -> TwinlogError | None:
    """Return the error in a job's last line, None if the copy is complete.

    `outcome` is a CopyResult as JSON, or `{"error": {"kind", "code", "message"}}`; None means that the job died
    without printing one.
    """
    error = error_of(outcome)
    if error is not None or outcome is None or outcome["state"] != "failed":
        return error
    reasons = [
        *(
            f"{item['topic']}-{item['partition']}: {item['error']}"
            for item in outcome["partitions"]
            if item["error"]
        ),
        *(item["message"] for item in (*outcome["stopped"], *outcome["problems"])),
        *filter(None, [outcome["error"]]),
    ]
    kind = TransientError if outcome["transient"] else TerminalError
    return kind(
        f"{outcome['records']} records copied, but not everything: {_listed(reasons)}",
        hint=_STOPPED_HINT,
        code="copy",
    )


_STOPPED_HINT = "the other partitions are copied"


def _listed(reasons: list[str]) -> str:
    more = f"; and {len(reasons) - SHOWN} more" if len(reasons) > SHOWN else ""
    return "; ".join(reasons[:SHOWN]) + more


def error_of(outcome: Json | None) -> TwinlogError | None:
    """Return the error with which any job of ours ended, None if it has a result."""
    if outcome is None:
        return TransientError(
            "the Spark job ended without a result", hint="its last lines are above", code="spark-job"
        )
    error = outcome.get("error")
    return (
        _error_class(error["kind"])(error["message"], code=error["code"])
        if isinstance(error, Mapping)
        else None
    )


def _error_class(name: str) -> type[TwinlogError]:
    """Return the class, by its name, of an error that was raised in another process."""
    kind = getattr(errors, name, TerminalError)
    return kind if isinstance(kind, type) and issubclass(kind, TwinlogError) else TerminalError
