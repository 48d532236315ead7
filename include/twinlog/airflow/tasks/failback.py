"""The tasks around the way home: show what each side alone has, save what was never copied, and tell of the end."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from typing import Any

from airflow.sdk import Param, get_current_context
from airflow.sdk.exceptions import AirflowRuntimeError

from twinlog.airflow import form
from twinlog.airflow.assets import WENT_HOME, failed_back
from twinlog.airflow.flows import dag_id_of
from twinlog.airflow.recovery import (
    WHOLE,
    approver,
    driver_of,
    goes_home,
    not_saved,
    refuse_beside,
    told_of,
    unfinished,
)
from twinlog.airflow.tasks import failover
from twinlog.airflow.tasks.failover import NOTE_KEY, note, undone, walk
from twinlog.airflow.tasks.frame import configured, log_step, opened, shown
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode
from twinlog.jsonable import Json
from twinlog.recovery.ways_home import way_home

log = logging.getLogger(__name__)

PARAMS = {
    "home": form.flag(
        "Home", "Go on to the end: clients work on the source again. Off: save what the source alone has."
    ),
    "tail": Param(
        None,
        type=["null", "string"],
        enum=[None, "keep"],
        values_display={"null": "(ask, if there are any)"},
        title="Tail",
        description="With home: keep lets records that the source alone has stay there, and copies them. Empty: if"
        " there are any, it waits for this choice.",
    ),
    "dry_run": form.dry_run(
        "Say what would be done, with the numbers of now; ask nobody, and change nothing."
    ),
}


def preview(flow_name: str) -> Json:
    """Say what a failback would do now, and change nothing; a dry run ends here.

    Raises UsageError for a form that contradicts itself, and what `failback.run` and `home.run` refuse.
    """
    from twinlog.recovery.failback import failback, home
    from twinlog.recovery.procedure import Tail
    from twinlog.recovery.steps.world import LOOKING, Request
    from twinlog.state.ledger import read_ledger, require_ledger

    context = get_current_context()
    params = context["params"]
    homeward = goes_home(params)
    asked = Request("", tail=Tail(params["tail"]) if params["tail"] else None, dry_run=True)
    configuration, flow = configured(flow_name)
    with opened(flow) as clusters:
        require_ledger(flow, clusters.target)
        ledger = read_ledger(flow, clusters.target)
        refuse_beside(context, ledger)
        turned_back = home.last_turned_back(ledger)
        found = (
            home.go(configuration, flow, clusters, asked, LOOKING)
            if homeward
            else failback.save(configuration, flow, clusters, asked, log_step)
        )
    if homeward:
        found = replace(found, notes=(*found.notes, *_paused(context, way_home(configuration, flow))))
    context["ti"].xcom_push(NOTE_KEY, note(replace(found, dry_run=params["dry_run"])))
    whole = "`twinlog failback --save --dry-run`"
    told = shortened({**found.document, "last_turned_back": turned_back}, whole)
    if homeward and found.exit_code is not ExitCode.DONE:
        context["ti"].xcom_push("return_value", told)
        failure = unfinished("promote", found.told)
        assert failure is not None
        raise failure
    if params["dry_run"]:
        context["ti"].xcom_push("return_value", told)
        raise AirflowSkipException("dry run: nothing was changed")
    return told


def _paused(context: Any, home: FlowSettings) -> list[str]:
    """Say that the Dag is paused which brings home what comes while a way home waits, or that Airflow does not tell."""
    own = dag_id_of("replicate", home.state_alias, home.target.alias)
    dag_id = context["dag"].dag_id.removesuffix("failback") + own
    says = "may be paused, Airflow does not tell"
    with suppress(AttributeError, AirflowRuntimeError):  # before 3.3, and of a Dag that is not there
        if not context["ti"].get_dag(dag_id).is_paused:
            return []
        says = "is paused"
    return [f"{dag_id} {says}: unpause it, it brings home what comes while this waits"]


def save(flow_name: str) -> Json:
    """Save what the source alone has; skipped if the way home does it.

    Run again, it goes on: no record is exported twice.  Raises the error that the report amounts to, after it is kept.
    """
    from twinlog.recovery.failback import failback
    from twinlog.recovery.steps.world import Request

    context = get_current_context()
    if goes_home(context["params"]):
        raise AirflowSkipException("the way home saves it")
    approver(context["ti"].xcom_pull(task_ids="approve"))  # after a no it is skipped
    configuration, flow = configured(flow_name)
    with opened(flow) as clusters:
        by = failback.approver_of(flow, clusters.target, driver_of(context["dag_run"]))
        found = failback.save(configuration, flow, clusters, Request(by), log_step)
    told = shortened(found.document, WHOLE)
    failure = not_saved(found.told)
    if failure is not None:
        context["ti"].xcom_push("return_value", told)
        raise failure
    return told


def ask(flow_name: str) -> None:
    """Put together what a person has to know: all that was found on the way, or what there is to save."""
    context = get_current_context()
    if context["params"]["dry_run"]:
        raise AirflowSkipException("dry run: nobody is asked")
    if goes_home(context["params"]):
        failover.ask(flow_name)
    else:
        context["ti"].xcom_push(NOTE_KEY, context["ti"].xcom_pull(task_ids="preview", key=NOTE_KEY))


def report(flow_name: str, outlet_events: Any) -> Json:
    """Tell how it ended, with an event if clients went home; if nothing was done, say why, and be skipped."""
    from twinlog.airflow.flows import read_configuration

    context = get_current_context()
    pull = context["ti"].xcom_pull
    homeward = pull(task_ids="promote")
    stays = undone(context, f"{flow_name} is as it was")
    told_of(context, homeward or pull(task_ids="save"), f"nothing was changed, and {stays}")
    done = walk("report", flow_name).document if homeward else pull(task_ids="save")
    told = told_of(context, done, "", "failover")
    if homeward:
        flow = read_configuration().flows[flow_name]
        asset = failed_back(flow.source.alias, flow.target.alias)
        outlet_events[WENT_HOME].add(asset, extra=told)
    return shown({**told, "next": done["next"]})
