"""What is said of a step has the names of the flow's clusters."""

from __future__ import annotations

import re

import pytest

from twinlog.procedure import Step
from twinlog.recovery.failback.failback import SAVE
from twinlog.recovery.procedures import STEPS

EVERY = dict.fromkeys((*SAVE, *(it for steps in STEPS.values() for it in steps)))


@pytest.mark.parametrize("step", EVERY)
def test_each_step_is_told_with_the_aliases_of_the_flow(step: Step) -> None:
    """The pages call them A and B."""
    told = step.does_for("east", "west")
    assert [] == re.findall(r"\b[AB]\b", told)
    assert step.does == told.replace("east", "A").replace("west", "B")
