"""The runbooks have the steps of the procedures, word by word and in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.drill import drill
from twinlog.procedure import Step
from twinlog.recovery.failback.failback import SAVE
from twinlog.recovery.procedures import STEPS

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


def rows_of(page: str, heading: str) -> list[str]:
    """The rows of the table below a heading."""
    section = (
        (RUNBOOKS / page)
        .with_suffix(".md")
        .read_text(encoding="utf-8")
        .partition(f"## {heading}\n")[2]
        .partition("\n## ")[0]
    )
    return [line for line in section.splitlines() if line.startswith("| ")][1:]


@pytest.mark.parametrize(
    ("page", "heading", "steps"),
    [
        ("planned", "The command", STEPS["planned"]),
        ("source-dead", "The command", STEPS["source-dead"]),
        ("failback", "The command", STEPS["failback"]),
        ("failback", "To save only", SAVE),
        ("drill", "The command", drill.STEPS),
    ],
)
def test_a_runbook_has_every_step_of_its_procedure(page: str, heading: str, steps: tuple[Step, ...]) -> None:
    """One row a step: what it does, what to expect, and what to do otherwise."""
    rows = rows_of(page, heading)
    assert [f"| {it.name.value} | {it.does} | {it.expected} | {it.otherwise} |" for it in steps] == rows
