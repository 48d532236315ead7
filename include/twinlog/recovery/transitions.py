"""Decide the moves of a failover and of the way home: from a ledger to the records of one transaction.  Pure.

What may follow what is one table, `legal.TRANSITIONS`.

Each move is decided behind the flow's fence and written through its control lane, so what it was decided by still
holds.  A move raises and changes nothing if the ledger does not allow it.  An abort goes back to the state before the
run, exactly.  A flow that was paused, or handed over, stays so, behind a promotion and the way home too.

On the way home two ledgers move.  That of the promoted flow A->B has the state and the journal.  In that of B->A,
which copies home, the flow is failing over for the same run (homeward.py).  It is written after that of A->B, at the
beginning and at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog.errors import FencedError, TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import (
    FAILBACK,
    Answered,
    DeniedWrite,
    JournalEntry,
    RecoveryRun,
    RunState,
    StepState,
)
from twinlog.formats.ledger.topics import Incarnation
from twinlog.judge.check import Mode
from twinlog.kafka_types import SourceIncarnation
from twinlog.policy.state_topics import HOME
from twinlog.procedure import StepName
from twinlog.recovery.procedure import Actor, refuse_live, steps_done
from twinlog.state.ledger import Ledger

MOST_ENTRIES = 200
"""Journal entries that a run keeps, the newest: a failover that is tried for days must not fill the ledger."""

STALLED_MS = 600_000
"""A process that has not said for so long that it has made the ACLs it noted is dead, and makes none any more."""

MOST_RUNS = 50
"""Runs that a ledger keeps, the newest."""


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Upstream offsets [start, end) of a partition that the flow is known not to copy: it goes on at `end`.

    The last `expired` of them were deleted by the source before they could be copied.
    """

    life: SourceIncarnation
    start: int
    end: int
    expired: int


@dataclass(frozen=True, slots=True)
class Move:
    """The records of one transaction: the run, the flow's state if it changes, and what the ledger is to forget.

    `ended` is the failover that is over with this move.  `passed_over` is what the flow will not copy, of topics
    whose incarnations are `begun` with this move.  `name` is its name in the table of
    moves, "" if it changes no state.
    """

    run: RecoveryRun
    state: FlowState | None = None
    forgotten: tuple[RecoveryRun | FlowState, ...] = ()
    ended: RecoveryRun | None = None
    passed_over: tuple[PassedOver, ...] = ()
    begun: tuple[Incarnation, ...] = ()
    name: str = ""


def open_run(ledger: Ledger) -> RecoveryRun | None:
    """Return the failover or failback that is under way, None if there is none."""
    run = ledger.present_recovery
    return run if run is not None and run.state is RunState.OPEN else None


def begin(
    flow: str,
    ledger: Ledger,
    mode: Mode,
    actor: Actor,
    run_name: str,
    now_ms: int,
    *,
    only_brings_home: bool = False,
    observed: bool = False,
) -> Move:
    """Begin the failover `run_name`, or go on with the one that is under way, in this mode.

    Raises TerminalError `promoted` if the flow was failed over, `failing-back` if it is on its way home, `paused` if a
    person paused it; a paused flow whose source is lost may be failed over, and so may one that copies home, or that
    is only `observed`: another engine goes on with it.
    A flow that `only_brings_home` is failed over while it does, and without its source alone: else `no-failover`.
    `left` if the one under way was begun in a way that has left twinlog, `live-run` if it is live.
    """
    under_way = open_run(ledger)
    if under_way is not None:
        if under_way.mode == FAILBACK and (under_way.failover or mode is Mode.PLANNED):
            raise on_its_way_home(flow, ledger)
        if under_way.left_way:
            raise TerminalError(
                f"{under_way.run} of {flow} was begun {under_way.left_way}, which has left twinlog",
                "go on with the release that began it, or take it back: twinlog recovery abort --reason ...",
                code="left",
                flow=flow,
            )
        state = ledger.flow_state
        if state is None or not state.cycles:  # cycles copy home while nobody's command does
            refuse_live(flow, under_way, actor, now_ms)
        begun_as = under_way.begun_as or under_way.mode
        taken = replace(under_way, mode=mode.value, holder=actor.holder, at_ms=now_ms, begun_as=begun_as)
        if state is not None and under_way.mode == FAILBACK:
            return Move(taken, replace(state, cycles=False, before=state))
        return Move(taken)
    if ledger.phase.out_of_service:
        raise _promoted(flow, ledger)
    if only_brings_home:
        raise brings_nothing_home(flow)
    if mode is Mode.PLANNED:
        if not observed:
            refuse_paused(flow, ledger)
        home = way_home(ledger)
        if home is not None and StepName.FOLLOW not in steps_done(home):
            raise on_its_way_home(flow, ledger)  # the reverse flow has not let go yet
    run = RecoveryRun(run_name, mode.value, RunState.OPEN, actor.by, actor.holder, now_ms, now_ms)
    why = f"failover, {mode.value}"
    state = FlowState(FlowPhase.FAILING_OVER, now_ms, actor.by, why, run_name, before=ledger.flow_state)
    return Move(run, state, forgotten_for_one(ledger), name="begin")


