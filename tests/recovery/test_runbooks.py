"""The runbooks have the steps of the procedures, word by word and in their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.drill.procedure import DRILL
from twinlog.recovery.procedure import FAILBACK, HOME, PLANNED, SOURCE_DEAD, Step

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"


@pytest.mark.parametrize(
    ("page", "heading", "steps"),
    [
        ("planned", "The command", PLANNED),
        ("source-dead", "The command", SOURCE_DEAD),
        ("failback", "The command", HOME),
        ("failback", "To save only", FAILBACK),
        ("drill", "The command", DRILL),
    ],
)
def test_a_runbook_has_every_step_of_its_procedure(page: str, heading: str, steps: tuple[Step, ...]) -> None:
    """One row a step: what it does, what to expect, and what to do otherwise."""
    section = (
        (RUNBOOKS / page)
        .with_suffix(".md")
        .read_text(encoding="utf-8")
        .partition(f"## {heading}\n")[2]
        .partition("\n## ")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert [f"| {it.name.value} | {it.does} | {it.expected} | {it.otherwise} |" for it in steps] == rows
