"""A whole step as one Spark application: run by jobs/run_step.py and by a Connect client (driver)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from twinlog.config.flow.load import load
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.config.security.connection import handed_over
from twinlog.errors import ExitCode, UsageError
from twinlog.jsonable import Json
from twinlog.recovery.ways_home import named_flow
from twinlog.spark.protection import require_safe_way
from twinlog.spark.request import (
    AuditStepRequest,
    CopyRequest,
    FailbackRequest,
    FailoverRequest,
    OnStart,
    Request,
)
from twinlog.spark.session import PLANS_AS_THEY_ARE, session

if TYPE_CHECKING:
    from twinlog.audit.request import AuditRequest
    from twinlog.audit.result import AuditResult
    from twinlog.copying.result import CopyResult

SUBMITTED = ""
"""The master of an application that spark-submit started: the one it was submitted to."""


class Result(Protocol):
    """The result of a step; what is `told` of it has no contents of records: a log, or Airflow's database, keeps it.

    `exit_code` says whether the step did all, and found all in order.
    """

    @property
    def exit_code(self) -> ExitCode:
        """Return how the application ends."""

    @property
    def told(self) -> Json:
        """Return the result as JSON."""


def run(request: Request, *, master: str = SUBMITTED, on_start: OnStart = lambda _: None) -> Result:
    """Load the configuration, open a session on `master` and run the step, which alone is imported.

    `on_start` is called with the jobs that can be cancelled, before the first one.  Raises ConfigError for a wrong file
    or for a Spark that would not keep its passwords secret, UsageError if the file has no such flow, and what the step
    raises.
    """
    configuration = load(request.config, airflow=handed_over())
    flow = flow_named(configuration, request.flow)
    match request:
        case CopyRequest():
            return _copy(flow, request, master, on_start)
        case AuditStepRequest():
            return _audit(flow, request.audit, master, on_start)
        case FailoverRequest():
            from twinlog.spark.steps import failover

            return failover.run(configuration, flow, request, master, on_start)
        case FailbackRequest():
            from twinlog.spark.steps import failover

            return failover.run_home(configuration, flow, request, master, on_start)


def _copy(flow: FlowSettings, request: CopyRequest, master: str, on_start: OnStart) -> CopyResult:
    """Copy the flow, or follow it for `follow_seconds`."""
    require_safe_way(master, (flow.source.connection, flow.target.connection))
    seconds = request.follow_seconds
    if seconds is None:
        with session(
            master, f"twinlog {flow.name}", settings=PLANS_AS_THEY_ARE, meanwhile="twinlog.spark.steps.copy"
        ) as spark:
            from twinlog.spark.steps import copy

            return copy.run(flow, request, spark, master, on_start)
    with session(
        master,
        f"twinlog {flow.name}",
        flow.copy.lanes,
        settings=PLANS_AS_THEY_ARE,
        meanwhile="twinlog.spark.steps.follow",
    ) as spark:
        from twinlog.spark.steps import follow

        return follow.run(flow, request, seconds, spark, master, on_start)


def _audit(flow: FlowSettings, request: AuditRequest, master: str, on_start: OnStart) -> AuditResult:
    require_safe_way(master, (flow.source.connection, flow.target.connection))
    with session(
        master,
        f"twinlog audit {flow.name}",
        settings=PLANS_AS_THEY_ARE,
        meanwhile="twinlog.spark.steps.audit",
    ) as spark:
        from twinlog.spark.steps import audit

        return audit.run(flow, request, spark, master, on_start)


def flow_named(configuration: Configuration, name: str) -> FlowSettings:
    """Return one flow of a configuration file, or the one by which a flow of it goes home."""
    flows = configuration.flows
    if (home := named_flow(configuration, name)) is not None:
        return home
    if name not in flows:
        known = ", ".join(sorted(flows)) or "none"
        raise UsageError(f"{configuration.path} has no flow {name}", hint=f"it has {known}", flow=name)
    return flows[name]
