"""One whole cycle of a flow as one task, for Dags of your own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context

from twinlog import clock
from twinlog.airflow.assets import remote_cluster, with_outlet
from twinlog.airflow.cycle import CycleRequest, asset_extra, reported_copy, source_topics
from twinlog.airflow.flows import configuration_path
from twinlog.airflow.following import driver_name
from twinlog.airflow.operators.copy import COPY, failure_of, listed, why_no_job
from twinlog.airflow.operators.spark_job import SparkStepOperator, error_of
from twinlog.airflow.retries import with_retries
from twinlog.airflow.tasks.cycle import REPORT, overdue_drills, ranges_told, tell
from twinlog.airflow.tasks.frame import opened, shown, warn_of_file
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import shortened
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.jsonable import Json, to_json

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.cycle import Begun, Concluded
    from twinlog.spark.request import CopyRequest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Copied:
    """The result of the copy as JSON, None if there was nothing to copy, and what kept it from being complete.

    `left_to` is the run that copies in its place; `held` says who suspended the flow and why.
    """

    outcome: Json | None = None
    failure: Exception | None = None
    left_to: str = ""
    held: str = ""


class ReplicateOperator(SparkStepOperator):
    """Run one cycle of a flow: its topics, its copy on Spark, its groups, heartbeats, checks and report.

    It does in one task what the Dag `replicate__A__B` does in nine, where that Dag would submit to Spark, and skips
    the Spark job if there is nothing to copy.  It may be run again at any time: a retry goes on exactly where the
    last committed transaction ends.  If `twinlog run` leads the flow, the copy is left to it.

        ReplicateOperator(task_id="replicate", flow="A->B", topics=["orders", "payments"])

    `topics` are source topics, None means all of the flow.  `flow` and `topics` are templates.  The XCom is the
    cycle's report as JSON, also of a cycle that failed: `state` (done, nothing, failed), `records`, `bytes`,
    `lag_records`, `rpo_seconds`, `topics`, and `left_to`, the run that copies in its place.  A success sends an event
    of the asset `twinlog://B`.  A flow that is paused or was failed over is reported, and the task skipped.

    Raises UsageError for a flow or a topic that there is not, FencedError if another driver holds the flow, and
    TransientError or TerminalError if not everything is copied or a critical check fails.
    """

    template_fields = ("flow", "topics")

    def __init__(self, *, flow: str, topics: Sequence[str] | None = None, **arguments: Any) -> None:
        arguments = with_outlet(with_retries(arguments), flow, remote_cluster)
        super().__init__(step=COPY, flow=flow, **arguments)
        self.topics = topics

    def execute(self, context: Context) -> Json:
        """Run the cycle, and return its report."""
        from twinlog.cycle import conclude
        from twinlog.monitoring.exporter import Board

        started_ms, flow = clock.now_ms(), self.settings()
        warn_of_file()
        run_id = _driver(context["ti"])
        copied = self._copied(flow, run_id, source_topics(self.topics), context["ti"].try_number)
        try:
            with opened(flow) as clusters:
                board, overdue = Board(flow), overdue_drills(flow, clusters)
                done = conclude(
                    flow,
                    clusters,
                    run_id,
                    copied.outcome,
                    started_ms,
                    board,
                    log.warning,
                    failed=copied.failure is not None,
                )
        except TwinlogError as error:
            if copied.failure is None:
                raise
            log.warning("the cycle is not reported: %s", error)
            raise copied.failure from error
        report = tell(flow, done.report, board, overdue, context)
        document = shortened({**report, "left_to": copied.left_to}, REPORT)
        if failure := copied.failure or _held(flow, copied.held) or wanting(done):
            context["ti"].xcom_push("return_value", document)
            raise failure
        checks = {"checks": to_json(done.failed_checks)}
        context["outlet_events"][remote_cluster(flow.target.alias)].extra = asset_extra(report, checks)
        return document

    def _copied(
        self, flow: FlowSettings, run_id: str, topics: tuple[str, ...] | None, try_number: int
    ) -> _Copied:
        """Copy what there is.  Raises only errors from before the copy: nothing is there to be reported then."""
        from twinlog.follow.leading import live_leader
        from twinlog.spark.request import CopyRequest

        with opened(flow) as clusters:
            if (leader := live_leader(flow, clusters.target)) is not None:
                log.info("%s leads and follows %s: the copy is left to it", leader.place, flow.name)
                return _Copied(left_to=leader.run_id)
            begun = _begun(flow, clusters, topics)
        if held := begun.snapshot.discovery.stands_by:
            return _Copied(held=held)
        refused = not_placed(begun)
        try:
            reason = why_no_job(to_json(begun.planned), CycleRequest(topics=topics or ()), try_number)
        except TwinlogError as error:
            return _Copied(reported_copy(None, ["copy"]), error)
        if reason:
            log.info(reason)
            return _Copied(failure=refused)
        request = CopyRequest(config=configuration_path(), flow=flow.name, run_id=run_id, topics=topics or ())
        return self._on_spark(flow, request, refused)

    def _on_spark(self, flow: FlowSettings, request: CopyRequest, refused: TerminalError | None) -> _Copied:
        try:
            outcome = self.run_on_spark(request, flow.copy.spark_master)
            broken = error_of(outcome)
        except TwinlogError as error:
            outcome, broken = None, error
        if broken is not None or outcome is None:
            return _Copied(reported_copy(None, ["copy"]), broken)
        self.note_lineage(flow, outcome)
        return _Copied(outcome, failure_of(outcome) or refused)


def _begun(flow: FlowSettings, clusters: Clusters, topics: tuple[str, ...] | None) -> Begun:
    from twinlog.cycle import begin
    from twinlog.monitoring import heartbeats

    if topics is None and (warning := heartbeats.make_ready(flow, clusters.source)):
        log.warning(warning)
    begun = begin(flow, clusters, topics, None, hint="correct `topics` of this task")
    for line in begun.synced.notes:
        log.warning(line)
    shown(begun.planned, ranges=ranges_told(begun.planned))
    return begun


def _held(flow: FlowSettings, held: str) -> Exception | None:
    """Return the skip of a flow that is suspended: tasks after this one must not take it for copied."""
    if not held:
        return None
    skipped: Exception = AirflowSkipException(f"{flow.name} is {held}: nothing is copied")
    return skipped


def not_placed(begun: Begun) -> TerminalError | None:
    """Return the error of topics that have no place on the target, though the others are copied.  Pure."""
    from twinlog.cycle import not_synced

    issues = list(not_synced(begun.synced))
    if not issues:
        return None
    return TerminalError(
        f"{len(issues)} topics are not copied: {listed([f'{issue.where}: {issue.message}' for issue in issues])}",
        hint="the others are copied",
        code="cycle",
    )


def wanting(done: Concluded) -> TwinlogError | None:
    """Return the error of what followed the copy: a critical check, or groups that could not be handled.  Pure."""
    critical = [
        f"{check.name}: {check.message}" for check in done.failed_checks if check.severity == "critical"
    ]
    if critical:
        hint = "do not rely on this copy before it is understood"
        return TerminalError(listed(critical), hint=hint, code="validation")
    if done.groups.error:
        kind = TransientError if done.groups.transient else TerminalError
        return kind(
            f"groups: {done.groups.error}", hint="the records are copied; run the task again", code="cycle"
        )
    return None


def _driver(ti: Any) -> str:
    """Name this try for the fence, apart from other tasks of the same run that copy the flow."""
    place = ti.task_id if ti.map_index < 0 else f"{ti.task_id}[{ti.map_index}]"
    return driver_name(f"{ti.dag_id}/{place}", ti.run_id, ti.try_number)
