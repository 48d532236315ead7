"""A move that stands in no table is not written, whoever decides it."""

from __future__ import annotations

from itertools import product

import pytest

from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import RecoveryRun, RunState
from twinlog.recovery.legal import PHASES, RUNS, require_legal
from twinlog.recovery.transitions import Move
from twinlog.state.ledger import Ledger


def run_in(state: RunState) -> RecoveryRun:
    return RecoveryRun("run", "planned", state, "jo", "jo-1", 1, 1)


def is_legal(ledger: Ledger, move: Move) -> bool:
    try:
        require_legal(ledger, move)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(("before", "after"), list(product(FlowPhase, FlowPhase)))
def test_a_flow_goes_where_the_table_lets_it(before: FlowPhase, after: FlowPhase) -> None:
    """From promoted no move leads to failing over, for one."""
    ledger = Ledger(flow_state=FlowState(before, 1, "jo", "why"), recoveries=(run_in(RunState.OPEN),))
    move = Move(run_in(RunState.OPEN), FlowState(after, 2, "jo", "why"))
    assert (before is after or after in PHASES[before]) == is_legal(ledger, move)


@pytest.mark.parametrize(("before", "after"), list(product([None, *RunState], RunState)))
def test_a_run_goes_where_the_table_lets_it(before: RunState | None, after: RunState) -> None:
    """What is over does not begin again."""
    ledger = Ledger(recoveries=() if before is None else (run_in(before),))
    assert (before is after or after in RUNS[before]) == is_legal(ledger, Move(run_in(after)))
    assert is_legal(ledger, Move(run_in(after))) == is_legal(ledger, Move(run_in(after), ended=run_in(after)))
