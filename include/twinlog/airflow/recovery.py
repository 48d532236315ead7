"""A run of a failover's or failback's Dag: what its form asks for, who approved it, and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twinlog.airflow.flows import configuration_path
from twinlog.airflow.versions import AirflowSkipException
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError, UsageError
from twinlog.formats.ledger.recovery import FAILBACK
from twinlog.jsonable import Json

if TYPE_CHECKING:
    from twinlog.spark.request import FailbackRequest, FailoverRequest
    from twinlog.state.ledger import Ledger

MODES = ("planned", "source-dead")
"""The gate's modes, as twinlog.judge.check.Mode, which Dag files do not import."""

TAKE_BACK, ACCEPT = "abort", "accept"
"""Modes of a failover's form that fail nothing over: take back what is under way, accept what a gate's no showed."""

WHOLE = "the evidence, and `twinlog recovery status`"
"""Where all of the report of a failover or a failback is that Airflow's database has no room for."""


WALKED = {
    "begin": ("begin",),
    "bring_home": ("compare", "export-tail", "write-files", "bring-home"),
    "fence_producers": ("fence-producers",),
    "drain": ("drain", "stopped"),
    "groups": ("groups",),
    "audit": ("audit",),
    "loss": ("loss",),
    "gate": ("gate", "approve"),
    "approve": ("approve",),
    "follow": ("schemas", "follow"),
    "switch_clients": ("schemas", "switch-clients"),
    "canary": ("canary",),
    "report": ("report",),
}
"""The steps (twinlog.recovery.procedure.StepName) that each task walks; `promote` walks all up to its own."""

ASKED = tuple(WALKED)[:8]
"""The tasks before the question, which ends the last of them."""

YES, NO = "Approve", "Reject"
"""The answers to the question."""

ENDED = frozenset({"success", "failed", "skipped", "upstream_failed", "removed"})
"""States of an Airflow task whose run does nothing more with it."""

ASKED_KEY = "asked"
"""The XCom of task `gate` with what a yes costs."""

IF_REJECTED = "if_rejected"
ABORT, WAIT = "abort", "wait"
"""Name what a person chooses who rejects a failover."""


def steps_of(task: str, mode: str, *, observed: bool = False) -> tuple[str, ...]:
    """Return the steps that a task walks in a mode.  Raises AirflowSkipException if they are not for this task to do.

    A flow that is `observed` has others, and some of its tasks nothing to do.

    Before a promotion all is proved anew, in one process: a person may have waited for hours.
    """
    from twinlog.procedure import StepName
    from twinlog.recovery.procedures import names_of

    names = names_of(mode)
    if task not in WALKED:
        names = names_of(mode, observed=observed)
        return names[: names.index(StepName.PROMOTE) + 1]
    steps = WALKED[task]
    before = names[: names.index(StepName.APPROVE) + 1]
    if task in ASKED and not set(steps) & set(before):
        raise AirflowSkipException(f"mode {mode} has no step {steps[0]} before the question")
    return steps


def who(run: Any) -> str:
    """Name the person who triggered a run, else Airflow.  Pure."""
    return getattr(run, "triggering_user_name", None) or "airflow"


def request_of(
    task: str, flow: FlowSettings, context: Any, answer: Json | None = None
) -> FailoverRequest | FailbackRequest:
    """Return what a task does of a failover, or of the way home, and for whom.

    The task `approve` notes the `answer` that Airflow has of a person; the tasks behind it find it in the ledger.
    Raises as `steps_of` and `approver`, and AirflowSkipException if the form asks for no way home.
    """
    from twinlog.spark.request import FailbackRequest, FailoverRequest

    params, run, pull = context["params"], context["dag_run"], context["ti"].xcom_pull
    home = "home" in params
    if home and not goes_home(params):
        raise AirflowSkipException("not asked for: clients stay where they are")
    mode = FAILBACK if home else params["mode"]
    seen, by = pull(task_ids="preview"), who(run) if task in ASKED else ""
    if answer is not None:
        by = answered_by(answer)
    elif not by:
        approver(pull(task_ids="approve"))
    asked = {
        "config": configuration_path(),
        "flow": flow.name,
        "only": steps_of(task, mode, observed=flow.observed),
        "by": by,
        "driver": driver_of(run),
        "found": pull(task_ids="promote") if task == "report" else {},
        "rejected": answer is not None and NO in answer["chosen_options"],
        **((pull(task_ids="gate", key=ASKED_KEY) if answer is not None else None) or {}),
    }
    if not home:
        return FailoverRequest(**asked, mode=params["mode"], last_ended=seen["last_ended"])
    turned_back, tail = seen["last_turned_back"], params["tail"] or None
    return FailbackRequest(**asked, failover=seen["failover"], last_turned_back=turned_back, tail=tail)


