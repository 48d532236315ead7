"""Let a flow follow again: roll its failover back before the promotion, or end it after clients have gone home.

Both write the flow's state, remove the denials on the source, and give the target's rights back their profile.  Each
part may be done again: what was killed in the middle, the next call ends.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from twinlog import clock
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError, UsageError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun, RunState
from twinlog.metadata import sync
from twinlog.recovery import transitions
from twinlog.recovery.journal import Journal
from twinlog.recovery.steps.source_writers import remove_denials
from twinlog.recovery.transitions import Actor, Move
from twinlog.state.ledger import Ledger, read_ledger


@dataclass(frozen=True, slots=True)
class AbortResult:
    """The run that is over; `left` says what could not be undone, and has to be done by a person."""

    flow: str
    run: str
    state: str
    left: tuple[str, ...]

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
    return _end(flow, clusters, by, reason.strip(), RunState.ABORTED, transitions.abort)


def follow(flow: FlowSettings, clusters: Clusters, *, by: str, reason: str) -> AbortResult:
    """Let a promoted flow follow again.

    The caller has seen to it that no client writes to the target any more, and that the source has what was written
    there.  Raises UsageError without a reason, TerminalError `not-promoted`, and errors of the target.
    """
    _require_reason(reason, "clients are back on A")
    return _end(flow, clusters, by, reason.strip(), RunState.RETURNED, transitions.follow)


def _require_reason(reason: str, example: str) -> None:
    if not reason.strip():
        raise UsageError("this needs a reason", hint=f'such as: --reason "{example}"')


def _end(
    flow: FlowSettings,
    clusters: Clusters,
    by: str,
    reason: str,
    state: RunState,
    decide: Callable[[str, Ledger, Actor, str, int], Move],
) -> AbortResult:
    actor = Actor(by, f"{state.value}-{uuid.uuid4().hex[:12]}")
    journal = Journal(flow, clusters, actor, ask_source=False)
    ledger = read_ledger(flow, clusters.target)
    ended = half_ended(ledger.recoveries, state) if ledger.phase is FlowPhase.ACTIVE else None
    if ended is None:
        ended = journal.move(lambda now: decide(flow.name, now, actor, reason, clock.now_ms()))
    assert ended is not None
    left = [*_denials(flow, clusters, journal, ended), *_rights(flow, clusters)]
    return AbortResult(flow.name, ended.run, state.value, tuple(left))


def half_ended(runs: tuple[RecoveryRun, ...], state: RunState) -> RecoveryRun | None:
    """Return the newest run that ended so, if its denials were not removed.  Pure."""
    found = [it for it in runs if it.state is state and it.denied]
    return found[-1] if found else None


def _denials(flow: FlowSettings, clusters: Clusters, journal: Journal, run: RecoveryRun) -> list[str]:
    """Remove the ACLs of the run from the source; producers may write there again."""
    if not run.denied:
        return []
    try:
        why = remove_denials(clusters.source, run.denied)
    except TwinlogError as error:
        why = error.message
    if why:
        return [
            f"{len(run.denied):,} topics of {flow.source.alias} still deny WRITE to {run.denied[0].principal}: {why};"
            " do this again once it answers"
        ]
    journal.move(lambda now: transitions.without_denials(now, run.run))
    return []


def _rights(flow: FlowSettings, clusters: Clusters) -> list[str]:
    """Take producers' rights on the target away again, by the flow's own profile."""
    try:
        refused = sync.run(flow, clusters).refused
    except TwinlogError as error:
        return [
            f"rights on {flow.target.alias} are as the failover left them: {error.message}; metadata apply"
        ]
    return [f"{it.name}: {it.message}" for it in refused]
