"""The copy as a task: whether a Spark job is needed, its request, and the meaning of its result."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow.sdk import Context

from twinlog.airflow.cycle import CycleRequest, request_of, why_nothing_was_copied
from twinlog.airflow.flows import configuration_path
from twinlog.airflow.following import driver_name, followed, gives_way_to, leaves_it_to
from twinlog.airflow.operators.spark_job import Step
from twinlog.airflow.tasks.frame import discovered
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import all_of, shortened
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.jsonable import Json
from twinlog.visible import and_more

if TYPE_CHECKING:
    from twinlog.spark.request import Request

SHOWN = 5


def copy_request(flow: FlowSettings, context: Context) -> Request:
    """Return the request of a task.

    Raises AirflowSkipException if there is nothing to copy, because a cold Spark job costs 15 CPU-seconds, if the flow
    is suspended, or if another run of a continuous Dag is copying it.
    """
    from twinlog.spark.request import CopyRequest  # here: Dag files are parsed every few seconds

    ti, run = context["ti"], context["dag_run"]
    asked = followed(request_of(context), run.run_type.value, flow)
    plan = None if flow.observed else ti.xcom_pull(task_ids="plan_ranges")
    reason = why_no_job(plan, asked, ti.try_number)
    if reason or ti.try_number > 1:
        reason = why_nothing_was_copied(flow.name, discovered(flow, ti)) or reason
    if not reason and flow.continuous:
        states = functools.partial(ti.get_task_states, run.dag_id, task_ids=[ti.task_id])
        follower = leaves_it_to(states, ti.task_id, run.run_id, asked, ti.try_number)
        reason = f"run {follower} follows the source, and copies all there is" if follower else ""
    if reason:
        raise AirflowSkipException(reason)
    return CopyRequest(
        config=configuration_path(),
        flow=flow.name,
        run_id=driver_name(run.dag_id, run.run_id, ti.try_number),
        until_ms=asked.until_ms,
        topics=asked.topics,
        follow_seconds=asked.follow_seconds,
        gives_way_to=gives_way_to(flow, run.dag_id) if asked.follow_seconds is not None else "",
    )


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
        from twinlog.copying.result import TRANSIENT_CODES

        passing = {item["code"] for item in plan["stopped"]} <= TRANSIENT_CODES
        kind = TransientError if passing else TerminalError
        raise kind(
            listed([item["message"] for item in plan["stopped"]]), hint=_hint(plan["stopped"]), code="stopped"
        )
    return "nothing to copy"


def for_xcom(outcome: Json) -> Json:
    """Cut a CopyResult to what XCom holds: stopped partitions first, then those with the most records.

    The report uses all of it, which the copy has put into the ledger (twinlog.copying.result).
    """
    whole_in = "the ledger (copy-outcome), and `twinlog status`"
    return shortened(outcome, whole_in, partitions=lambda it: (not it["error"], -it["copied_records"]))


def failure_of(outcome: Json) -> TwinlogError | None:
    """Return the error of a copy (a CopyResult as JSON), None if it is complete."""
    if outcome["state"] != "failed":
        return None
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
        f"{outcome['records']} records copied, but not everything: {listed(reasons)}",
        hint=_hint([*outcome["partitions"], *outcome["stopped"], *outcome["problems"]]),
        code="copy",
    )


def _hint(places: Sequence[Json]) -> str:
    """Return what a person looks up: the codes of what stopped, which docs/errors.md explains."""
    codes = sorted({code for place in places if (code := place.get("code") or place.get("error_code"))})
    look_up = f"; docs/errors.md says what to do for {listed(codes)}" if codes else ""
    return f"the other partitions are copied{look_up}"


def listed(reasons: list[str]) -> str:
    """Join the first few reasons, and count the others.  Pure."""
    return "; ".join(reasons[:SHOWN]) + and_more(len(reasons), SHOWN, "; and {} more")


COPY = Step(copy_request, for_xcom, failure_of)
