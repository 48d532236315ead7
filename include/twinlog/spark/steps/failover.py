"""A failover, or the way home, as a Spark application: what it copies and audits runs where the application runs."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from twinlog.audit.lane import LocalAuditRunner
from twinlog.cluster.api import open_clusters
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.gate.evidence import Seal
from twinlog.judge.check import Mode
from twinlog.lane.spec import LaneReport, LaneSpec
from twinlog.procedure import Outcome, StepName
from twinlog.recovery import approved
from twinlog.recovery.approved import Approval
from twinlog.recovery.failback import home
from twinlog.recovery.one_sided.read import opened_logs
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import FailbackReport, FailoverReport
from twinlog.recovery.reverse import Way, opened_reverse
from twinlog.recovery.steps.world import Answer, Tools
from twinlog.recovery.ways_home import way_home
from twinlog.spark.protection import require_safe_way
from twinlog.spark.request import FailbackRequest, FailoverRequest, OnStart
from twinlog.spark.runner import SparkRunner, open_runner

log = logging.getLogger(__name__)


def run(
    configuration: Configuration, flow: FlowSettings, request: FailoverRequest, master: str, on_start: OnStart
) -> FailoverReport:
    """Fail over, or do some steps of it; a session is opened once there is something to copy, or to audit."""
    approval = Approval(
        request.by,
        request.last_ended,
        request.driver,
        request.cost,
        request.known,
        rejected=request.rejected,
    )
    only = map(StepName, request.only)
    with (
        open_clusters(flow) as clusters,
        opened_reverse(configuration, flow) as reverse,
        opened_tools(configuration, flow, master, on_start, reverse) as tools,
    ):
        return approved.run(flow, clusters, Mode(request.mode), approval, tools, only, request.found)


def run_home(
    configuration: Configuration, flow: FlowSettings, request: FailbackRequest, master: str, on_start: OnStart
) -> FailbackReport:
    """Go home, or do some steps of it; a session as for a failover."""
    back = way_home(configuration, flow)
    tail = Tail(request.tail) if request.tail is not None else None
    approval = Approval(
        request.by,
        request.last_turned_back,
        request.driver,
        request.cost,
        failover=request.failover,
        rejected=request.rejected,
    )
    only = map(StepName, request.only)
    with (
        open_clusters(flow) as clusters,
        open_clusters(back) as reversed_ones,
        opened_logs(flow) as read,
        opened_tools(configuration, flow, master, on_start) as tools,
    ):
        ways = Way(flow, clusters), Way(back, reversed_ones)
        return home.run_approved(*ways, approval, tools, read, only, request.found, tail)


@contextmanager
def opened_tools(
    configuration: Configuration,
    flow: FlowSettings,
    master: str,
    on_start: OnStart,
    reverse: Way | None = None,
) -> Iterator[Tools]:
    """Give what a failover or a way home needs, for as long as it runs; a person has approved it beforehand."""
    require_safe_way(master, (flow.source.connection, flow.target.connection))
    seal = Seal.of(configuration, flow)
    with ExitStack() as session:

        @functools.cache
        def copies() -> SparkRunner[LaneSpec, LaneReport]:
            runner = session.enter_context(open_runner(master, f"twinlog recovery {flow.name}"))
            on_start(runner)
            return runner

        yield Tools(
            copies=copies,
            audits=lambda: copies().audits() if master.startswith("sc://") else LocalAuditRunner(),
            approve=lambda _question: Answer.NOBODY,  # the approval takes its place
            sleep=time.sleep,
            seal=seal,
            told=log_step,
            reverse=reverse,
        )


def log_step(name: StepName, outcome: Outcome | None) -> None:
    """Write a step that begins, or has ended, to the log."""
    if outcome is None:
        log.info("%s ...", name.value)
    else:
        log.info("%s: %s: %s", name.value, outcome.state.value, outcome.message)