def forgotten_for_one(ledger: Ledger) -> tuple[RecoveryRun, ...]:
    """Return the runs that a ledger forgets when one begins.  Pure."""
    return ledger.recoveries[: 1 - MOST_RUNS]


def note(run: RecoveryRun, entry: JournalEntry, answered: Answered | None = None) -> Move:
    """Add an entry to the journal of a run that this process holds, that of the question with its answer."""
    run = with_entry(run, entry)
    return Move(replace(run, answered=answered) if entry.step == StepName.APPROVE else run)


def deny(run: RecoveryRun, denied: tuple[DeniedWrite, ...]) -> Move:
    """Remember ACLs before this process, which holds the run, makes them on the source."""
    noted = {write.topic for write in run.denied}
    new = tuple(write for write in denied if write.topic not in noted)
    return Move(replace(run, denied=(*run.denied, *new), denying=run.holder))


def promote(
    run: RecoveryRun,
    ledger: Ledger,
    entry: JournalEntry,
    *,
    at_risk_records: int | None,
    known: int | None,
    rpo_seconds: float | None,
) -> Move:
    """Promote the target, by the process that holds the run: from here on clients work there."""
    promoted = replace(
        with_entry(run, entry),
        state=RunState.PROMOTED,
        promoted_ms=entry.at_ms,
        at_risk_records=at_risk_records,
        known=known,
        rpo_seconds=rpo_seconds,
    )
    why, pause = f"failover, {run.mode}", pause_before(ledger)
    state = FlowState(FlowPhase.PROMOTED, entry.at_ms, entry.by, why, run.run, before=pause)
    return Move(promoted, state, name="promote")


def clear(run: RecoveryRun, entry: JournalEntry, evidence: tuple[str, str]) -> Move:
    """End a promoted run: nothing is left to do; `evidence` is the file and its digest."""
    ended = replace(
        with_entry(run, entry),
        cleared=True,
        ended_ms=entry.at_ms,
        evidence=evidence[0],
        evidence_sha256=evidence[1],
    )
    return Move(ended)


def retake(flow: str, ledger: Ledger, actor: Actor, now_ms: int) -> Move:
    """Go on with a promoted run whose last steps are not done.

    Raises TerminalError `promoted` if nothing is left to do, or if the flow was promoted without a run, and `live-run`.
    """
    run = ledger.present_recovery
    if run is None or run.cleared:
        raise _promoted(flow, ledger)
    refuse_live(flow, run, actor, now_ms)
    return Move(replace(run, holder=actor.holder, at_ms=now_ms))


