"""Steps are performed in their order: one that ends the whole is the last, and a dry run changes nothing."""

from __future__ import annotations

import pytest

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TransientError
from twinlog.procedure import Outcome, Step, StepName, done, failed, perform, silent


def step(name: StepName, outcome: Outcome | Exception, *, changes: bool = True) -> Step[list[str]]:
    """A step that says in a list that it was done."""

    def do(world: list[str]) -> Outcome:
        world.append(name.value)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Step(name, "copies A to B", "", "", do, (lambda _: "") if changes else None)


def test_a_step_that_fails_is_the_last(flow: FlowSettings) -> None:
    """Its row is there, and nothing behind it is done."""
    deeds: list[str] = []
    steps = [
        step(StepName.BEGIN, done("taken")),
        step(StepName.COMPARE, failed("differs")),
        step(StepName.WRITE, done("")),
    ]
    rows, whole = perform(steps, deeds, flow, silent)
    assert (["begin", "compare"], False) == (deeds, whole)
    assert ["taken", "differs"] == [it.message for it in rows]


def test_the_error_of_a_step_is_raised(flow: FlowSettings) -> None:
    """As it is: its code and hint are for who called."""
    error = TransientError("away", code="unsettled")
    with pytest.raises(TransientError) as caught:
        perform([step(StepName.BEGIN, error)], [], flow, silent)
    assert error is caught.value


def test_a_dry_run_does_what_changes_nothing_and_tells_the_rest(flow: FlowSettings) -> None:
    """With the aliases of the flow's clusters."""
    deeds: list[str] = []
    steps = [
        step(StepName.BEGIN, done("")),
        step(StepName.COMPARE, done("equal"), changes=False),
        step(StepName.WRITE, done("")),
    ]
    rows, whole = perform(steps, deeds, flow, silent, dry_run=True)
    assert (["compare"], True) == (deeds, whole)
    assert ["planned", "done", "planned"] == [it.state.value for it in rows]
    assert "copies A to B" == rows[0].message
