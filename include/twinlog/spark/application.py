"""A whole step as one Spark application: run by jobs/run_step.py and by a Connect client (driver)."""

from __future__ import annotations

import importlib
from typing import Protocol

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
    FailoverRequest,
    OnStart,
    Request,
)
from twinlog.spark.session import session

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
        case CopyRequest(follow_seconds=None):
            return _over_spark(flow, request, master, on_start, "copy", f"twinlog {flow.name}")
        case CopyRequest():
            return _over_spark(
                flow, request, master, on_start, "follow", f"twinlog {flow.name}", flow.copy.lanes
            )
        case AuditStepRequest():
            return _over_spark(flow, request, master, on_start, "audit", f"twinlog audit {flow.name}")
    from twinlog.spark.steps import failover

    if isinstance(request, FailoverRequest):
        return failover.run(configuration, flow, request, master, on_start)
    return failover.run_home(configuration, flow, request, master, on_start)


def _over_spark(
    flow: FlowSettings,
    request: CopyRequest | AuditStepRequest,
    master: str,
    on_start: OnStart,
    step: str,
    app_name: str,
    wanted: int | None = None,
) -> Result:
    """Run a step's module, which is imported while Spark starts, over a session that wants that many slots."""
    require_safe_way(master, (flow.source.connection, flow.target.connection))
    module = f"twinlog.spark.steps.{step}"
    with session(master, app_name, wanted, meanwhile=module) as spark:
        result: Result = importlib.import_module(module).run(flow, request, spark, master, on_start)
        return result


def flow_named(configuration: Configuration, name: str) -> FlowSettings:
    """Return one flow of a configuration file, or the one by which a flow of it goes home."""
    flows = configuration.flows
    if (home := named_flow(configuration, name)) is not None:
        return home
    if name not in flows:
        known = ", ".join(sorted(flows)) or "none"
        raise UsageError(f"{configuration.path} has no flow {name}", hint=f"it has {known}", flow=name)
    return flows[name]
