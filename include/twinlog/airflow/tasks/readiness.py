"""The task of the Dag failover_readiness__A__B: the gate, its report, and the event for other Dags."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from twinlog.airflow import form
from twinlog.airflow.alerts import sound_if_standing_still
from twinlog.airflow.assets import readiness
from twinlog.airflow.flows import read_configuration
from twinlog.airflow.gauges import of_gate, send
from twinlog.airflow.recovery import MODES
from twinlog.airflow.secrets import ask_airflow
from twinlog.airflow.tasks.frame import opened
from twinlog.airflow.xcom import MOST_CHARACTERS, short, shortened
from twinlog.config.flow.load import enabled_flow
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, UsageError
from twinlog.jsonable import Json, to_json
from twinlog.visible import first_few, visible

if TYPE_CHECKING:
    from twinlog.gate.answer import GateCheck, GateResult
    from twinlog.gate.ask import GateRequest
    from twinlog.state.ledger import Ledger

log = logging.getLogger(__name__)

MOST_NAMED = 10
"""Checks that forbid a failover which a no lists."""

PARAMS = {
    "mode": form.choice(
        "planned", MODES, "Mode", "planned: the source is alive; source-dead: from the target alone."
    ),
    "producers_stopped": form.flag(
        "Producers have been stopped",
        "Ask for the proof: the source stands still, nothing lags, every group is passed on."
        " Otherwise only whether a planned failover could begin.",
    ),
    "canary": form.flag(
        "Canary",
        "Write a heartbeat to the source and wait for its copy; something must be copying meanwhile.",
    ),
}


def ask_gate(flow_name: str, outlet_events: Any) -> Json:
    """Ask the gate as the form says; keep page and evidence, and return the answer.

    Raises TerminalError `not-ready` if the gate says no, after everything is kept.
    """
    context = get_current_context()
    params = context["params"]
    request = gate_request(params["mode"], params["producers_stopped"], params["canary"])
    asked = ask(flow_name, request, keeps=lambda _: True)
    sound_if_standing_still(asked.flow, asked.ledger, context)
    for check in asked.result.checks:
        log.log(_level(check), "%s", line_of(check))
    shown = asked.document
    log.info("kept: %s, with its evidence", Path(shown["page"]).parent.name)
    outlet_events[readiness(asked.flow.target.alias)].extra = asset_extra(shown)
    if not asked.result.ready:
        context["ti"].xcom_push("return_value", shown)
        verdict, *reasons = why_not(asked.result)
        raise TerminalError(
            f"{verdict} {'; '.join(reasons)}", "docs/gate.md says what to do", code="not-ready"
        )
    return shown


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer of the gate, and the document for XCom: the answer, and where page and evidence are if it was kept."""

    flow: FlowSettings
    result: GateResult
    document: Json
    ledger: Ledger


def gate_request(mode: str, producers_stopped: bool, canary: bool) -> GateRequest:
    """Return what is asked of the gate.  Raises UsageError for an unknown mode."""
    from twinlog.gate.ask import GateRequest
    from twinlog.judge.check import Mode

    if mode not in MODES:
        raise UsageError(f"the gate has no mode {mode!r}", "use planned or source-dead")
    planned = mode == Mode.PLANNED.value
    return GateRequest(Mode(mode), still_writing=planned and not producers_stopped, canary=planned and canary)


def ask(flow_name: str, request: GateRequest, keeps: Callable[[GateResult], bool]) -> Asked:
    """Ask the gate, send its gauges, and keep page and evidence of an answer that is to be kept."""
    from twinlog.gate import ask as step
    from twinlog.gate.evidence import Seal
    from twinlog.gate.record import keep
    from twinlog.judge.great_expectations import validate
    from twinlog.state.ledger import read_ledger

    configuration = read_configuration(ask_airflow)
    flow = enabled_flow(configuration, flow_name)
    seal = Seal.of(configuration, flow)
    document: Json = {}
    with opened(flow) as clusters:
        answer = step.run(flow, clusters, request, by=validate)
        ledger = read_ledger(flow, clusters.target)
        if keeps(answer.result):
            document = to_json(keep(flow, clusters.target, answer, seal))
    send(flow, of_gate(flow, answer.result))
    document = shortened({**to_json(answer.result), **document}, "page and evidence")
    return Asked(flow, answer.result, document, ledger)


def line_of(check: GateCheck) -> str:
    """Write a check as one line of a log.  Pure."""
    return visible(f"{check.name}: {short(check.message, MOST_CHARACTERS)}")


def why_not(result: GateResult) -> list[str]:
    """Say that the gate says no, with a line for each check that forbids the failover.  Pure."""
    no = f"{result.flow} is not ready for a failover ({result.mode.value}):"
    return [no, *first_few([line_of(check) for check in result.checks if check.blocks], MOST_NAMED)]


def _level(check: GateCheck) -> int:
    if check.passed:
        return logging.INFO
    return logging.ERROR if check.blocks else logging.WARNING


def asset_extra(shown: Json) -> Json:
    """Return the event's extra for Dags that are scheduled on the readiness of a cluster."""
    names = ("flow", "mode", "ready", "still_writing", "state_age_seconds", "evidence", "page")
    return {name: shown[name] for name in names}
