"""Fail over with an approval that a person gave beforehand, to a preview: it holds for what that preview said.

An approval outlives its process: the same failover is tried again with it after a crash or an error.  If an earlier
try ended the failover and died before it could report that, the next try reports it.  An approval does not outlive an
abort, and it does not cover a loss that is larger than the one that was shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Cluster, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FencedError, TerminalError
from twinlog.formats.ledger.recovery import RunState
from twinlog.gate.accepting import Person, accept, all_of, keep_shown, require_approver, shown_as
from twinlog.jsonable import Json
from twinlog.judge.check import Mode
from twinlog.procedure import StepName
from twinlog.recovery import failover
from twinlog.recovery.procedure import Actor
from twinlog.recovery.report import FailoverReport, at_risk
from twinlog.recovery.reverse import as_noted
from twinlog.recovery.steps.ending import AGAIN
from twinlog.recovery.steps.loss import read_loss
from twinlog.recovery.steps.world import Answer, Request, Tools
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.snapshot import FlowSnapshot

ACCEPTED_FOR_MS = 8 * 3_600_000
"""How long what was accepted with a failover counts: it may be taken up again."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Tell who approved, and what was shown: records known to be lost, and the last failover that was taken back.

    `driver` names what was approved, such as a Dag run: every try of it works for the same failover.  `cost` is what
    was approved; "" if that is still to be asked.
    """

    by: str
    known: int
    last_ended: str
    driver: str
    cost: str = ""


def last_ended(ledger: Ledger) -> str:
    """Return the newest failover that was aborted, or whose flow follows again; "" if there is none.  Pure."""
    over = [it.run for it in ledger.recoveries if it.state in {RunState.ABORTED, RunState.RETURNED}]
    return over[-1] if over else ""


def kept(flow: FlowSettings, target: Cluster, report: FailoverReport) -> FailoverReport:
    """Keep for a day what a dry run showed, and give it a name; it has none if the ledger cannot be written to."""
    lost, ended = at_risk(report.topics).least, last_ended(read_ledger(flow, target))
    try:
        return replace(report, seen=keep_shown(flow, target, report.mode.value, report.accept, lost, ended))
    except ClusterRefused:
        return report


def accepting(
    flow: FlowSettings, target: Cluster, mode: Mode, seen: str, person: Person, reason: str
) -> Approval:
    """Accept all that a dry run showed, each by its name and number, and say yes to what it said is lost.

    Raises TerminalError `not-seen` if no dry run of this mode and day has that name, and `no-approver`.
    """
    shown, now_ms = shown_as(flow, target, seen, mode.value), clock.now_ms()
    require_approver(flow, person.by)
    accept(flow, target, all_of(shown, person, reason, now_ms + ACCEPTED_FOR_MS, now_ms))
    return Approval(person.by, shown.lost or 0, shown.last_ended, "", cost=f"as {seen} showed")


def run(
    flow: FlowSettings,
    clusters: Clusters,
    mode: Mode,
    approval: Approval,
    tools: Tools,
    only: Iterable[StepName] = (),
    found: Json | None = None,
) -> FailoverReport:
    """Fail over, or go on with the failover that is under way, as `failover.run` does; `only` and `found` as there.

    Raises TerminalError `approval-expired` if a failover was aborted since, `promoted` if the flow was failed over by
    others, and `relieved` if another process has taken over: a second try would take it back from a person.
    """
    flow = as_noted(flow, clusters.target)
    if last_ended(read_ledger(flow, clusters.target)) != approval.last_ended:
        raise TerminalError(
            f"{flow.name}: a failover was taken back after {approval.by} had approved",
            hint=AGAIN,
            code="approval-expired",
        )

    def approve(question: str) -> Answer:
        if not approval.cost:
            return tools.approve(question)
        if mode is Mode.SOURCE_DEAD:
            _require_shown(flow, clusters, approval)
        return Answer.YES

    # A Dag's question named the cost; a dry run is accepted by its numbers.
    agreed = approval.cost if mode is Mode.PLANNED and approval.driver else ""

    asked = Request(approval.by, mode, driver=approval.driver, only=frozenset(only), found=found or {})
    try:
        with relieved_for_good():
            return failover.run(flow, clusters, asked, replace(tools, approve=approve, agreed=agreed))
    except TerminalError as error:
        ended = read_ledger(flow, clusters.target).present_recovery if error.code == "promoted" else None
        if ended is None or not (ended.cleared and Actor(ended.by, ended.holder).works_for(approval.driver)):
            raise
        return failover.report_of(flow, ended)


@contextmanager
def relieved_for_good() -> Iterator[None]:
    """Raise TerminalError if another process has taken over: a second try would take it back from a person."""
    try:
        yield
    except FencedError as error:
        if error.code != "relieved":
            raise
        raise TerminalError(error.message, hint=error.hint, code=error.code, **error.data) from None


def _require_shown(flow: FlowSettings, clusters: Clusters, approval: Approval) -> None:
    """Raise TerminalError if more is lost than the person who approved was shown."""
    known = at_risk(read_loss(FlowSnapshot(flow, clusters)).topics).least
    if known > approval.known:
        raise TerminalError(
            f"{known:,} records are known to be lost, {approval.by} approved {approval.known:,}",
            hint=AGAIN,
            code="approval-expired",
        )
