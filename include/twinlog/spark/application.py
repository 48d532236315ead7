"""A whole copy, or audit, as one Spark application: run by the jobs and by a Connect client (driver)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from twinlog.audit import audit as audit_step
from twinlog.audit.plan import AuditRequest
from twinlog.audit.result import AuditResult
from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import handed_over
from twinlog.copying import copy
from twinlog.copying.progress import Lines
from twinlog.copying.result import CopyResult, keep_outcome
from twinlog.errors import TwinlogError, UsageError
from twinlog.follow import follow
from twinlog.follow.background import HEAD_START_SECONDS, beside, turns
from twinlog.follow.report import RunState
from twinlog.spark.audit_runner import open_audit_runner
from twinlog.spark.protection import require_safe_way
from twinlog.spark.runner import open_runner

log = logging.getLogger(__name__)

SUBMITTED = ""
"""The master of an application that spark-submit started: the one it was submitted to."""


class Running(Protocol):
    """Spark jobs that run on by themselves on a Connect server if their client is gone."""

    def cancel(self) -> None:
        """Cancel them."""


def _nobody(_runner: Running) -> None:
    """Ignore a runner that ends with this process."""


def replicate(
    config: Path,
    flow_name: str,
    run_id: str,
    *,
    until_ms: int | None = None,
    topics: Collection[str] | None = None,
    follow_seconds: float | None = None,
    gives_way_to: str = "",
    master: str = SUBMITTED,
    on_start: Callable[[Running], None] = _nobody,
) -> CopyResult:
    """Load the configuration, open a session on `master` and copy one flow, or follow it for `follow_seconds`.

    Following ends in order if a run takes over whose id begins with `gives_way_to`; if that is empty, every rival is
    an error.  `on_start` is called with the jobs that can be cancelled, before the first one.

    Raises ConfigError for a wrong file or for a Spark that would not keep its passwords secret, UsageError if the file
    has no such flow, and what the copy raises.
    """
    flow = flow_named(config, flow_name)
    require_safe_way(master, (flow.source.connection, flow.target.connection))
    with open_runner(master, f"twinlog {flow.name}") as runner, open_clusters(flow) as clusters:
        on_start(runner)
        if follow_seconds is None:
            listener = Lines(log.info).tell
            result = copy.run(
                flow, clusters, runner, run_id=run_id, until_ms=until_ms, topics=topics, on_progress=listener
            )
            keep_outcome(flow, clusters.target, result)
            return result
        runner.warm()  # a run that follows until now goes on meanwhile
        run_state = RunState(run_id, round(time.time() * 1000))
        with beside(flow, turns(flow, run_state), _log_trouble, head_start=HEAD_START_SECONDS):
            result = follow.run(
                flow,
                clusters,
                runner,
                run_id=run_id,
                seconds=follow_seconds,
                topics=topics,
                on_generation=lambda generation: log.info(generation.line),
                on_refresh=log.info,
                gives_way_to=lambda rival: bool(gives_way_to) and rival.startswith(gives_way_to),
                run_state=run_state,
            )
        keep_outcome(flow, clusters.target, result)
        return result


def _log_trouble(step: str, error: TwinlogError) -> None:
    log.warning("%s: %s", step, error)


def audit(
    config: Path,
    flow_name: str,
    request: AuditRequest | None = None,
    *,
    master: str = SUBMITTED,
    on_start: Callable[[Running], None] = _nobody,
) -> AuditResult:
    """Load the configuration, open a session on `master` and audit one flow; `on_start` as for `replicate`.

    Raises ConfigError for a wrong file or for a Spark that would not keep its passwords secret, UsageError if the file
    has no such flow, and what the step `audit` raises.
    """
    flow = flow_named(config, flow_name)
    require_safe_way(master, (flow.source.connection, flow.target.connection))
    with open_audit_runner(master, f"twinlog audit {flow.name}") as runner, open_clusters(flow) as clusters:
        on_start(runner)
        return audit_step.run(flow, clusters, runner, request)


def flow_named(config: Path, name: str) -> FlowSettings:
    """Return one flow of a configuration file."""
    flows = load(config, airflow=handed_over()).flows
    if name not in flows:
        known = ", ".join(sorted(flows)) or "none"
        raise UsageError(
            f"{config} has no flow {name}", hint=f"it has {known}", code="unknown-flow", flow=name
        )
    return flows[name]
