"""Decide the moves of the way home: of the promoted flow, and of the reverse flow that copies home for it.  Pure.

The ledger of A->B is on B.  If B is lost on the way, that of B->A promotes A by itself, as any failover without its
source; once B is back, `end_without` tells A->B.  While a way home waits between two commands, `let_cycles` has let
cycles of B->A copy too; the next `lend` ends that.
"""

from __future__ import annotations

from dataclasses import replace

from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import (
    FAILBACK,
    DeniedWrite,
    JournalEntry,
    RecoveryRun,
    RunState,
    StepState,
)
from twinlog.recovery.procedure import Actor, refuse_live
from twinlog.recovery.transitions import (
    Move,
    forgotten_for_one,
    is_lent,
    open_run,
    pause_before,
    refuse_paused,
    way_home,
    with_entry,
)
from twinlog.state.ledger import Ledger


def set_out(flow: str, ledger: Ledger, actor: Actor, run_name: str, now_ms: int) -> Move:
    """Begin the way home of a promoted flow, or go on with the one that is under way.

    Raises TerminalError `not-promoted` for a flow that is not promoted, or was not promoted by a failover, and
    `live-run` if the one under way is live.
    """
    under_way = way_home(ledger)
    if under_way is not None:
        refuse_live(flow, under_way, actor, now_ms)
        return Move(replace(under_way, holder=actor.holder, at_ms=now_ms))
    failover = ledger.present_recovery
    if ledger.phase is not FlowPhase.PROMOTED or failover is None:
        raise not_promoted(flow)
    run = RecoveryRun(
        run_name, FAILBACK, RunState.OPEN, actor.by, actor.holder, now_ms, now_ms, failover=failover.run
    )
    before = ledger.flow_state
    state = FlowState(FlowPhase.FAILING_BACK, now_ms, actor.by, "the way home", run_name, before=before)
    return Move(run, state, name="set-out")


def lend(
    flow: str,
    home: str,
    ledger: Ledger,
    actor: Actor,
    run_name: str,
    now_ms: int,
    denied: tuple[DeniedWrite, ...] = (),
) -> Move:
    """Let the reverse flow copy for the way home of the flow `home` alone.

    Whether another may take a live way home over, `set_out` has decided by the ledger of that flow.
    `denied` are the ACLs that the failover has made on the reverse flow's target: only B knows of them otherwise.
    Raises TerminalError `promoted` or `failing-over` if the reverse flow is failed over itself, `paused` if a person
    paused it.
    """
    before = ledger.recovery(run_name)
    if before is not None and before.promoted_ms is not None:
        raise promoted_without(flow, home, before)
    under_way = open_run(ledger)
    if under_way is not None and not is_lent(under_way):
        what = "on its way home" if under_way.failover else "failing over"
        raise TerminalError(
            f"{flow} is {what} itself, by {under_way.by}",
            f"`twinlog recovery abort --flow '{flow}' --reason ...` ends that",
            code="failing-over",
            flow=flow,
        )
    if under_way is None and ledger.phase.out_of_service:
        last = ledger.present_recovery
        if last is not None and last.home == home:
            raise promoted_without(flow, home, last)
        raise TerminalError(
            f"{flow} is promoted itself, so it does not copy home",
            f"if no client writes to {flow.partition('->')[2]}: `twinlog recovery follow --flow '{flow}'`",
            code="promoted",
            flow=flow,
        )
    refuse_paused(flow, ledger)
    lent = before or RecoveryRun(
        run_name, FAILBACK, RunState.OPEN, actor.by, actor.holder, now_ms, now_ms, home=home
    )
    lent = replace(
        lent,
        state=RunState.OPEN,
        holder=actor.holder,
        at_ms=now_ms,
        ended_ms=None,
        home=home,
        denied_on_target=denied,
    )
    if under_way is not None and under_way.run == run_name:
        state = ledger.flow_state
        return Move(lent, replace(state, cycles=False) if state is not None and state.cycles else None)
    # A way home that was given up while A was away could not let the reverse flow go.
    left_over = (
        replace(under_way, state=RunState.ABORTED, ended_ms=now_ms, denied=())
        if under_way is not None
        else None
    )
    was = ledger.flow_state
    if was is not None and left_over is not None:
        was = was.before
    why = f"the way home of {home}"
    lending = FlowState(FlowPhase.FAILING_OVER, now_ms, actor.by, why, run_name, before=was)
    return Move(lent, lending, forgotten_for_one(ledger), left_over, name="lend")


