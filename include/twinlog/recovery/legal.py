"""Hold every move of a failover, and of a way home, to the tables of what may follow what.  Pure.

The moves themselves, and who may make them, are in `transitions` and `homeward`.
"""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import RunState
from twinlog.recovery.transitions import Move
from twinlog.state.ledger import Ledger

_COPIES = frozenset({FlowPhase.ACTIVE, FlowPhase.PAUSED})

PHASES: Mapping[FlowPhase, frozenset[FlowPhase]] = {
    FlowPhase.ACTIVE: frozenset({FlowPhase.FAILING_OVER}),
    FlowPhase.PAUSED: frozenset({FlowPhase.FAILING_OVER}),
    FlowPhase.FAILING_OVER: _COPIES | {FlowPhase.PROMOTED},
    FlowPhase.PROMOTED: _COPIES | {FlowPhase.FAILING_BACK},
    FlowPhase.FAILING_BACK: _COPIES | {FlowPhase.PROMOTED},
}
"""The phases of a flow that may follow each; a move may leave it as it is."""

RUNS: Mapping[RunState | None, frozenset[RunState]] = {
    None: frozenset({RunState.OPEN}),
    RunState.OPEN: frozenset({RunState.PROMOTED, RunState.ABORTED, RunState.RETURNED}),
    RunState.PROMOTED: frozenset({RunState.RETURNED}),
    RunState.ABORTED: frozenset(),
    RunState.RETURNED: frozenset(),
}
"""The states of a run that may follow each; a run that has none begins."""


def require_legal(ledger: Ledger, move: Move) -> None:
    """Raise AssertionError for a move that is in no table: nothing of it is written."""
    phase = ledger.phase
    if move.state is not None:
        phase = move.state.state
    elif any(isinstance(it, FlowState) for it in move.forgotten):
        phase = FlowPhase.ACTIVE
    if phase is not ledger.phase and phase not in PHASES[ledger.phase]:
        raise AssertionError(f"a flow that is {ledger.phase.value} does not become {phase.value}")
    for run in filter(None, (move.run, move.ended)):
        before = ledger.recovery(run.run)
        was = before.state if before is not None else None
        if run.state is not was and run.state not in RUNS[was]:
            raise AssertionError(f"{run.run} does not become {run.state.value}")
