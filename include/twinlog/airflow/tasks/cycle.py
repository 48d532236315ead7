"""The tasks of a cycle: read the request, open the clusters, call the step, return its result as JSON."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import get_current_context

from twinlog.airflow import gauges
from twinlog.airflow.alerts import BACKFILL, RpoAlert, sound_if_overdue
from twinlog.airflow.assets import groups_synced, remote_cluster, remote_groups
from twinlog.airflow.cycle import (
    CycleRequest,
    asset_extra,
    failed_tasks,
    reported_copy,
    request_of,
    why_not_a_success,
    why_nothing_was_copied,
)
from twinlog.airflow.tasks.frame import (
    discovered,
    flow_of,
    opened,
    opened_own,
    shown,
    skip_out_of_service,
    warn_of_file,
)
from twinlog.airflow.versions import AirflowSkipException
from twinlog.airflow.xcom import shortened
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError, UsageError
from twinlog.jsonable import Json, to_json

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.ranges import RangePlan
    from twinlog.groups.report import CheckpointsResult
    from twinlog.monitoring.exporter import Board

log = logging.getLogger(__name__)

MOST_GROUPS = 100
"""Groups listed in an event and in a task's result: XCom is a table of the metadata database."""

REFUSED_KEY = "refused"
"""The XCom of task `discover` that says why the form cannot be used: there is no cycle then."""

REPORT = "`twinlog status`; the newest report is in the ledger (cycle-report)"


def discover(flow_name: str) -> Json:
    """Run the step.  Raises UsageError if the form names a topic that the flow does not replicate.

    Before that, the heartbeat that this flow copies is written on the source, unless this is a dry run, or copies only
    topics that the form names.
    """
    from twinlog.monitoring import heartbeats as emitting
    from twinlog.steps import discover as step

    request = _request()
    warn_of_file()
    with working(flow_name) as (flow, clusters):
        copies_heartbeats = not (request.dry_run or request.topics)
        if copies_heartbeats and (warning := emitting.make_ready(flow, clusters.source)):
            log.warning("%s", warning)
        discovery = step.run(flow, clusters)
    known = {topic.topic for topic in discovery.topics}
    unknown = [topic for topic in request.topics if topic not in known]
    if unknown:
        reasons = {item.topic: item.reason for item in discovery.left_out}
        why = (
            f"{flow.name} does not replicate {', '.join(unknown)}: {reasons.get(unknown[0], 'no such topic')}"
        )
        get_current_context()["ti"].xcom_push(REFUSED_KEY, why)
        raise UsageError(why, "correct `topics` in the trigger form", flow=flow.name)
    left_out = dict(Counter(out.reason for out in discovery.left_out))
    return shortened(shown(discovery, left_out=left_out), "`twinlog plan`")


def brings_home(flow_name: str) -> bool:
    """Say whether there is something to do for a flow that only brings clients home; if not, the log says why."""
    from twinlog.recovery.reverse import why_nothing_home
    from twinlog.state.ledger import read_ledger

    flow = flow_of(flow_name)
    with opened_own(flow) as clusters:
        why = why_nothing_home(flow, read_ledger(flow, clusters.target))
    if why:
        log.info("nothing to do: %s", why)
    return not why


def sync_topics(flow_name: str) -> Json:
    """Run the step; a dry run only says what it would change."""
    from twinlog.steps import sync_topics as step

    with working(flow_name) as (flow, clusters):
        return shortened(shown(step.run(flow, clusters, dry_run=_request().dry_run)), "`twinlog plan`")


def plan_ranges(flow_name: str) -> Json:
    """Run the step."""
    from twinlog.steps import plan_ranges as step

    request = _request()
    with working(flow_name) as (flow, clusters):
        topics = frozenset(request.topics) or None
        plan = step.run(flow, clusters, until_ms=request.until_ms, topics=topics)
    return shortened(shown(plan, ranges=ranges_told(plan)), "`twinlog plan`")


