"""A run of a failover's or failback's Dag: what its form asks for, who approved it, and how it ended.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twinlog.airflow.versions import AirflowSkipException
from twinlog.errors import TerminalError, TransientError, UsageError
from twinlog.jsonable import Json

MODES = ("planned", "source-dead")
"""The gate's modes, as twinlog.gate.suites.suites.Mode, which Dag files do not import."""

WHOLE = "the evidence, and `twinlog recovery status`"
"""Where all of the report of a failover or a failback is that Airflow's database has no room for."""


def driver_of(run: Any) -> str:
    """Name a Dag run: in a flow's ledger every try of its tasks works for the same driver."""
    return f"{run.dag_id}/{run.run_id}"


def approver(answer: Mapping[str, Any] | None) -> str:
    """Return the name of the person who approved.  Raises TerminalError if nobody did."""
    if answer is None or "Approve" not in answer["chosen_options"]:
        raise TerminalError(
            "nobody has approved this run", hint="clear the task `approve`", code="not-approved"
        )
    user = answer.get("responded_by_user") or {}
    return str(user.get("name") or "airflow")


def goes_home(params: Mapping[str, Any]) -> bool:
    """Say whether the form asks for the way home.  Raises UsageError for a tail without it."""
    if params["tail"] and not params["home"]:
        raise UsageError("tail is about the way home", hint="turn home on, or leave tail empty")
    return bool(params["home"])


def not_promoted(outcome: Json) -> TerminalError | TransientError | None:
    """Return the error that a failover amounts to, None if it is promoted and every step is done."""
    promoted, flow = outcome["state"] == "promoted", outcome["flow"]
    way_back = (
        "there is no way back but a failback"
        if promoted
        else f"`twinlog recovery abort --flow '{flow}' --reason ...` leaves the flow as it was before"
    )
    return _unfinished(outcome, "failover", "clear this task to go on", way_back, there=promoted)


def not_saved(outcome: Json) -> TerminalError | TransientError | None:
    """Return the error that saving amounts to, None if all of it was looked at, and is saved."""
    there = outcome["state"] == "promoted"
    return _unfinished(
        outcome, "failback", "clear this task to go on", "the flow stays promoted", there=there
    )


def not_home(outcome: Json) -> TerminalError | TransientError | None:
    """Return the error that a way home amounts to, None if the flow follows and every step is done."""
    arrived, flow = outcome["state"] == "following", outcome["flow"]
    way_back = (
        "there is no way back but a failover"
        if arrived
        else f"`twinlog recovery abort --flow '{flow}'` leaves clients where they are"
    )
    go_on = "clear this task to go on, or trigger the Dag again to choose otherwise"
    return _unfinished(outcome, "failback", go_on, way_back, there=arrived)


def told_of(context: Any, outcome: Json | None, undone: str, *names: str) -> dict[str, Any]:
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
    stopped = next((f"{it['name']}: {it['message']}" for it in steps), "")
    if there and not stopped:
        return None
    kind = TransientError if outcome["transient"] else TerminalError
    return kind(
        f"{what} of {outcome['flow']}: {outcome['state']}: {stopped or 'steps are left'}",
        hint=f"{go_on}; {way_back}",
        code=what,
    )
