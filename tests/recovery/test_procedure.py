"""What is said of a step has the names of the flow's clusters."""

from __future__ import annotations

import re

import pytest

from twinlog.recovery.procedure import FAILBACK, HOME, PLANNED, SOURCE_DEAD, Step

STEPS = dict.fromkeys((*FAILBACK, *HOME, *PLANNED, *SOURCE_DEAD))


@pytest.mark.parametrize("step", STEPS)
def test_each_step_is_told_with_the_aliases_of_the_flow(step: Step) -> None:
    """The pages call them A and B."""
    told = step.does_for("east", "west")
    assert [] == re.findall(r"\b[AB]\b", told)
    assert step.does == told.replace("east", "A").replace("west", "B")
