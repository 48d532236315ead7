"""Roll a flow's failover back before the promotion, or let the flow follow again after clients have gone home.

The way home is rolled back too: then the flow is promoted as before, and the reverse flow follows again.

Both write the flow's state, which ends the process that goes on with the run, and undo what its steps have done, the
last one first.  Each part may be repeated: if the process was killed in the middle, the next call does the rest.

If the target was lost, and the source promoted without it, the ledger there still says that the flow is promoted, or on
its way home, once the target is back.  That of the flow home, on the source, says who has promoted it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, RunState
from twinlog.judge.check import Mode
from twinlog.recovery import homeward, transitions
from twinlog.recovery.failback.home_steps import still_lent
from twinlog.recovery.journal import acting
from twinlog.recovery.procedure import Actor
from twinlog.recovery.procedures import steps_of
from twinlog.recovery.reverse import Way, promoted_without, require_not_promoted
from twinlog.recovery.steps.world import LOOKING, Request, World
from twinlog.recovery.transitions import Move
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.topics.pauses import why_suspended

Decide = Callable[[str, Ledger, Actor, str, int], Move]
"""A move, of the name of a flow, its ledger, who moves it, why, and the time (epoch ms)."""


@dataclass(frozen=True, slots=True)
class AbortResult:
    """The run that is over; `left` says what could not be undone, and has to be done by a person.

    `suspended` says who had paused the flow before the run, and why: it stays so, "" if it follows.
    """

    flow: str
    run: str
    state: str
    left: tuple[str, ...]
    suspended: str = ""

    @property
    def exit_code(self) -> ExitCode:
        """Return 1 while something is left to do."""
        return ExitCode.of(not self.left)


def run(
    flow: FlowSettings, clusters: Clusters, reverse: Way | None = None, *, by: str, reason: str
) -> AbortResult:
    """Abort the failover, or the way home, that is under way, or end an abort that was stopped in the middle.

    `reverse` is the flow by which it goes home.  Raises UsageError without a reason, TerminalError `promoted` if it is
    too late, `no-failover` if there is nothing to abort, and errors of the target.
    """
    if (turned := turn_back(flow, clusters, reverse, by=by, reason=reason)) is not None:
        return turned
    _require_reason(reason, "producers cannot be stopped today")
    world = _world(flow, clusters, reverse, by, RunState.ABORTED)
    run = transitions.open_run(world.ledger)
    if run is not None and transitions.goes_on_home(run):  # the flow copies home as before
        ended = _decided(world, transitions.abort, reason)
        return AbortResult(flow.name, ended.run, FlowPhase.FAILING_OVER.value, ())
    return _end(world, reason, RunState.ABORTED, _abort_its_own)


def _world(flow: FlowSettings, clusters: Clusters, reverse: Way | None, by: str, state: RunState) -> World:
    """Return what an undo works on; the process is named for the state that it writes."""
    actor, request = acting(by, state.value), Request(by)
    back = World.of(reverse, request, LOOKING, actor) if reverse is not None else None
    return replace(World.of(Way(flow, clusters), request, LOOKING, actor), reverse=back)


def _decided(world: World, decide: Decide, reason: str) -> RecoveryRun:
    name, actor, why = world.flow.name, world.journal.actor, reason.strip()
    decide(name, world.ledger, actor, why, clock.now_ms())  # refused, it relieves nobody
    ended = world.journal.move(lambda now: decide(name, now, actor, why, clock.now_ms()))
    assert ended is not None
    return ended


def _undone(world: World, run: RecoveryRun) -> tuple[str, ...]:
    """Undo what the steps of a run have done, the last one first; return what is left for a person, by the steps."""
    steps = steps_of(FAILBACK if run.failover else Mode.PLANNED, observed=world.flow.observed)
    left = [step.undo(world, run) for step in reversed(steps) if step.undo is not None]
    return tuple(text for texts in reversed(left) for text in texts)


def _abort_its_own(flow: str, ledger: Ledger, actor: Actor, reason: str, now_ms: int) -> Move:
    """Abort a failover of the flow itself.  Raises TerminalError `failing-back` if it copies home for the other one."""
    run = transitions.open_run(ledger)
    if run is not None and transitions.is_lent(run):
        raise transitions.on_its_way_home(flow, ledger)
    return transitions.abort(flow, ledger, actor, reason, now_ms)


def turn_back(
    flow: FlowSettings, clusters: Clusters, reverse: Way | None, *, by: str, reason: str
) -> AbortResult | None:
    """Leave clients where they are: the flow is promoted as before, and the reverse flow follows again.

    Records that came home stay there, and denials that the way home has removed from the source stay removed: the
    reverse flow writes there.  The result is None if no way home is under way, or half turned back.  Raises UsageError
    without a reason, TerminalError `promoted` if the source was promoted without the target, and errors of the target.
    """
    ledger = read_ledger(flow, clusters.target)
    home = transitions.last_way_home(ledger)
    here = ledger.phase is FlowPhase.FAILING_BACK
    half = ledger.phase is FlowPhase.PROMOTED and home is not None and home.state is RunState.ABORTED
    if home is None or not (here or half):
        return None
    _require_reason(reason, "not today")
    require_not_promoted(flow, reverse, home)
    world = _world(flow, clusters, reverse, by, RunState.ABORTED)
    if here:
        home = _decided(world, transitions.abort, reason)
    elif not home.denied and not _may_be_lent(world, home):
        return None
    return AbortResult(flow.name, home.run, FlowPhase.PROMOTED.value, _undone(world, home))


def _may_be_lent(world: World, run: RecoveryRun) -> bool:
    """Say whether the reverse flow still copies home for the run, or does not tell."""
    try:
        return world.reverse is None or still_lent(world.reverse, run)
    except TwinlogError:
        return True


def follow(
    flow: FlowSettings, clusters: Clusters, reverse: Way | None = None, *, by: str, reason: str
) -> AbortResult:
    """Let a promoted flow follow again, or one whose source was promoted without the target on its way home.

    The caller has seen to it that no client writes to the target any more, and that the source has what was written
    there.  `reverse` is the flow by which it goes home.  Raises UsageError without a reason, TerminalError
    `not-promoted`, `failing-back` for one that is on its way home, and errors of the clusters.
    """
    _require_reason(reason, "clients are back on A")
    world = _world(flow, clusters, reverse, by, RunState.RETURNED)
    home = _end_without_target(world, reverse, reason.strip())
    if home is None:
        return _end(world, reason, RunState.RETURNED, transitions.follow)
    left = _undone(world, home)
    if (failover := world.ledger.recovery(home.failover)) is not None:
        left += _undone(world, failover)
    return AbortResult(flow.name, home.run, RunState.RETURNED.value, left)


def _require_reason(reason: str, example: str) -> None:
    if not reason.strip():
        raise UsageError("this needs a reason", f'such as: --reason "{example}"')


def _end(world: World, reason: str, state: RunState, decide: Decide) -> AbortResult:
    """End the run in a state, unless that was done and only its denials are left; then undo what its steps did."""
    ledger = world.ledger
    half = [recovery for recovery in ledger.recoveries if recovery.state is state and recovery.denied]
    ended = half[-1] if half and not ledger.phase.out_of_service else _decided(world, decide, reason)
    suspended = why_suspended(world.ledger)
    return AbortResult(world.flow.name, ended.run, state.value, _undone(world, ended), suspended)


def _end_without_target(world: World, reverse: Way | None, reason: str) -> RecoveryRun | None:
    """Let the flow follow, and return its way home; also one that was ended so, and whose denials are left.

    The result is None if the flow is not on its way home.  Raises TerminalError `failing-back` if its source was not
    promoted without the target, and errors of both clusters.
    """
    name, actor = world.flow.name, world.journal.actor
    ledger = world.ledger
    if ledger.phase is FlowPhase.ACTIVE:
        ended = transitions.last_way_home(ledger)
        half = ended is not None and ended.state is RunState.RETURNED and _denied(ledger, ended)
        return ended if half else None
    run = transitions.way_home(ledger)
    if ledger.phase is not FlowPhase.FAILING_BACK or run is None:
        return None
    if promoted_without(name, reverse, run) is None:
        raise transitions.on_its_way_home(name, ledger)
    return world.journal.move(
        lambda now: homeward.end_without(name, now, actor, run.run, reason, clock.now_ms())
    )


def _denied(ledger: Ledger, run: RecoveryRun) -> bool:
    failover = ledger.recovery(run.failover)
    return bool(run.denied or (failover is not None and failover.denied))
