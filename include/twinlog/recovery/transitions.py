"""Decide the moves of a failover: from the present ledger to the records that are written in one transaction.  Pure.

    following --begin--> failing-over --promote--> promoted
        ^                  |   ^ |                    |
        |                  |   '-' begin again: a     |
        |                  |       restart, another   |
        |                  |       operator or mode   |
        '------abort-------'                          |
        '---------------------follow------------------'

Each move is decided behind the flow's fence and written through its control lane, so what it was decided by still
holds.  A move raises and changes nothing if the ledger does not allow it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog.errors import FencedError, TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import DeniedWrite, JournalEntry, RecoveryRun, RunState, StepState
from twinlog.gate.suites.suites import Mode
from twinlog.recovery.procedure import StepName
from twinlog.state.ledger import Ledger

MOST_ENTRIES = 200
"""Journal entries that a run keeps, the newest: a failover that is tried for days must not fill the ledger."""

MOST_RUNS = 50
"""Runs that a ledger keeps, the newest."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The process that moves a failover: its person, and a name of its own, `holder`."""

    by: str
    holder: str


@dataclass(frozen=True, slots=True)
class Move:
    """The records of one transaction: the run, the flow's state if it changes, and old runs to forget."""

    run: RecoveryRun
    state: FlowState | None = None
    forgotten: tuple[RecoveryRun, ...] = ()


def open_run(ledger: Ledger) -> RecoveryRun | None:
    """Return the failover that is under way, None if there is none."""
    run = ledger.present_recovery
    return run if run is not None and run.state is RunState.OPEN else None


def begin(flow: str, ledger: Ledger, mode: Mode, actor: Actor, run_name: str, now_ms: int) -> Move:
    """Begin the failover `run_name`, or go on with the one that is under way, in this mode.

    Raises TerminalError `promoted` if the flow was failed over, `paused` if a person paused it; a paused flow whose
    source is lost may be failed over.
    """
    under_way = open_run(ledger)
    if under_way is not None:
        taken = replace(under_way, mode=mode.value, holder=actor.holder, at_ms=now_ms)
        return Move(taken)
    if ledger.phase.failed_over:
        raise _promoted(flow, ledger)
    if ledger.phase is FlowPhase.PAUSED and mode is Mode.PLANNED:
        state = ledger.flow_state
        why = f" by {state.by}: {state.reason}" if state else ""
        raise TerminalError(
            f"{flow} is paused{why}",
            hint="`twinlog resume` it first: a planned failover copies what is left",
            code="paused",
            flow=flow,
        )
    run = RecoveryRun(run_name, mode.value, RunState.OPEN, actor.by, actor.holder, now_ms, now_ms)
    state = FlowState(FlowPhase.FAILING_OVER, now_ms, actor.by, f"failover, {mode.value}", run_name)
    return Move(run, state, ledger.recoveries[: max(0, len(ledger.recoveries) - MOST_RUNS + 1)])


def note(flow: str, ledger: Ledger, actor: Actor, run_name: str, entry: JournalEntry) -> Move:
    """Add an entry to the journal.  Raises FencedError `relieved` if another process goes on with the run."""
    run = require_held(flow, ledger, actor, run_name)
    return Move(_with(run, entry))


def deny(flow: str, ledger: Ledger, actor: Actor, run_name: str, denied: tuple[DeniedWrite, ...]) -> Move:
    """Remember ACLs before they are made on the source.  Raises FencedError `relieved`."""
    run = require_held(flow, ledger, actor, run_name)
    new = tuple(it for it in denied if it not in run.denied)
    return Move(replace(run, denied=(*run.denied, *new)))


def promote(
    flow: str,
    ledger: Ledger,
    actor: Actor,
    run_name: str,
    entry: JournalEntry,
    *,
    at_risk_records: int | None,
    rpo_seconds: float | None,
) -> Move:
    """Promote the target: from here on clients work there.  Raises FencedError `relieved`."""
    run = require_held(flow, ledger, actor, run_name)
    promoted = replace(
        _with(run, entry),
        state=RunState.PROMOTED,
        promoted_ms=entry.at_ms,
        at_risk_records=at_risk_records,
        rpo_seconds=rpo_seconds,
    )
    state = FlowState(FlowPhase.PROMOTED, entry.at_ms, actor.by, f"failover, {run.mode}", run.run)
    return Move(promoted, state)


