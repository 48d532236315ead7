"""A move that does not stand in the table is not written, whoever decides it."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import RecoveryRun, RunState
from twinlog.recovery.legal import TRANSITIONS, require_legal
from twinlog.recovery.transitions import Move
from twinlog.state.ledger import Ledger

NAMES = sorted({name for _, name in TRANSITIONS})
STATES = [None, *RunState]


def run_in(state: RunState, name: str = "run") -> RecoveryRun:
    return RecoveryRun(name, "planned", state, "jo", "jo-1", 1, 1)


def is_legal(ledger: Ledger, move: Move) -> bool:
    try:
        require_legal(ledger, move)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("name", ["", *NAMES, "another"])
def test_a_move_goes_where_the_table_lets_it(name: str) -> None:
    """From every phase to every phase, of a run in every state; any may change neither."""
    for before, then, was, becomes in product(FlowPhase, FlowPhase, STATES, RunState):
        runs = () if was is None else (run_in(was),)
        ledger = Ledger(flow_state=FlowState(before, 1, "jo", "why"), recoveries=runs)
        move = Move(run_in(becomes), FlowState(then, 2, "jo", "why"), name=name)
        row = TRANSITIONS.get((before, name))
        listed = row is not None and then in row.phases and (row.was, row.becomes) == (was, becomes)
        kept = (before, was) == (then, becomes)
        assert (listed or kept) == is_legal(ledger, move), (before, then, was, becomes)


@pytest.mark.parametrize("name", NAMES)
def test_a_move_ends_what_the_table_says(name: str) -> None:
    """Another run is over with some moves, and with no other."""
    for (before, _), row in ((key, row) for key, row in TRANSITIONS.items() if key[1] == name):
        for ends in RunState:
            runs = (run_in(RunState.PROMOTED, "other"), *(() if row.was is None else (run_in(row.was),)))
            ledger = Ledger(flow_state=FlowState(before, 1, "jo", "why"), recoveries=runs)
            state = FlowState(min(row.phases), 2, "jo", "why")
            move = Move(run_in(row.becomes), state, ended=run_in(ends, "other"), name=name)
            assert (ends in {RunState.PROMOTED, row.ends}) == is_legal(ledger, move), (before, ends)


def test_the_page_has_the_phases_that_follow_each() -> None:
    """Its column `then` is the table's."""
    page = (Path(__file__).parents[2] / "docs" / "failover.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `([a-z-]+)`.*\| ([^|]*) \|$", page.partition("## States")[2].partition("\n## ")[0], re.M
    )
    follow = {
        before: {
            it for (phase, _), row in TRANSITIONS.items() if phase is before for it in row.phases - {before}
        }
        for before in FlowPhase
    }
    told = {
        before.value: ", ".join(f"`{it.value}`" for it in sorted(then)) for before, then in follow.items()
    }
    assert {**dict(rows), "paused": told["paused"]} == told
