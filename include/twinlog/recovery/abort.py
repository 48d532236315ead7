"""Roll a flow's failover back before the promotion, or let the flow follow again after clients have gone home.

The way home is rolled back too: then the flow is promoted as before, and the reverse flow follows again.

Both write the flow's state, remove the denials on the source, and give the target's rights back their profile.  Each
part may be repeated: if the process was killed in the middle, the next call does the rest.

If the target was lost, and the source promoted without it, the ledger there still says that the flow is promoted, or on
its way home, once the target is back.  That of the flow home, on the source, says who has promoted it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, ExitCode, TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import FAILBACK, RecoveryRun, RunState, StepState
from twinlog.policy.state_topics import HOME, ledger_topic
from twinlog.procedure import StepName
from twinlog.recovery import homeward, transitions
from twinlog.recovery.journal import Journal, acting
from twinlog.recovery.procedure import Actor
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.rights import own_rights
from twinlog.recovery.steps.source_writers import still_denied
from twinlog.recovery.transitions import Move
from twinlog.schemas import sync as schemas
from twinlog.state.ledger import Ledger, ledger_in, read_ledger
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
        return ExitCode.SAYS_NO if self.left else ExitCode.DONE


def run(flow: FlowSettings, clusters: Clusters, *, by: str, reason: str) -> AbortResult:
    """Abort the failover that is under way, or end an abort that was stopped in the middle.

    Raises UsageError without a reason, TerminalError `promoted` if it is too late, `no-failover` if there is nothing to
    abort, and errors of the target.
    """
    _require_reason(reason, "producers cannot be stopped today")
    run = transitions.open_run(read_ledger(flow, clusters.target))
    if run is not None and transitions.goes_on_home(run):
        return _on_its_way_home_again(flow, clusters, by, reason.strip())
    return _end(flow, clusters, by, reason.strip(), RunState.ABORTED, _abort_its_own)


def _on_its_way_home_again(flow: FlowSettings, clusters: Clusters, by: str, reason: str) -> AbortResult:
    """Abort a promotion of the target without the source, on a way home: the flow copies home as before."""
    ended = _decided(_journal(flow, clusters, by, RunState.ABORTED), transitions.abort, reason)
    return AbortResult(flow.name, ended.run, FlowPhase.FAILING_OVER.value, ())


def _journal(flow: FlowSettings, clusters: Clusters, by: str, state: RunState) -> Journal:
    """Return the journal that this process writes; the process is named for the state that it writes."""
    return Journal(flow, clusters, acting(by, state.value), ask_source=False)


def _decided(journal: Journal, decide: Decide, reason: str) -> RecoveryRun:
    ended = journal.move(lambda now: decide(journal.flow.name, now, journal.actor, reason, clock.now_ms()))
    assert ended is not None
    return ended


def _abort_its_own(flow: str, ledger: Ledger, actor: Actor, reason: str, now_ms: int) -> Move:
    """Abort a failover of the flow itself.  Raises TerminalError `failing-back` if it copies home for the other one."""
    run = transitions.open_run(ledger)
    if run is not None and transitions.is_lent(run):
        raise transitions.on_its_way_home(flow, ledger)
    return transitions.abort(flow, ledger, actor, reason, now_ms)


def turn_back(
    flow: FlowSettings,
    clusters: Clusters,
    reverse: Way | None,
    *,
    by: str,
    reason: str,
) -> AbortResult | None:
    """Leave clients where they are: the flow is promoted as before, and the reverse flow follows again.

    Records that came home stay there, and denials that the way home has removed from the source stay removed: the
    reverse flow writes there.  The result is None if no way home is under way, or half turned back.  Raises UsageError
    without a reason, TerminalError `promoted` if the source was promoted without the target, and errors of the target.
    """
    ledger = read_ledger(flow, clusters.target)
    runs = [it for it in ledger.recoveries if it.mode == FAILBACK and it.failover]
    here = ledger.phase is FlowPhase.FAILING_BACK
    half = ledger.phase is FlowPhase.PROMOTED and runs and runs[-1].state is RunState.ABORTED
    if not here and not half:
        return None
    _require_reason(reason, "not today")
    require_not_promoted(flow, reverse, runs[-1])
    journal = _journal(flow, clusters, by, RunState.ABORTED)
    if here:
        _decided(journal, transitions.abort, reason.strip())
    ended = read_ledger(flow, clusters.target).recovery(runs[-1].run)
    assert ended is not None
    undone = bool(ended.denied)
    left = still_denied(clusters.target, journal, ended)
    if not left:
        released, left = _release(flow, reverse, journal.actor, ended.run, reason.strip())
        undone = undone or released
    if not here and not undone and not left:
        return None
    return AbortResult(flow.name, ended.run, FlowPhase.PROMOTED.value, tuple(left))


def _release(
    home: FlowSettings,
    reverse: Way | None,
    actor: Actor,
    run_name: str,
    reason: str,
) -> tuple[bool, list[str]]:
    """End the reverse flow's part of a way home; say whether there was one, and what is left to do."""
    name = reverse.flow.name if reverse is not None else f"{home.target.alias}->{home.source.alias}"
    if reverse is None:
        return False, [f"{name} may still stand by: enable it in the file, and do this again"]
    flow, clusters = reverse.flow, reverse.clusters
    try:
        lent = transitions.open_run(read_ledger(flow, clusters.target))
        if lent is None or lent.run != run_name:
            return False, []
        _decided(Journal(flow, clusters, actor, ask_source=False), transitions.abort, reason)
    except TwinlogError as error:
        why = f"{error.message}; do this again once {home.source.alias} answers"
        return False, [f"{name} may still stand by: {why}"]
    return True, []