def let_cycles(ledger: Ledger, actor: Actor, run_name: str) -> Move | None:
    """Let cycles of the reverse flow copy too, until the next command; None if another process has taken it."""
    run, state = open_run(ledger), ledger.flow_state
    if run is None or state is None or not is_lent(run) or (run.run, run.holder) != (run_name, actor.holder):
        return None
    return Move(run, replace(state, cycles=True))


def arrive(run: RecoveryRun, ledger: Ledger, entry: JournalEntry, *, nothing_lost: bool) -> Move:
    """Promote the source again: the flow follows, and its failover is over.  Raises FencedError `relieved`.

    If people answer for differences, it is not known that `nothing_lost`.
    """
    arrived = replace(
        with_entry(run, entry),
        state=RunState.PROMOTED,
        promoted_ms=entry.at_ms,
        at_risk_records=0 if nothing_lost else None,
        rpo_seconds=0.0 if nothing_lost else None,
    )
    failover = ledger.recovery(run.failover)
    returned = replace(failover, state=RunState.RETURNED, at_ms=entry.at_ms) if failover is not None else None
    active = FlowState(FlowPhase.ACTIVE, entry.at_ms, entry.by, "after a failback", run.run)
    return Move(arrived, pause_before(ledger) or active, ended=returned, name="arrive")


def end_without(flow: str, ledger: Ledger, actor: Actor, run_name: str, reason: str, now_ms: int) -> Move:
    """Let the flow follow: its source was promoted without the target, which is back.

    Raises TerminalError `not-promoted` if the flow is not on its way home any more.
    """
    run = ledger.recovery(run_name)
    if ledger.phase is not FlowPhase.FAILING_BACK or run is None or ledger.present_recovery != run:
        raise not_promoted(flow)
    entry = JournalEntry("follow", StepState.DONE, now_ms, 0.0, actor.by, reason, actor.host)
    ended = replace(with_entry(run, entry), state=RunState.RETURNED, holder=actor.holder, ended_ms=now_ms)
    failover = ledger.recovery(run.failover)
    returned = replace(failover, state=RunState.RETURNED, at_ms=now_ms) if failover is not None else None
    lost = flow.partition("->")[2]
    active = FlowState(FlowPhase.ACTIVE, now_ms, actor.by, f"after a failback without {lost}: {reason}")
    return Move(ended, pause_before(ledger) or active, ended=returned, name="end-without")


def promoted_without(flow: str, home: str, run: RecoveryRun) -> TerminalError:
    """Return the refusal of what would bring clients home, or leave them where they were: they are home, without B."""
    here, _, there = home.partition("->")
    return TerminalError(
        f"{here} was promoted without {there}, by {run.by}: clients of {home} work on {here} already",
        f"`twinlog failback --save --flow '{flow}'` saves what never came home;"
        f" `twinlog recovery follow --flow '{home}'` lets {home} follow; if clients were sent to {there} again since,"
        f" first `twinlog recovery follow --flow '{flow}'`",
        code="promoted",
        flow=home,
    )


def give_back(ledger: Ledger, actor: Actor, run_name: str, now_ms: int) -> Move | None:
    """Let the reverse flow follow again by itself; None if it is not held for this run any more."""
    run = open_run(ledger)
    if run is None or run.run != run_name or run.mode != FAILBACK:
        return None
    returned = replace(
        run, state=RunState.RETURNED, holder=actor.holder, at_ms=now_ms, ended_ms=now_ms, denied=()
    )
    active = FlowState(FlowPhase.ACTIVE, now_ms, actor.by, "after a failback")
    return Move(returned, active, name="give-back")


def not_promoted(flow: str) -> TerminalError:
    """Return the refusal of a failback before a failover."""
    return TerminalError(
        f"{flow} is not promoted: failback before failover",
        "`twinlog recovery status` says where it stands",
        code="not-promoted",
        flow=flow,
    )
