"""The runbooks have the steps of the procedures, word by word and in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.drill.procedure import DRILL
from twinlog.recovery.procedure import FAILBACK, PLANNED, SOURCE_DEAD, Step

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


@pytest.mark.parametrize(
    ("page", "steps"),
    [("planned", PLANNED), ("source-dead", SOURCE_DEAD), ("failback", FAILBACK), ("drill", DRILL)],
)
def test_a_runbook_has_every_step_of_its_procedure(page: str, steps: tuple[Step, ...]) -> None:
    """One row a step: what it does, what to expect, and what to do otherwise."""
    section = (
        (RUNBOOKS / page)
        .with_suffix(".md")
        .read_text(encoding="utf-8")
        .partition("## The command")[2]
        .partition("## After")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert [f"| {it.name.value} | {it.does} | {it.expected} | {it.otherwise} |" for it in steps] == rows