def refuse_beside(context: Any, ledger: Ledger) -> None:
    """Raise TerminalError `live-run` if another run of this Dag is at work for the flow, or waits for an answer."""
    from twinlog.recovery.transitions import open_run

    here, open_one = context["dag_run"], open_run(ledger)
    dag_id, _, rest = (open_one.holder if open_one else "").partition("/")
    other = rest.rpartition("-")[0]
    if context["params"]["dry_run"] or dag_id != here.dag_id or other == here.run_id:
        return
    states = context["ti"].get_task_states(dag_id, run_ids=[other])  # none of a run that was deleted
    if not ENDED.issuperset(states.get(other, {}).values()):
        raise TerminalError(
            f"run {other} is at work for this flow, or waits for an answer",
            "let it end, answer it, or mark it failed; then clear this task",
            code="live-run",
        )


def driver_of(run: Any) -> str:
    """Name a Dag run: in a flow's ledger every try of its tasks works for the same driver."""
    return f"{run.dag_id}/{run.run_id}"


def approver(answer: Json | None) -> str:
    """Return the name of the person who approved.

    Raises AirflowSkipException if a person has rejected it, TerminalError if nobody has answered.
    """
    if answer is not None and NO in answer["chosen_options"]:
        raise AirflowSkipException(f"rejected by {answered_by(answer)}")
    if answer is None or YES not in answer["chosen_options"]:
        raise TerminalError("nobody has approved this run", "clear the task `approve`", code="not-approved")
    return answered_by(answer)


def answered_by(answer: Json) -> str:
    """Name the person who answered."""
    user = answer.get("responded_by_user") or {}
    return str(user.get("name") or "airflow")


def goes_home(params: Json) -> bool:
    """Say whether the form asks for the way home.  Raises UsageError for a tail without it."""
    if params["tail"] and not params["home"]:
        raise UsageError("tail is about the way home", "turn home on, or leave tail empty")
    return bool(params["home"])


def unfinished(task: str, outcome: Json) -> Exception | None:
    """Return the error that a task's part of a failover, or a way home, amounts to, None if all of it is done.

    Of what is over, since clients go on elsewhere, the tasks before the question do nothing: they are skipped.
    """
    flow, home = outcome["flow"], outcome["mode"] == FAILBACK
    over = outcome["state"] == ("following" if home else "promoted")
    if task in ASKED:
        if over:
            skipped: Exception = AirflowSkipException(
                f"{flow} is {outcome['state']}: nothing is done before that any more"
            )
            return skipped
        outcome = {**outcome, "steps": [it for it in outcome["steps"] if it["name"] != "approve"]}
    what, way_back = (FAILBACK, "failover") if home else ("failover", FAILBACK)
    stays = "clients where they are" if home else "the flow as it was before"
    back = (
        f"there is no way back but a {way_back}"
        if over
        else f"`twinlog recovery abort --flow '{flow}' --reason ...` leaves {stays}"
    )
    go_on = "clear this task to go on"
    if not over and task in {"gate", "approve", "promote"}:
        anew = "gate" if outcome["mode"] == MODES[1] else "fence_producers"
        go_on += f", or `{anew}` to look, and be asked, anew"
    if home:
        go_on += ", or trigger the Dag again to choose otherwise"
    return _unfinished(outcome, what, go_on, back, there=over or task in {*ASKED, "approve"})


def not_saved(outcome: Json) -> TerminalError | TransientError | None:
    """Return the error that saving amounts to, None if all of it was looked at, and is saved."""
    there = outcome["state"] == "promoted"
    return _unfinished(outcome, FAILBACK, "clear this task to go on", "the flow stays promoted", there=there)


def told_of(context: Any, outcome: Json | None, undone: str, *names: str) -> Json:
    """Return what a run's last task tells of its end: these fields, and some that every procedure has.

    Raises AirflowSkipException if there is no outcome: the run was a dry one, or nobody approved it.
    """
    if outcome is None:
        dry = context["params"]["dry_run"]
        raise AirflowSkipException("dry run: nothing was changed" if dry else f"not approved: {undone}")
    every = ("flow", "run", "mode", "state", "by", *names, "rto_seconds", "rpo_seconds", "evidence")
    return {name: outcome[name] for name in every}


def _unfinished(
    outcome: Json, what: str, go_on: str, way_back: str, *, there: bool
) -> TerminalError | TransientError | None:
    """Return the error of a procedure that a step has ended, or that did not get `there`."""
    steps = (it for it in outcome["steps"] if it["state"] in {"waiting", "failed"})
    stopped = next((f"{step['name']}: {step['message']}" for step in steps), "")
    if there and not stopped:
        return None
    kind = TransientError if outcome["transient"] else TerminalError
    return kind(
        f"{what} of {outcome['flow']}: {outcome['state']}: {stopped or 'steps are left'}",
        hint=f"{go_on}; {way_back}",
        code=what,
    )