def clear(
    flow: str,
    ledger: Ledger,
    actor: Actor,
    run_name: str,
    entry: JournalEntry,
    evidence: tuple[str, str],
) -> Move:
    """End a promoted run: nothing is left to do; `evidence` is the file and its digest."""
    run = require_held(flow, ledger, actor, run_name)
    ended = replace(
        _with(run, entry),
        cleared=True,
        ended_ms=entry.at_ms,
        evidence=evidence[0],
        evidence_sha256=evidence[1],
    )
    return Move(ended)


def retake(flow: str, ledger: Ledger, actor: Actor, now_ms: int) -> Move:
    """Go on with a promoted run whose last steps are not done.

    Raises TerminalError `promoted` if nothing is left to do, or if the flow was promoted without a run.
    """
    run = ledger.present_recovery
    if run is None or run.cleared:
        raise _promoted(flow, ledger)
    return Move(replace(run, holder=actor.holder, at_ms=now_ms))


def abort(flow: str, ledger: Ledger, actor: Actor, reason: str, now_ms: int) -> Move:
    """Let the flow follow again.

    Raises TerminalError `no-failover` if none is under way, `promoted` if it is too late.
    """
    run = open_run(ledger)
    if run is None:
        if ledger.phase.failed_over:
            raise _too_late(flow, ledger)
        raise TerminalError(
            f"{flow} is not failing over: there is nothing to abort",
            hint="`twinlog recovery history` lists what was",
            code="no-failover",
            flow=flow,
        )
    entry = JournalEntry("abort", StepState.DONE, now_ms, 0.0, actor.by, reason)
    ended = replace(_with(run, entry), state=RunState.ABORTED, holder=actor.holder, ended_ms=now_ms)
    state = FlowState(FlowPhase.ACTIVE, now_ms, actor.by, f"failover aborted: {reason}")
    return Move(ended, state)


def follow(flow: str, ledger: Ledger, actor: Actor, reason: str, now_ms: int) -> Move:
    """Let a promoted flow follow again, because its clients went home.  Raises TerminalError `not-promoted`."""
    run = ledger.present_recovery
    if ledger.phase is not FlowPhase.PROMOTED or run is None:
        raise TerminalError(
            f"{flow} is not promoted: there is nothing to return from",
            hint="`twinlog recovery status` says where it stands",
            code="not-promoted",
            flow=flow,
        )
    entry = JournalEntry("follow", StepState.DONE, now_ms, 0.0, actor.by, reason)
    returned = replace(_with(run, entry), state=RunState.RETURNED, holder=actor.holder)
    return Move(returned, FlowState(FlowPhase.ACTIVE, now_ms, actor.by, f"after a failover: {reason}"))


def _with(run: RecoveryRun, entry: JournalEntry) -> RecoveryRun:
    return replace(run, journal=(*run.journal, entry)[-MOST_ENTRIES:], at_ms=entry.at_ms)


def without_denials(ledger: Ledger, run_name: str) -> Move | None:
    """Forget the ACLs of a run that were removed from the source; None if it has none."""
    run = ledger.recovery(run_name)
    return Move(replace(run, denied=())) if run is not None and run.denied else None


def require_held(flow: str, ledger: Ledger, actor: Actor, run_name: str) -> RecoveryRun:
    """Return the run if this process holds it.

    Raises FencedError `relieved` if another process goes on with it, or has ended it.
    """
    run = ledger.recovery(run_name)
    over = run is not None and run.state in {RunState.ABORTED, RunState.RETURNED}
    if run is not None and run.holder == actor.holder and not over:
        return run
    what = run.state.value if run is not None and over else "taken over by another process"
    raise FencedError(
        f"the failover of {flow} was {what}; this process changed nothing more",
        hint="`twinlog recovery status` says where it stands",
        code="relieved",
        flow=flow,
        run=run_name,
    )


def _promoted(flow: str, ledger: Ledger) -> TerminalError:
    state = ledger.flow_state
    since = f" by {state.by}" if state else ""
    return TerminalError(
        f"{flow} was failed over already{since}: {flow.partition('->')[2]} is promoted",
        hint="nothing is left to do; `twinlog recovery history` tells of it, docs/failover.md how to go home",
        code="promoted",
        flow=flow,
        step=StepName.PROMOTE.value,
    )


def _too_late(flow: str, ledger: Ledger) -> TerminalError:
    error = _promoted(flow, ledger)
    target = flow.partition("->")[2]
    return TerminalError(
        f"{error.message}; clients may have written there, so nothing is taken back",
        hint=f"to go home, bring what was written on {target} back first: docs/failover.md, failing back",
        code="promoted",
        flow=flow,
    )
