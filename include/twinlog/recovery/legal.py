"""Hold every move of a failover, and of a way home, to one table of what may follow what.  Pure.

The moves themselves, and who may make them, are in `transitions` and `homeward`.
"""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import RunState
from twinlog.recovery.transitions import Move
from twinlog.state.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Next:
    """Tell what a move makes of a flow: one of these phases, and of its run: `becomes`, which it `was` not before.

    `ends` is what it makes of the run that is over with it.  A run that was None begins.
    """

    phases: frozenset[FlowPhase]
    was: RunState | None
    becomes: RunState
    ends: RunState | None = None


def _to(*phases: FlowPhase) -> frozenset[FlowPhase]:
    return frozenset(phases)


_COPIES = _to(FlowPhase.ACTIVE, FlowPhase.PAUSED)
_OVER, _BACK, _PROMOTED = FlowPhase.FAILING_OVER, FlowPhase.FAILING_BACK, FlowPhase.PROMOTED
_OPEN, _ABORTED, _RETURNED = RunState.OPEN, RunState.ABORTED, RunState.RETURNED

TRANSITIONS = {
    (FlowPhase.ACTIVE, "begin"): Next(_to(_OVER), None, _OPEN),
    (FlowPhase.PAUSED, "begin"): Next(_to(_OVER), None, _OPEN),
    (_OVER, "abort"): Next(_COPIES, _OPEN, _ABORTED),
    (_OVER, "promote"): Next(_to(_PROMOTED), _OPEN, RunState.PROMOTED),
    (_PROMOTED, "follow"): Next(_COPIES, RunState.PROMOTED, _RETURNED),
    (_PROMOTED, "set-out"): Next(_to(_BACK), None, _OPEN),
    (_BACK, "abort"): Next(_to(_PROMOTED), _OPEN, _ABORTED),
    (_BACK, "arrive"): Next(_COPIES, _OPEN, RunState.PROMOTED, _RETURNED),
    (_BACK, "end-without"): Next(_COPIES, _OPEN, _RETURNED, _RETURNED),
    (FlowPhase.ACTIVE, "lend"): Next(_to(_OVER), None, _OPEN),
    (_OVER, "lend"): Next(_to(_OVER), None, _OPEN, _ABORTED),
    (_OVER, "give-back"): Next(_to(FlowPhase.ACTIVE), _OPEN, _RETURNED),
}
"""What each move makes of a flow in a phase; any may leave the phase and the run's state as they are."""


def require_legal(ledger: Ledger, move: Move) -> None:
    """Raise AssertionError for a move that is not in the table: nothing of it is written."""
    phase, was = ledger.phase, _state(ledger, move.run.run)
    if move.state is not None:
        phase = move.state.state
    elif any(isinstance(record, FlowState) for record in move.forgotten):
        phase = FlowPhase.ACTIVE
    if (phase, move.run.state) == (ledger.phase, was):
        found: Next | None = Next(_to(phase), was, move.run.state)
    else:
        found = TRANSITIONS.get((ledger.phase, move.name))
    over = move.ended
    ended = over.state if over is not None and over.state is not _state(ledger, over.run) else None
    if (
        found is None
        or phase not in found.phases
        or (was, move.run.state) != (found.was, found.becomes)
        or ended not in {None, found.ends}
    ):
        raise AssertionError(
            f"{move.name or 'no move'} makes a flow that is {ledger.phase.value} {phase.value}, and {move.run.run},"
            f" {was}, {move.run.state.value}"
        )


def _state(ledger: Ledger, run: str) -> RunState | None:
    known = ledger.recovery(run)
    return known.state if known is not None else None
