"""The tasks around a failover: they say what was done, and fail if a person has to act."""

from __future__ import annotations

import pytest

from twinlog.errors import TerminalError, TransientError
from twinlog.formats.ledger.recovery import StepState
from twinlog.gate.suites.suites import Mode
from twinlog.recovery.procedure import StepName
from twinlog.recovery.report import (
    FailoverReport,
    PartitionAtRisk,
    PlacedGroup,
    State,
    StepReport,
    TopicAtRisk,
)

pytestmark = pytest.mark.airflow

ANSWER = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}}
GATE = StepReport(StepName.GATE, StepState.FAILED, 1.0, "not ready, lag-records")
WAITS = StepReport(StepName.FENCE_PRODUCERS, StepState.WAITING, 1.0, "still written to on A: orders")


def report_of(state: State, *steps: StepReport, transient: bool = False) -> dict:
    found = FailoverReport("A->B", "run", Mode.PLANNED, state, False, steps)
    return {**found.document, "transient": transient}


def test_a_promotion_with_all_its_steps_is_a_success() -> None:
    """Skipped steps are no failure."""
    from twinlog.airflow.recovery import not_promoted

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
    from twinlog.airflow.recovery import not_promoted

    error = not_promoted(outcome)
    assert (kind, True) == (type(error), words in str(error)), str(error)


def test_nobody_fails_over_without_an_answer() -> None:
    """A task that was marked as a success by hand is no approval."""
    from twinlog.airflow.recovery import approver

    assert "ann" == approver(ANSWER)
    for answer in (None, {**ANSWER, "chosen_options": ["Reject"]}):
        with pytest.raises(TerminalError, match="nobody has approved"):
            approver(answer)


def test_the_note_names_what_is_lost_and_what_is_read_again() -> None:
    """Largest losses first; what is unknown is called so."""
    from twinlog.airflow.tasks.failover import note_lines

    parts = tuple(PartitionAtRisk(n, 10, 10 - n, n) for n in range(3))
    groups = (
        PlacedGroup("billing", "orders", 0, 5, 4, 1),
        PlacedGroup("billing", "orders", 1, 5, None, None),
        PlacedGroup("audit", "orders", 0, 5, 5, 0),
    )
    found = FailoverReport(
        "A->B",
        "",
        Mode.PLANNED,
        State.FOLLOWING,
        True,
        (),
        (TopicAtRisk("orders", "A.orders", parts),),
        groups,
    )
    assert [
        "A->B: failover, planned; the flow is following now",
        "not on the target now: 3 records",
        "  2 of orders-2, copy A.orders",
        "  1 of orders-1, copy A.orders",
        "groups: 2, positions: 3",
        "  billing would read 1 records of orders-0 again",
        "  how many records are read again is not known for 1 positions",
    ] == list(note_lines(found))