def abort(flow: str, ledger: Ledger, actor: Actor, reason: str, now_ms: int) -> Move:
    """Put the flow back into the state before the run: it follows, is paused, is promoted, or copies home.

    Raises TerminalError `no-failover` if none is under way, `promoted` if it is too late.
    """
    run = open_run(ledger)
    if run is None:
        if ledger.phase.out_of_service:
            target = flow.partition("->")[2]
            raise TerminalError(
                f"{_promoted(flow, ledger).message}; clients may have written there, so nothing is taken back",
                f"to go home, bring what was written on {target} back first: docs/failback.md",
                code="promoted",
                flow=flow,
            )
        raise TerminalError(
            f"{flow} is not failing over: there is nothing to abort",
            "`twinlog recovery status` lists what was",
            code="no-failover",
            flow=flow,
        )
    entry = JournalEntry("abort", StepState.DONE, now_ms, 0.0, actor.by, reason, actor.host)
    state = ledger.flow_state
    assert state is not None  # an open run has one
    if goes_on_home(run):
        return Move(replace(with_entry(run, entry), mode=FAILBACK, holder=actor.holder), state.before)
    ended = replace(with_entry(run, entry), state=RunState.ABORTED, holder=actor.holder, ended_ms=now_ms)
    if is_lent(run):
        ended = replace(ended, denied=())  # removed already, by the ledger of the flow on its way home
    if state.before is None and run.failover:  # version 0.2 has set out, and kept no state before it
        failover = ledger.present_failover
        since = failover.promoted_ms if failover is not None and failover.promoted_ms is not None else now_ms
        text = f"failback aborted: {reason}"
        before = FlowState(FlowPhase.PROMOTED, since, actor.by, text, run.failover)
        return Move(ended, before, name="abort")
    return Move(ended, state.before, () if state.before is not None else (state,), name="abort")


def follow(flow: str, ledger: Ledger, actor: Actor, reason: str, now_ms: int) -> Move:
    """Let a promoted flow follow again, because its clients went home.  Raises TerminalError `not-promoted`."""
    run = ledger.present_recovery
    if ledger.phase is not FlowPhase.PROMOTED or run is None:
        raise TerminalError(
            f"{flow} is not promoted: there is nothing to return from",
            "`twinlog recovery status` says where it stands",
            code="not-promoted",
            flow=flow,
        )
    entry = JournalEntry("follow", StepState.DONE, now_ms, 0.0, actor.by, reason, actor.host)
    returned = replace(with_entry(run, entry), state=RunState.RETURNED, holder=actor.holder)
    active = FlowState(FlowPhase.ACTIVE, now_ms, actor.by, f"after a failover: {reason}")
    return Move(returned, pause_before(ledger) or active, name="follow")


def pause_before(ledger: Ledger) -> FlowState | None:
    """Return the pause of a flow that was failed over without its source: who made it ends it.  Pure."""
    state = ledger.flow_state
    while state is not None and state.state is not FlowPhase.PAUSED:
        state = state.before
    return state


def goes_on_home(run: RecoveryRun) -> bool:
    """Say whether the run is a failover without the source on a way home, which an abort goes back to.  Pure."""
    return bool(run.home) and not run.untold and not is_lent(run)


def taken_back(run: RecoveryRun) -> str:
    """Say what an abort of a failover does.  Pure."""
    return f"leaves it on the way home of {run.home}" if run.home else "leaves the flow as it was before"


def is_lent(run: RecoveryRun) -> bool:
    """Say whether the run is the reverse flow's part of a way home.  Pure."""
    return run.mode == FAILBACK and not run.failover


def last_way_home(ledger: Ledger) -> RecoveryRun | None:
    """Return the newest failback of the flow, however it ended; None if there was none.  Pure."""
    every = (run for run in reversed(ledger.recoveries) if run.mode == FAILBACK and run.failover)
    return next(every, None)


def way_home(ledger: Ledger) -> RecoveryRun | None:
    """Return the failback of the flow that is under way, or whose last steps are not done; None if there is none."""
    last = last_way_home(ledger)
    if last is None or last.state is RunState.OPEN:
        return last
    unfinished = last.state is RunState.PROMOTED and not last.cleared and not ledger.phase.out_of_service
    return last if unfinished else None


def is_idle(ledger: Ledger) -> bool:
    """Say whether a flow that only brings home brings nothing home now, and was not failed over.  Pure."""
    return open_run(ledger) is None and ledger.phase is not FlowPhase.PROMOTED


def goes_home(flow: str) -> str:
    """Return the flow whose clients a flow `B.home->A` brings home.  Pure."""
    there, _, here = flow.partition("->")
    return f"{here}->{there.removesuffix(HOME)}"


