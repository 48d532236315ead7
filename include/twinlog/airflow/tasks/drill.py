"""The task of a drill's Dag: a drill by the form, and the event for other Dags."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow.sdk import Param, get_current_context

from twinlog.airflow.assets import DRILLED, drilled
from twinlog.airflow.form import choice
from twinlog.airflow.recovery import MODES, driver_of, who
from twinlog.airflow.tasks.frame import configured, log_step, opened, skip_out_of_service
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import MOST_CHARACTERS, short, shortened
from twinlog.errors import ConfigError, TerminalError, UsageError
from twinlog.jsonable import Json
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.drill.report import DrillReport

log = logging.getLogger(__name__)

WHOLE = "the ledger (`twinlog drill history`); `twinlog drill` shows every position"

PARAMS = {
    "groups": Param(
        ".*",
        type="string",
        minLength=1,
        title="Groups",
        description="Only groups whose whole name matches this Java regex.",
    ),
    "mode": choice(
        "planned",
        MODES,
        "Mode",
        "planned: groups as they are; source-dead: placed by their checkpoints alone.",
    ),
    "most": Param(
        20, type="integer", minimum=1, title="At most", description="Drill at most so many groups."
    ),
}


def run_drill(flow_name: str, outlet_events: Any) -> Json:
    """Drill as the form says; return the report, and tell of a drill that passed.

    A flow that was failed over is not drilled, and a drill that had nothing to read proves nothing: both are skipped,
    with the reason, and send no event.  Raises TerminalError `drill` if it failed, after its clones are deleted, and
    UsageError for a form whose groups there are not.
    """
    from twinlog.drill import drill
    from twinlog.formats.ledger.recovery import DrillState
    from twinlog.state.ledger import require_ledger

    context = get_current_context()
    params = context["params"]
    configuration, flow = configured(flow_name)
    with opened(flow) as clusters:
        require_ledger(flow, clusters.target)
        skip_out_of_service(flow, clusters, "a drill is for a flow that follows")
        run = context["dag_run"]
        request = drill.Request(
            who(run),
            _groups(params["groups"]),
            params["most"],
            driver_of(run),
            source_dead=params["mode"] == "source-dead",
        )
        report = drill.run(flow, clusters, request, drill.Tools.of(configuration, flow, log_step))
    told = shortened(report.document, WHOLE)
    last = visible(short(f"drill {report.state.value}: {report.message}", MOST_CHARACTERS))
    if report.state is DrillState.PASSED:
        log.info(last)
        outlet_events[DRILLED].add(drilled(flow.source.alias, flow.target.alias), extra=asset_extra(report))
        return told
    context["ti"].xcom_push("return_value", told)
    if report.state is DrillState.WAITING:
        require_a_group(params["groups"], report)
        raise AirflowSkipException(last)
    raise TerminalError(last, "docs/runbooks/drill.md says what to do", code="drill", flow=flow.name)


def require_a_group(pattern: str, report: DrillReport) -> None:
    """Raise UsageError if the form names groups, and there is none of them: a misspelt one would pass unseen.  Pure."""
    if pattern != PARAMS["groups"].value and not report.groups and not report.not_drilled:
        raise UsageError(
            f"groups: no group with a position matches {pattern!r}: nothing was drilled",
            "correct `groups` in the trigger form; `twinlog groups` lists them",
        )


def _groups(pattern: str) -> Any:
    """Return the filter of the form.  Raises UsageError for what is no regex."""
    from twinlog.policy.selection import NameFilter

    try:
        return NameFilter((pattern,))
    except ConfigError as error:
        raise UsageError(f"groups: {error.message}", error.hint) from None


def asset_extra(report: DrillReport) -> Json:
    """Return the event's extra for Dags that are scheduled on a drill that passed.  Pure."""
    return {
        "flow": report.flow,
        "run": report.run,
        "state": report.state.value,
        "by": report.by,
        "rto_seconds": report.rto_seconds,
        "rpo_seconds": report.rpo_seconds,
        "groups": len(report.drilled),
        "not_drilled": len(report.not_drilled),
    }
