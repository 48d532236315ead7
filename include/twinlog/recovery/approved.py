"""Fail over with an approval that a person gave beforehand, to a preview: it holds for what that preview said.

An approval outlives its process: the same failover is tried again with it after a crash or an error.  If an earlier
try ended the failover and died before it could report that, the next try reports it.  An approval does not outlive an
abort, and it does not cover a loss that is larger than the one that was shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from twinlog import clock
from twinlog.cluster.api import Cluster, Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, FencedError, TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun, RunState
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
from twinlog.recovery.transitions import way_home
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.snapshot import FlowSnapshot

ACCEPTED_FOR_MS = 8 * 3_600_000
"""How long what was accepted with a failover counts: it may be taken up again."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Tell who answered, and what was shown: what a yes would cost, and the last run that had been taken back.

    `driver` names what was approved, such as a Dag run: every try of it works for the same run.  Without `by` the
    answer is the one in the ledger that was given to that.  `cost` is "" if that is still to be asked.  `known` records
    were known to be lost, `failover` is the one from which a way home comes back.
    """

    by: str
    last_ended: str
    driver: str = ""
    cost: str = ""
    known: int = 0
    failover: str = ""
    rejected: bool = False

    def of_ledger(self, ledger: Ledger) -> Approval:
        """Return the answer that is to be found in the ledger.  Raises TerminalError `not-approved` without a yes."""
        if self.by:
            return self
        run = ledger.present_recovery or way_home(ledger)
        said = run.answered if run is not None else None
        if said is None or not said.yes or said.driver != self.driver:
            raise TerminalError(
                "nobody has approved what is known now",
                "clear the tasks `gate` and `approve`: that asks anew",
                code="not-approved",
            )
        return replace(self, by=said.by, cost=said.cost, known=said.known)

    def giving(self, tools: Tools, require_shown: Callable[[], None] | None = None) -> Tools:
        """Return tools that give this answer; a yes is to the same cost, or to what `require_shown` lets pass."""

        def approve(question: str) -> Answer:
            if self.rejected or not self.cost:
                return Answer.NO if self.rejected else tools.approve(question)
            if require_shown is not None:
                require_shown()
            return Answer.YES

        same = self.cost if self.driver and require_shown is None and not self.rejected else ""
        return replace(tools, approve=approve, agreed=same)

    def ended(self, ledger: Ledger) -> RecoveryRun | None:
        """Return the run that an earlier try has ended, if the flow's state is still that of its end.  Pure."""
        run = ledger.present_recovery
        if run is None or not run.cleared or run.failover != self.failover:
            return None
        return run if Actor(run.by, run.holder).works_for(self.driver) else None


def last_ended(ledger: Ledger) -> str:
    """Return the newest failover that was aborted, or whose flow follows again; "" if there is none.  Pure."""
    over = [
        recovery.run
        for recovery in ledger.recoveries
        if recovery.state in {RunState.ABORTED, RunState.RETURNED}
    ]
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
    return Approval(person.by, shown.last_ended, cost=f"as {seen} showed", known=shown.lost or 0)


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
    ledger = read_ledger(flow, clusters.target)
    if last_ended(ledger) != approval.last_ended:
        raise TerminalError(
            f"{flow.name}: a failover was taken back after {approval.by or 'somebody'} had approved",
            AGAIN,
            code="approval-expired",
        )
    if ledger.phase is FlowPhase.PROMOTED and (over := approval.ended(ledger)) is not None:
        return failover.report_of(flow, over)
    approval = approval.of_ledger(ledger)
    lost = mode is Mode.SOURCE_DEAD or not approval.driver  # a dry run is accepted by its numbers
    shown = partial(_require_shown, flow, clusters, approval) if lost else None
    asked = Request(approval.by, mode, driver=approval.driver, only=frozenset(only), found=found or {})
    with relieved_for_good():
        return failover.run(flow, clusters, asked, approval.giving(tools, shown))


@contextmanager
def relieved_for_good() -> Iterator[None]:
    """Raise TerminalError if another process has taken over: a second try would take it back from a person."""
    try:
        yield
    except FencedError as error:
        if error.code != "relieved":
            raise
        raise TerminalError(error.message, error.hint, code=error.code, **error.data) from None


def _require_shown(flow: FlowSettings, clusters: Clusters, approval: Approval) -> None:
    """Raise TerminalError if more is lost than the person who approved was shown."""
    known = at_risk(read_loss(FlowSnapshot(flow, clusters)).topics).least
    if known > approval.known:
        raise TerminalError(
            f"{known:,} records are known to be lost, {approval.by} approved {approval.known:,}",
            AGAIN,
            code="approval-expired",
        )
