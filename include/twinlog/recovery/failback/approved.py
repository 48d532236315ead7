"""Go home with an approval that a person gave beforehand, to a preview: it holds for the failover that it showed.

As that of a failover, it outlives its process, and not a person who has turned back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FencedError, TerminalError
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, RunState
from twinlog.recovery.failback import home, home_steps
from twinlog.recovery.failback.failback import FailbackReport
from twinlog.recovery.one_sided.read import Read
from twinlog.recovery.procedure import Actor, Tail
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.scene import Answer, Tools
from twinlog.recovery.transitions import way_home
from twinlog.state.ledger import Ledger, read_ledger


@dataclass(frozen=True, slots=True)
class Approval:
    """Tell who approved, what becomes of the tail, and what was shown: the failover, and the last turning back.

    `driver` names what was approved, such as a Dag run: every try of it works for the same way home.
    """

    by: str
    failover: str
    last_turned_back: str
    tail: Tail | None
    driver: str


def last_turned_back(ledger: Ledger) -> str:
    """Return the newest way home that was given up; "" if there is none.  Pure."""
    over = [
        it.run
        for it in ledger.recoveries
        if it.mode == FAILBACK and it.failover and it.state is RunState.ABORTED
    ]
    return over[-1] if over else ""


def run(there: Way, back: Way, approval: Approval, tools: Tools, read: Read) -> FailbackReport:
    """Bring the flow `there` home as `home.run` does, or tell of a way home that an earlier try has ended.

    Raises TerminalError `approval-expired` if the flow was failed over anew, or a person has turned back since, and
    `relieved` if another process has taken over: a second try would take it back from a person.
    """
    flow, target = there.flow, there.clusters.target
    ledger = read_ledger(flow, target)
    if (ended := _ended(ledger, approval)) is not None:
        return home_steps.report_of(flow, ledger, ended)
    _require_valid(flow, ledger, approval)
    request = home.Request(approval.by, approval.tail, driver=approval.driver)
    try:
        return home.run(there, back, request, replace(tools, approve=lambda _question: Answer.YES), read)
    except (FencedError, TerminalError) as error:
        if error.code == "relieved":
            raise TerminalError(error.message, hint=error.hint, code=error.code, **error.data) from None
        raise


def _ended(ledger: Ledger, approval: Approval) -> RecoveryRun | None:
    """Return the way home that an earlier try has ended, if the flow's state is still that of its end.  Pure."""
    run = ledger.present_recovery
    if run is None or run.mode != FAILBACK or run.failover != approval.failover or not run.cleared:
        return None
    return run if Actor(run.by, run.holder).works_for(approval.driver) else None


def _require_valid(flow: FlowSettings, ledger: Ledger, approval: Approval) -> None:
    """Raise TerminalError `approval-expired` if it is another failover to come home from, or a person turned back."""
    under_way, present = way_home(ledger), ledger.present_failover
    failover = under_way.failover if under_way is not None else present.run if present is not None else ""
    if failover == approval.failover and last_turned_back(ledger) == approval.last_turned_back:
        return
    what = "a way home was given up" if failover == approval.failover else "its state has changed"
    raise TerminalError(
        f"{flow.name}: {what} after {approval.by} had approved",
        hint="look at what a failback would do now, and approve that",
        code="approval-expired",
        flow=flow.name,
    )
