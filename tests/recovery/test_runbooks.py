"""The runbooks have the steps of the procedures, word by word and in their order."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TABLES = runpy.run_path(str(Path(__file__).parents[2] / "docs" / "runbook_tables.py"))


@pytest.mark.parametrize("name", TABLES["TABLES"])
def test_a_runbook_has_every_step_of_its_procedure(name: str) -> None:
    """One row a step: what it does, what to expect, what to do otherwise, how long it took: `make reference`."""
    text = TABLES["page"](name).read_text(encoding="utf-8")
    assert text == TABLES["written"](name, text)