def brings_nothing_home(flow: str) -> TerminalError:
    """Return the refusal of a failover of the flow that only brings home, while no way home is under way."""
    home = goes_home(flow)
    here, _, away = home.partition("->")
    return TerminalError(
        f"{flow} brings nothing home now: no way home of {home} has begun",
        f"`twinlog failback --flow '{home}'` goes home; if {away} is lost and clients worked there:"
        f" docs/failover.md says how {here} takes them back by hand",
        code="no-failover",
        flow=flow,
    )


def refuse_paused(flow: str, ledger: Ledger) -> None:
    """Raise TerminalError `paused` if a person paused the flow."""
    if ledger.phase is not FlowPhase.PAUSED:
        return
    state = ledger.flow_state
    why = f" by {state.by}: {state.reason}" if state else ""
    back = "migrate takeover" if state is not None and state.handed_over else "resume"
    raise TerminalError(
        f"{flow} is paused{why}",
        f"`twinlog {back}` first: what is left has to be copied",
        code="paused",
        flow=flow,
    )


def on_its_way_home(flow: str, ledger: Ledger) -> TerminalError:
    """Return the refusal of what would come in between the way home of this flow, or of the one it copies for."""
    state = ledger.flow_state
    run = way_home(ledger)
    home = flow if run is not None else goes_home(flow)
    arrived = run is not None and run.state is RunState.PROMOTED
    back = "" if arrived else f"; `twinlog recovery abort --flow '{home}' --reason ...` turns back"
    return TerminalError(
        f"{home} is on its way home{f', by {state.by}' if state else ''}: no failover begins meanwhile",
        f"`twinlog failback --flow '{home}'` goes on{back}",
        code="failing-back",
        flow=flow,
    )


def with_entry(run: RecoveryRun, entry: JournalEntry) -> RecoveryRun:
    """Return the run with one entry more in its bounded journal."""
    return replace(run, journal=(*run.journal, entry)[-MOST_ENTRIES:], at_ms=entry.at_ms)


def without_denials(ledger: Ledger, run_name: str, now_ms: int) -> Move | None:
    """Forget the ACLs of a run that were removed from the source; None if it has none.

    If a process was about to make them, they are remembered for a while: it removes them itself once it finds that it
    was relieved, and if it dies before that, the next command removes them.
    """
    run = ledger.recovery(run_name)
    if run is None or not run.denied:
        return None
    if run.denying and abs(now_ms - run.at_ms) < STALLED_MS:
        return None
    return Move(replace(run, denied=(), denying=""))


def without_denials_on_target(ledger: Ledger, run_name: str) -> Move | None:
    """Forget the ACLs that were removed from the target of a flow that copies home; None if it has none."""
    run = ledger.recovery(run_name)
    return Move(replace(run, denied_on_target=())) if run is not None and run.denied_on_target else None


def require_held(flow: str, ledger: Ledger, actor: Actor, run_name: str) -> RecoveryRun:
    """Return the run if this process holds it.

    Raises FencedError `relieved` if another process goes on with it, or has ended it.
    """
    run = ledger.recovery(run_name)
    over = run is not None and run.state in {RunState.ABORTED, RunState.RETURNED}
    if run is not None and run.holder == actor.holder and not over:
        return run
    what = run.state.value if run is not None and over else "taken over by another process"
    word = FAILBACK if run is not None and run.mode == FAILBACK else "failover"
    raise FencedError(
        f"the {word} of {flow} was {what}; this process changed nothing more",
        "`twinlog recovery status` says where it stands",
        code="relieved",
        flow=flow,
        run=run_name,
    )


def _promoted(flow: str, ledger: Ledger) -> TerminalError:
    state = ledger.flow_state
    since = f" by {state.by}" if state else ""
    return TerminalError(
        f"{flow} was failed over already{since}: {flow.partition('->')[2]} is promoted",
        "nothing is left to do; `twinlog recovery status` tells of it, docs/failback.md how to go home",
        code="promoted",
        flow=flow,
        step=StepName.PROMOTE.value,
    )
