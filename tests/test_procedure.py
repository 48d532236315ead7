"""Steps are walked in their order: one that ends the whole is the last, and a dry run changes nothing."""

from __future__ import annotations

import pytest

from twinlog.errors import TransientError
from twinlog.procedure import Outcome, Step, StepName, done, failed, learned, silent, walk


def step(name: StepName, outcome: Outcome | Exception, *, changes: bool = True) -> Step[list[str]]:
    """A step that says in a list that it was done."""

    def do(world: list[str]) -> Outcome:
        world.append(name.value)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Step(name, "copies A to B", "", "", do, (lambda _: "") if changes else do)


def test_a_step_that_fails_is_the_last() -> None:
    """Its row is there, and nothing behind it is done."""
    deeds: list[str] = []
    steps = [
        step(StepName.BEGIN, done("taken")),
        step(StepName.COMPARE, failed("differs")),
        step(StepName.WRITE, done("")),
    ]
    walked = walk(steps, deeds, silent)
    assert (["begin", "compare"], 1) == (deeds, len(walked.stopped))
    assert ["taken", "differs"] == [it.message for it in walked.rows]


def test_a_walk_may_go_on_behind_a_failure() -> None:
    """A save and a drill do: each step knows what those before have found, and what failed is told in the end."""
    worlds: list[int] = []

    def counted(world: int) -> Outcome:
        worlds.append(world)
        return learned(failed("no"), world + 1)

    step: Step[int] = Step(StepName.READ, "", "", "", counted)
    walked = walk([step] * 4, 5, silent, goes_on=lambda world, _: world < 8)
    assert ([5, 6, 7], 8, 3) == (worlds, walked.world, len(walked.stopped))


def test_the_error_of_a_step_is_raised() -> None:
    """As it is: its code and hint are for who called."""
    error = TransientError("away", code="unsettled")
    with pytest.raises(TransientError) as caught:
        walk([step(StepName.BEGIN, error)], [], silent).raised()
    assert error is caught.value


def test_a_dry_run_does_what_changes_nothing_and_tells_the_rest() -> None:
    """With the aliases of the flow's clusters."""
    deeds: list[str] = []
    steps = [
        step(StepName.BEGIN, done("")),
        step(StepName.COMPARE, done("equal"), changes=False),
        step(StepName.WRITE, done("")),
    ]
    walked = walk([it.looking("east", "west") for it in steps], deeds, silent)
    assert (["compare"], ()) == (deeds, walked.stopped)
    assert ["planned", "done", "planned"] == [it.state.value for it in walked.rows]
    assert "copies east to west" == walked.rows[0].message
