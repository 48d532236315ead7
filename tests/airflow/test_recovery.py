"""What the form of a recovery's Dag asks for, who approved it, and whether it is done."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twinlog.airflow.recovery import (
    approver,
    goes_home,
    not_saved,
    refuse_beside,
    steps_of,
    unfinished,
)
from twinlog.airflow.versions import AirflowSkipException
from twinlog.errors import TerminalError, TransientError, UsageError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import RecoveryRun, RunState, StepState
from twinlog.judge.check import Mode
from twinlog.procedure import StepName, StepReport
from twinlog.recovery.procedures import names_of
from twinlog.recovery.report import FailbackReport, FailoverReport, State
from twinlog.state.ledger import Ledger

ANSWER = {"chosen_options": ["Approve"], "responded_by_user": {"id": "1", "name": "ann"}}
GATE = StepReport(StepName.GATE, StepState.FAILED, 1.0, "not ready, lag-records")
WAITS = StepReport(StepName.FENCE_PRODUCERS, StepState.WAITING, 1.0, "still written to on A: orders")


def report_of(state: State, *steps: StepReport, transient: bool = False) -> dict:
    found = FailoverReport("A->B", "run", Mode.PLANNED, state, False, steps)
    return {**found.document, "transient": transient}


def test_a_promotion_with_all_its_steps_is_a_success() -> None:
    """Skipped steps are no failure."""
    hook = StepReport(StepName.SWITCH_CLIENTS, StepState.SKIPPED, 0.0, "no hook is set")
    assert unfinished("promote", report_of(State.PROMOTED, hook)) is None


@pytest.mark.parametrize(
    ("outcome", "kind", "words"),
    [
        (
            report_of(State.REFUSED, GATE),
            TerminalError,
            "refused: gate: not ready, lag-records; clear this task to go on, or `fence_producers` to look",
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
    error = unfinished("promote", outcome)
    assert (kind, True) == (type(error), words in str(error)), str(error)


ASKED = StepReport(StepName.APPROVE, StepState.WAITING, 0.0, "nobody is there to approve")
READY = StepReport(StepName.GATE, StepState.DONE, 1.0, "ready")


def test_a_task_before_the_question_has_done_its_own_step_alone() -> None:
    """That a person is still to be asked is no failure; of what a promotion has ended, nothing is done again."""
    assert unfinished("gate", report_of(State.WAITING, READY, ASKED)) is None
    assert "refused: gate: not ready" in str(unfinished("gate", report_of(State.REFUSED, GATE)))
    assert AirflowSkipException is type(unfinished("drain", report_of(State.PROMOTED)))
    assert "steps are left" in str(unfinished("promote", report_of(State.WAITING, READY)))


@pytest.mark.parametrize("mode", [*Mode, "failback"])
def test_each_step_of_a_procedure_is_walked_by_a_task(mode: str) -> None:
    """The steps behind the promotion by one each; what comes before by `promote`, however many tasks did it before."""
    before = names_of(mode)[: names_of(mode).index(StepName.PROMOTE) + 1]
    assert before == steps_of("promote", mode)
    tasks = ("follow", "switch_clients", "canary", "report")[mode != "failback" :]
    behind = dict.fromkeys(name for task in tasks for name in steps_of(task, mode))
    assert names_of(mode) == (*before, *behind)


def test_a_lost_source_has_no_step_that_asks_it() -> None:
    """And its groups are placed behind the yes, for that changes them."""
    assert ("gate", "approve") == steps_of("gate", Mode.SOURCE_DEAD)
    for task in ("fence_producers", "drain", "groups", "audit"):
        assert task.replace("_", "-") == steps_of(task, Mode.PLANNED)[0]
        with pytest.raises(AirflowSkipException, match="mode source-dead has no step"):
            steps_of(task, Mode.SOURCE_DEAD)
    with pytest.raises(AirflowSkipException, match="mode planned has no step loss"):
        steps_of("loss", Mode.PLANNED)


@pytest.mark.parametrize("mode", Mode)
def test_the_steps_of_an_observed_flow_are_walked_by_the_same_tasks(mode: Mode) -> None:
    """A task without an object walks nothing; `promote` all that the flow has."""
    names = names_of(mode, observed=True)
    before = names[: names.index(StepName.PROMOTE) + 1]
    assert before == steps_of("promote", mode, observed=True)
    if mode is Mode.PLANNED:
        tasks = ("begin", "fence_producers", "drain", "groups", "audit", "gate")
        walked = [name for task in tasks for name in steps_of(task, mode, observed=True)]
        assert list(names[: names.index(StepName.APPROVE) + 1]) == [it for it in walked if it in names]


def test_nobody_fails_over_without_an_answer() -> None:
    """A task that was marked as a success by hand is no approval."""
    assert "ann" == approver(ANSWER)
    with pytest.raises(TerminalError, match="nobody has approved"):
        approver(None)
    with pytest.raises(AirflowSkipException, match="rejected by ann"):
        approver({**ANSWER, "chosen_options": ["Reject"]})


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
        (
            back_of(State.REFUSED, GATE),
            TerminalError,
            "recovery abort --flow 'A->B' --reason ...` leaves clients",
        ),
        (back_of(State.FAILED, GATE, transient=True), TransientError, "clear this task to go on"),
        (back_of(State.FOLLOWING, GATE), TerminalError, "no way back but a failover"),
        (back_of(State.PROMOTED, LOOKED), TerminalError, "steps are left"),
    ],
)
def test_who_is_not_home_is_told_what_to_do(outcome: dict, kind: type, words: str) -> None:
    """In one line; only what may go away by itself is tried again."""
    error = unfinished("promote", outcome)
    assert (kind, "failback", True) == (type(error), error.code, words in str(error)), str(error)


def test_home_is_a_flow_that_follows_with_every_step_done() -> None:
    """To save is done with the flow promoted."""
    assert unfinished("promote", back_of(State.FOLLOWING, LOOKED)) is None
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


@pytest.mark.parametrize(
    ("states", "here", "dry", "refused"),
    [
        (["success", "running"], "tuesday", False, True),
        (["success", "up_for_retry"], "tuesday", False, True),
        (["success", None], "tuesday", False, True),  # between two tasks
        (["success", "awaiting_input"], "tuesday", False, True),
        (["success", "running"], "tuesday", True, False),  # changes nothing
        (["success", "running"], "monday", False, False),  # it is this very run
        (["failed", "upstream_failed"], "tuesday", False, False),  # goes on with what the other has left
        (["success", "skipped"], "tuesday", False, False),  # it waits, after a no
        ([], "tuesday", False, False),  # somebody has deleted the run
    ],
)
def test_a_run_beside_one_that_is_at_work_is_refused(
    states: list[str | None], here: str, dry: bool, refused: bool
) -> None:
    """It would relieve the other, also of the same person; the ledger says whose run of the Dag it is."""
    open_one = RecoveryRun("r", "planned", RunState.OPEN, "jo", "failover/monday-3f", 1, 1)
    ledger = Ledger(recoveries=(open_one,), flow_state=FlowState(FlowPhase.FAILING_OVER, 1, "jo", "", "r"))
    found = {"monday": dict(enumerate(states))} if states else {}
    context = {
        "params": {"dry_run": dry},
        "dag_run": SimpleNamespace(dag_id="failover", run_id=here),
        "ti": SimpleNamespace(get_task_states=lambda dag_id, run_ids: found),
    }
    if refused:
        with pytest.raises(
            TerminalError, match="run monday is at work for this flow, or waits for an answer"
        ):
            refuse_beside(context, ledger)
    else:
        refuse_beside(context, ledger)
