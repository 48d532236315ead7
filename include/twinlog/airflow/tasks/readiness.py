"""The task of the Dag failover_readiness__A__B: the gate, its report, and the event for other Dags."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param, get_current_context

from twinlog.airflow.assets import readiness
from twinlog.airflow.flows import read_configuration
from twinlog.airflow.gauges import of_gate, send
from twinlog.airflow.secrets import ask_airflow
from twinlog.airflow.tasks.frame import opened
from twinlog.airflow.xcom import MOST_CHARACTERS, short, shortened
from twinlog.errors import TerminalError
from twinlog.jsonable import to_json

log = logging.getLogger(__name__)

PARAMS = {
    "mode": Param(
        "planned",
        enum=["planned", "source-dead"],
        title="Mode",
        description="planned: the source is alive; source-dead: from the target alone.",
    ),
    "producers_stopped": Param(
        False,
        type="boolean",
        title="Producers have been stopped",
        description="Ask for the proof: the source stands still, nothing lags, every group is passed on."
        " Otherwise only whether a planned failover could begin.",
    ),
    "canary": Param(
        False,
        type="boolean",
        title="Canary",
        description="Write a heartbeat to the source and wait for its copy; something must be copying meanwhile.",
    ),
}


def ask_gate(flow_name: str, outlet_events: Any) -> Mapping[str, Any]:
    """Ask the gate as the form says; keep page and evidence, and return the answer.

    Raises TerminalError `not-ready` if the gate says no, after everything is kept.
    """
    from twinlog.gate import ask as step
    from twinlog.gate.evidence import signing_key
    from twinlog.gate.record import keep
    from twinlog.gate.suites.suites import Mode

    logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it logs every import step
    context = get_current_context()
    params = context["params"]
    mode = Mode(params["mode"])
    planned = mode is Mode.PLANNED
    request = step.GateRequest(
        mode,
        still_writing=planned and not params["producers_stopped"],
        canary=planned and params["canary"],
    )
    configuration = read_configuration(ask_airflow)
    flow = configuration.flows[flow_name]
    key = signing_key(flow.gate.sign_with)
    with opened(flow) as clusters:
        answer = step.run(flow, clusters, request)
        kept = keep(
            flow,
            clusters.target,
            answer,
            configuration=configuration.path,
            configuration_sha256=configuration.sha256,
            key=key,
        )
    result = answer.result
    for check in result.checks:
        log.log(
            logging.INFO if check.passed else logging.ERROR if check.blocks else logging.WARNING,
            "%s: %s",
            check.name,
            short(check.message, MOST_CHARACTERS),
        )
    log.info("page %s, evidence %s", kept.page, kept.evidence)
    send(flow, of_gate(flow, result))
    shown = shortened({**to_json(result), **to_json(kept)}, "page and evidence")
    outlet_events[readiness(flow.target.alias)].extra = asset_extra(shown)
    if not result.ready:
        context["ti"].xcom_push("return_value", shown)
        raise TerminalError(
            f"{flow.name} is not ready for a failover ({mode.value}): {', '.join(result.blocking)}",
            hint=f"see {kept.page}",
            code="not-ready",
        )
    return shown


def asset_extra(shown: Mapping[str, Any]) -> dict[str, Any]:
    """Return the event's extra for Dags that are scheduled on the readiness of a cluster."""
    names = ("flow", "mode", "ready", "still_writing", "state_age_seconds", "evidence", "page")
    return {name: shown[name] for name in names}