def ranges_told(plan: RangePlan) -> list[Json]:
    """Return what a log says of the ranges; the XCom also has what lanes need to know.  Pure."""
    names = ("topic", "partition", "start", "end", "remote_topic")
    return [{name: getattr(span, name) for name in names} for span in plan.ranges]


def offset_syncs(flow_name: str) -> Json:
    """Run the step; a dry run only counts.

    A source that cannot be written to is a warning.
    """
    from twinlog.steps import offset_syncs as step

    with working(flow_name) as (flow, clusters):
        result = step.run(flow, clusters, dry_run=_request().dry_run)
    if result.warning:
        log.warning(result.warning)
    return shortened(shown(result), "the topic of offset-syncs")


def checkpoints(flow_name: str, outlet_events: Any) -> Json:
    """Run the step, and send an event with the groups whose positions were committed.  A dry run only reports.

    Skipped if a cluster does not allow it: the copy goes on without.
    """
    from twinlog.steps import checkpoints as step

    with working(flow_name) as (flow, clusters):
        try:
            result = step.run(flow, clusters, dry_run=_request().dry_run)
        except ClusterRefused as error:
            # A copy does not need the ACLs for it (`twinlog check`).
            raise AirflowSkipException(f"groups are not looked after: {error}") from error
    if result.groups_synced:
        extra = {
            "flow": flow.name,
            "groups": list(result.groups_synced[:MOST_GROUPS]),
            "groups_not_shown": max(0, len(result.groups_synced) - MOST_GROUPS),
            "positions": result.committed,
        }
        outlet_events[groups_synced(flow.name)].add(remote_groups(flow.target.alias), extra=extra)
    return shortened(shown(shown_groups(result)), "`twinlog groups`")


def heartbeats(flow_name: str) -> Json:
    """Write heartbeats for the flow, its disabled reverse flow, and pairs without a flow; skipped in a dry run."""
    from twinlog.steps import heartbeats as step

    if _request().dry_run:
        raise AirflowSkipException("dry run: no heartbeat is written")
    with working(flow_name) as (flow, clusters):
        result = step.run(flow, clusters)
    if result.warning:
        log.warning("%s", result.warning)
    return shortened(shown(result), "`twinlog status`")


def validate(flow_name: str) -> Json:
    """Run the step.  Raises TerminalError if a critical check failed: the copy must not be relied upon."""
    from twinlog.steps import validate as step

    context = get_current_context()
    copied = context["ti"].xcom_pull(task_ids="copy") or {}
    with working(flow_name) as (flow, clusters):
        result = step.run(flow, clusters, context["dag_run"].run_id, copied=bool(copied.get("records")))
    document = shown(result)
    document = shortened(document, "the page, and the log of this task", checks=lambda it: bool(it["passed"]))
    if not result.success:
        context["ti"].xcom_push("return_value", document)
        raise TerminalError(
            "; ".join(f"{check.name}: {check.message}" for check in result.failed),
            "do not rely on this copy before it is understood",
            code="validation",
        )
    return document