def follow(
    flow: FlowSettings, clusters: Clusters, reverse: Way | None = None, *, by: str, reason: str
) -> AbortResult:
    """Let a promoted flow follow again, or one whose source was promoted without the target on its way home.

    The caller has seen to it that no client writes to the target any more, and that the source has what was written
    there.  `reverse` is the flow by which it goes home.  Raises UsageError without a reason, TerminalError
    `not-promoted`, `failing-back` for one that is on its way home, and errors of the clusters.
    """
    _require_reason(reason, "clients are back on A")
    journal = _journal(flow, clusters, by, RunState.RETURNED)
    ended = end_without_target(journal, reverse, reason.strip())
    if ended is not None:
        left = (*denials(journal, ended), *own_rights(flow, clusters))
        result = AbortResult(flow.name, ended.run, RunState.RETURNED.value, left)
    else:
        result = _end(flow, clusters, by, reason.strip(), RunState.RETURNED, transitions.follow)
    return replace(result, left=(*result.left, *_schemas(flow, clusters)))


def _require_reason(reason: str, example: str) -> None:
    if not reason.strip():
        raise UsageError("this needs a reason", hint=f'such as: --reason "{example}"')


def _end(
    flow: FlowSettings, clusters: Clusters, by: str, reason: str, state: RunState, decide: Decide
) -> AbortResult:
    journal = _journal(flow, clusters, by, state)
    ledger = read_ledger(flow, clusters.target)
    ended = half_ended(ledger.recoveries, state) if not ledger.phase.out_of_service else None
    if ended is None:
        ended = _decided(journal, decide, reason)
        ledger = read_ledger(flow, clusters.target)
    left = still_denied(clusters.source, journal, ended)
    suspended = why_suspended(ledger)
    if not suspended or _approved(ended):
        left += own_rights(flow, clusters)
    return AbortResult(flow.name, ended.run, state.value, tuple(left), suspended)


def _approved(run: RecoveryRun) -> bool:
    """Say whether the run may have given rights on the target: that comes after the approval.  Pure."""
    return any(it.step == StepName.APPROVE and it.state is StepState.DONE for it in run.journal)


def half_ended(runs: tuple[RecoveryRun, ...], state: RunState) -> RecoveryRun | None:
    """Return the newest run that ended in a state with its denials not removed; None if there is none.  Pure."""
    found = [it for it in runs if it.state is state and it.denied]
    return found[-1] if found else None


