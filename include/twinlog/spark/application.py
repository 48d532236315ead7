"""A whole step as one Spark application: run by jobs/run_step.py and by a Connect client (driver)."""

from __future__ import annotations

import functools
import logging
import pickle
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from twinlog.cluster.open import open_clusters
from twinlog.config.flow.load import load
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.config.flow.tiers import SampledSide
from twinlog.config.security.connection import ConnectionSettings, handed_over
from twinlog.copying import copy
from twinlog.copying.progress import Lines
from twinlog.copying.result import CopyResult, keep_outcome
from twinlog.errors import ExitCode, TwinlogError, UsageError
from twinlog.jsonable import Json
from twinlog.spark import session as spark_session
from twinlog.spark.build import BUILD
from twinlog.spark.protection import require_safe_way
from twinlog.spark.request import AuditStepRequest, CopyRequest, FailbackRequest, FailoverRequest, Request
from twinlog.spark.runner import open_audit_runner, open_runner
from twinlog.spark.running import OnStart, Running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twinlog.audit.plan import AuditRequest
    from twinlog.audit.result import AuditResult
    from twinlog.data_rules.ask import DataRulesResult
    from twinlog.data_rules.sample import SampledPartition
    from twinlog.data_rules.suite import TopicRules

log = logging.getLogger(__name__)

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


def _nobody(_runner: Running) -> None:
    """Ignore a runner that ends with this process."""


def run(request: Request, *, master: str = SUBMITTED, on_start: OnStart = _nobody) -> Result:
    """Load the configuration, open a session on `master` and run the step, which alone is imported.

    `on_start` is called with the jobs that can be cancelled, before the first one.  Raises ConfigError for a wrong file
    or for a Spark that would not keep its passwords secret, UsageError if the file has no such flow, and what the step
    raises.  The user's own rules need a classic session.
    """
    configuration = load(request.config, airflow=handed_over())
    flow = flow_named(configuration, request.flow)
    match request:
        case CopyRequest():
            return _copy(flow, request, master, on_start)
        case AuditStepRequest():
            return _audit(flow, request.audit, master, on_start)
        case FailoverRequest():
            from twinlog.spark import failing_over

            return failing_over.run(configuration, flow, request, master, on_start)
        case FailbackRequest():
            from twinlog.spark import failing_back

            return failing_back.run(configuration, flow, request, master, on_start)
        case _:
            return _apply_rules(flow, master)


def _copy(flow: FlowSettings, request: CopyRequest, master: str, on_start: OnStart) -> CopyResult:
    """Copy the flow, or follow it for `follow_seconds`."""
    require_safe_way(master, (flow.source.connection, flow.target.connection, flow.transforms))
    topics = frozenset(request.topics) or None
    wanted = None if request.follow_seconds is None else flow.copy.lanes
    with open_runner(master, f"twinlog {flow.name}", wanted) as runner, open_clusters(flow) as clusters:
        on_start(runner)
        if request.follow_seconds is None:
            listener = Lines(log.info).tell
            result = copy.run(
                flow,
                clusters,
                runner,
                run_id=request.run_id,
                until_ms=request.until_ms,
                topics=topics,
                on_progress=listener,
            )
            keep_outcome(flow, clusters.target, result)
            return result
        from twinlog.follow import follow
        from twinlog.follow.background import HEAD_START_SECONDS, beside, turns
        from twinlog.follow.report import RunState

        runner.warm()  # a run that follows until now goes on meanwhile
        run_state = RunState(request.run_id, round(time.time() * 1000))
        with beside(flow, turns(flow, run_state), _log_error, head_start=HEAD_START_SECONDS):
            result = follow.run(
                flow,
                clusters,
                runner,
                run_id=request.run_id,
                seconds=request.follow_seconds,
                topics=topics,
                on_generation=lambda generation: log.info(generation.line),
                on_refresh=log.info,
                gives_way_to=lambda rival: (
                    bool(request.gives_way_to) and rival.startswith(request.gives_way_to)
                ),
                run_state=run_state,
            )
        keep_outcome(flow, clusters.target, result)
        return result


def _log_error(step: str, error: TwinlogError) -> None:
    log.warning("%s: %s", step, error)


def _audit(flow: FlowSettings, request: AuditRequest, master: str, on_start: OnStart) -> AuditResult:
    from twinlog.audit import audit

    require_safe_way(master, (flow.source.connection, flow.target.connection, flow.transforms))
    with open_audit_runner(master, f"twinlog audit {flow.name}") as runner, open_clusters(flow) as clusters:
        on_start(runner)
        return audit.run(flow, clusters, runner, request)


def _apply_rules(flow: FlowSettings, master: str) -> DataRulesResult:
    from twinlog.data_rules import ask as data_rules

    side = flow.source if flow.data_rules.side is SampledSide.SOURCE else flow.target
    with (
        spark_session.session(master, f"twinlog data rules {flow.name}") as spark,
        open_clusters(flow) as clusters,
    ):
        return data_rules.run(flow, clusters, functools.partial(_ask_on_spark, spark, side.connection))


def _ask_on_spark(
    spark: SparkSession,
    connection: ConnectionSettings,
    suite: Mapping[str, object],
    path: Path,
    partitions: Sequence[SampledPartition],
) -> tuple[TopicRules, ...]:
    """Read every partition in a task of its own, then apply the suite topic by topic."""
    from twinlog.data_rules.suite import ask
    from twinlog.spark.sample_task import SCHEMA, sample

    if not partitions:
        return ()
    read = functools.partial(sample, pickle.dumps((connection, tuple(partitions))), BUILD)
    frame = spark.range(0, len(partitions), 1, len(partitions)).mapInArrow(read, SCHEMA).cache()
    # Great Expectations runs dozens of small queries: one task each, not Spark's 200.
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    topics = sorted({it.topic for it in partitions})
    return tuple(ask(suite, path, topic, frame.where(frame.topic == topic).coalesce(1)) for topic in topics)


def flow_named(configuration: Configuration, name: str) -> FlowSettings:
    """Return one flow of a configuration file."""
    flows = configuration.flows
    if name not in flows:
        known = ", ".join(sorted(flows)) or "none"
        raise UsageError(
            f"{configuration.path} has no flow {name}", hint=f"it has {known}", code="unknown-flow", flow=name
        )
    return flows[name]