def publish(flow_name: str, outlet_events: Any) -> Json:
    """Write the cycle report, and the extra of the asset event that a success sends; skipped in a dry run.

    Skipped, too, once the cycle of a suspended flow is reported: nothing was copied, so other Dags are told nothing.
    Raises TerminalError if an earlier task of the run failed, or a topic could not get its copy.  The report is
    written, but a cycle that did not copy everything is not a success, and Airflow judges a run by its last task
    alone.  Raises UsageError, and writes none, if the form could not be used: nothing is wrong with the flow.
    """
    from twinlog.monitoring.exporter import Board
    from twinlog.steps import publish as step

    if _request().dry_run:
        raise AirflowSkipException("dry run: there is no cycle to report")
    context = get_current_context()
    run, ti = context["dag_run"], context["ti"]
    if refused := ti.xcom_pull(task_ids="discover", key=REFUSED_KEY):
        raise UsageError(f"no cycle is reported: {refused}", "correct the trigger form")
    failed = failed_tasks(ti.get_task_states(run.dag_id, run_ids=[run.run_id]).get(run.run_id, {}))
    copied = reported_copy(ti.xcom_pull(task_ids="copy"), failed)
    reasons = why_not_a_success(failed, ti.xcom_pull(task_ids="sync_topics"))
    started_ms = round(run.start_date.timestamp() * 1000)
    with working(flow_name) as (flow, clusters):
        board = Board(flow)
        tell_others(board, ti.xcom_pull(task_ids="validate"), ti.xcom_pull(task_ids="checkpoints"))
        overdue = overdue_drills(flow, clusters)
        made = step.run(
            flow,
            clusters,
            run.run_id,
            copied,
            started_ms,
            failed=bool(reasons),
            board=board,
            tells=not run.run_id.startswith(BACKFILL),
        )
    report = shown(made)
    gauges.send(flow, board.now())
    if report["alarms"]:
        RpoAlert(flow=flow.name, text="; ".join(report["alarms"])).sound(context)
    sound_if_overdue(overdue, flow, context)
    if reasons:
        ti.xcom_push("return_value", shortened(report, REPORT))
        raise TerminalError(f"the cycle is reported, but {'; '.join(reasons)}", code="cycle")
    if held := why_nothing_was_copied(flow.name, discovered(flow, ti), copied):
        ti.xcom_push("return_value", shortened(report, REPORT))
        raise AirflowSkipException(f"{held}; the cycle is reported, and sends no event")
    checks = ti.xcom_pull(task_ids="validate")
    outlet_events[remote_cluster(flow.target.alias)].extra = asset_extra(report, checks)
    return shortened(report, REPORT)


def tell_others(board: Board, checks: Json | None, groups: Json | None) -> None:
    """Add what the XComs of `validate` and `checkpoints` count to the numbers that `publish` writes."""
    from twinlog.monitoring.metrics import FAILED_CHECKS
    from twinlog.monitoring.samples import of_groups

    if checks is not None:
        failed = Counter(check["severity"] for check in checks["checks"] if not check["passed"])
        board.tell("checks", [FAILED_CHECKS.of(failed[it], it) for it in ("critical", "warning")])
    if groups is not None:
        board.tell("groups", of_groups(groups["groups"], groups["states"], groups["latency_ms"]))


def overdue_drills(flow: FlowSettings, clusters: Clusters) -> list[str]:
    """Return the alarm if, since the last cycle's report, no drill has passed for too long, or for another day."""
    from twinlog import clock
    from twinlog.monitoring.alarm import drill_overdue
    from twinlog.state.ledger import read_ledger

    if flow.failover.drill_age_seconds is None:
        return []
    ledger = read_ledger(flow, clusters.target)
    if ledger.phase.out_of_service:
        return []
    reported_ms = ledger.last_report.at_ms if ledger.last_report is not None else 0
    return drill_overdue(flow, ledger.drills, reported_ms, clock.now_ms())


@contextmanager
def working(flow_name: str) -> Iterator[tuple[FlowSettings, Clusters]]:
    """Open the clusters of a flow; one that only brings home knows its topics from its ledger.

    Raises AirflowSkipException if a cluster does not answer, and the flow was failed over: its source may be lost.
    """
    from twinlog.recovery.reverse import as_noted

    flow = flow_of(flow_name)
    try:
        with opened(flow) as clusters:
            yield as_noted(flow, clusters.target), clusters
    except ClusterUnreachable as error:
        with opened(flow) as clusters:
            skip_out_of_service(flow, clusters, f"nothing is copied; {error.message}")
        raise


def _request() -> CycleRequest:
    return request_of(get_current_context())


def shown_groups(result: CheckpointsResult) -> Json:
    """Choose what a task log and XCom show of thousands of groups: counts, and those that need attention."""
    from twinlog.groups.checkpoints import counts

    plain = ("flow", "groups", "checkpoints", "ended", "deleted", "committed", "latency_ms")
    return {
        **{name: getattr(result, name) for name in plain},
        "positions": counts(result),
        "states": dict(result.states),
        "wrongly": to_json(result.wrongly[:MOST_GROUPS]),
        "uncovered": to_json(result.uncovered[:MOST_GROUPS]),
        "notes": list(result.notes),
    }