def _schemas(flow: FlowSettings, clusters: Clusters) -> list[str]:
    """Let clients register on the source's schema registry again, and on the target's no more."""
    if not flow.metadata.schemas.copied:
        return []
    try:
        plan = schemas.return_home(flow, clusters)
    except TwinlogError as error:
        return [
            f"subjects are READWRITE on the wrong side: {error.message}; docs/schema-registry.md says how to set them"
        ]
    return [f"{it.subject}: {it.message}" for it in plan.conflicts]


def promoted_without(flow: str, reverse: Way | None, run: RecoveryRun) -> RecoveryRun | None:
    """Return the failover by which the source was promoted on this way home, or before it was told of it; else None.

    Raises errors of the source.
    """
    if reverse is None or reverse.clusters.target.describe_topics([reverse.flow.ledger_topic]).refused:
        return None
    ledger = read_ledger(reverse.flow, reverse.clusters.target)
    found = ledger.recovery(run.run)
    if found is not None and found.promoted_ms is not None:
        return found
    return _clients_there(ledger, flow)


def _clients_there(ledger: Ledger, home: str) -> RecoveryRun | None:
    """Return the failover by which the source of the flow `home` is promoted now, by the ledger of the flow home."""
    run = ledger.present_recovery
    promoted = ledger.phase is FlowPhase.PROMOTED and run is not None and run.home == home
    return run if promoted else None


def require_not_promoted(flow: FlowSettings, reverse: Way | None, run: RecoveryRun) -> None:
    """Raise TerminalError `promoted` if clients work on the source; one that does not answer has not told."""
    try:
        found = promoted_without(flow.name, reverse, run)
    except ClusterUnreachable:
        return
    if found is not None and reverse is not None:
        raise homeward.promoted_without(reverse.flow.name, flow.name, found)


def require_clients_there(flow: FlowSettings, clusters: Clusters) -> None:
    """Raise TerminalError `promoted` if the source was promoted without the target, by the flow home with other names.

    Raises errors of the source.
    """
    back = f"{flow.target.alias}{HOME}"
    try:
        ledger = ledger_in(clusters.source, ledger_topic(back))
    except ClusterRefused:  # whoever may not read it was never told
        return
    if (run := _clients_there(ledger, flow.name)) is not None:
        raise homeward.promoted_without(f"{back}->{flow.source.alias}", flow.name, run)


def end_without_target(journal: Journal, reverse: Way | None, reason: str) -> RecoveryRun | None:
    """Let the flow follow, and return its way home; also one that was ended so, and whose denials are left.

    The result is None if the flow is not on its way home.  Raises TerminalError `failing-back` if its source was not
    promoted without the target, and errors of both clusters.
    """
    flow = journal.flow.name
    ledger = read_ledger(journal.flow, journal.clusters.target)
    if ledger.phase is FlowPhase.ACTIVE:
        ended = [it for it in ledger.recoveries if it.mode == FAILBACK and it.failover][-1:]
        half = ended and ended[0].state is RunState.RETURNED and _denied(ledger, ended[0])
        return ended[0] if half else None
    run = transitions.way_home(ledger)
    if ledger.phase is not FlowPhase.FAILING_BACK or run is None:
        return None
    if promoted_without(flow, reverse, run) is None:
        raise transitions.on_its_way_home(flow, ledger)
    return journal.move(
        lambda now: homeward.end_without(flow, now, journal.actor, run.run, reason, clock.now_ms())
    )


def _denied(ledger: Ledger, run: RecoveryRun) -> bool:
    failover = ledger.recovery(run.failover)
    return bool(run.denied or (failover is not None and failover.denied))


def denials(journal: Journal, run: RecoveryRun) -> list[str]:
    """Remove those of the way home from the target, and those of its failover from the source; say what stays."""
    flow, clusters = journal.flow, journal.clusters
    left = still_denied(clusters.target, journal, run)
    failover = read_ledger(flow, clusters.target).recovery(run.failover)
    if failover is not None:
        left += still_denied(clusters.source, journal, failover)
    return left
