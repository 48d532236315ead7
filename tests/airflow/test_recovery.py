"""What the form of a recovery's Dag asks for, who approved it, and whether it is done."""

from __future__ import annotations

import pytest

from twinlog.airflow.recovery import (
    approver,
    goes_home,
    not_home,
    not_promoted,
    not_saved,
)
from twinlog.errors import TerminalError, TransientError, UsageError
from twinlog.formats.ledger.recovery import StepState
from twinlog.gate.suites.suites import Mode
from twinlog.recovery.failback.failback import FailbackReport
from twinlog.recovery.procedure import StepName
from twinlog.recovery.report import FailoverReport, State, StepReport

ANSWER = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}}
GATE = StepReport(StepName.GATE, StepState.FAILED, 1.0, "not ready, lag-records")
WAITS = StepReport(StepName.FENCE_PRODUCERS, StepState.WAITING, 1.0, "still written to on A: orders")


def report_of(state: State, *steps: StepReport, transient: bool = False) -> dict:
    found = FailoverReport("A->B", "run", Mode.PLANNED, state, False, steps)
    return {**found.document, "transient": transient}


def test_a_promotion_with_all_its_steps_is_a_success() -> None:
    """Skipped steps are no failure."""
    hook = StepReport(StepName.SWITCH_CLIENTS, StepState.SKIPPED, 0.0, "no hook is set")
    assert not_promoted(report_of(State.PROMOTED, hook)) is None


@pytest.mark.parametrize(
    ("outcome", "kind", "words"),
    [
        (
            report_of(State.REFUSED, GATE),
            TerminalError,
            "refused: gate: not ready, lag-records; clear this task",
        ),
        (
            report_of(State.WAITING, WAITS),
            TerminalError,
            "waiting: fence-producers: still written to on A: orders",
        ),
        (report_of(State.FAILED, GATE, transient=True), TransientError, "recovery abort --flow 'A->B'"),
        (report_of(State.PROMOTED, GATE), TerminalError, "no way back but a failback"),
        (report_of(State.FAILED), TerminalError, "steps are left"),
    ],
)
def test_all_else_fails_the_task_and_says_what_to_do(outcome: dict, kind: type, words: str) -> None:
    """In one line; only what may go away by itself is tried again."""
    error = not_promoted(outcome)
    assert (kind, True) == (type(error), words in str(error)), str(error)


def test_nobody_fails_over_without_an_answer() -> None:
    """A task that was marked as a success by hand is no approval."""
    assert "ann" == approver(ANSWER)
    for answer in (None, {**ANSWER, "chosen_options": ["Reject"]}):
        with pytest.raises(TerminalError, match="nobody has approved"):
            approver(answer)


def back_of(state: State, *steps: StepReport, transient: bool = False) -> dict:
    found = FailbackReport("A->B", "run", "failback", state, False, steps)
    return {**found.document, "transient": transient}


TAIL = StepReport(StepName.BRING_HOME, StepState.WAITING, 1.0, "3 records are on A alone")
LOOKED = StepReport(StepName.COMPARE, StepState.DONE, 1.0, "0 records are on A alone")


@pytest.mark.parametrize(
    ("outcome", "kind", "words"),
    [
        (
            back_of(State.WAITING, LOOKED, TAIL),
            TerminalError,
            "waiting: bring-home: 3 records are on A alone",
        ),
        (back_of(State.REFUSED, GATE), TerminalError, "recovery abort --flow 'A->B'` leaves clients"),
        (back_of(State.FAILED, GATE, transient=True), TransientError, "clear this task to go on"),
        (back_of(State.FOLLOWING, GATE), TerminalError, "no way back but a failover"),
        (back_of(State.PROMOTED, LOOKED), TerminalError, "steps are left"),
    ],
)
def test_who_is_not_home_is_told_what_to_do(outcome: dict, kind: type, words: str) -> None:
    """In one line; only what may go away by itself is tried again."""
    error = not_home(outcome)
    assert (kind, "failback", True) == (type(error), error.code, words in str(error)), str(error)


def test_home_is_a_flow_that_follows_with_every_step_done() -> None:
    """To save is done with the flow promoted."""
    assert not_home(back_of(State.FOLLOWING, LOOKED)) is None
    assert not_saved(back_of(State.PROMOTED, LOOKED)) is None
    assert "the flow stays promoted" in str(not_saved(back_of(State.FAILED, GATE)))


def test_a_tail_is_about_the_way_home() -> None:
    """A form that contradicts itself is refused before anybody is asked."""
    assert (True, False) == (
        goes_home({"home": True, "tail": "keep"}),
        goes_home({"home": False, "tail": None}),
    )
    with pytest.raises(UsageError, match="tail is about the way home; turn home on, or leave tail empty"):
        goes_home({"home": False, "tail": "keep"})
