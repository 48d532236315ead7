"""Do the steps of a procedure: tell that one begins, take its time, and turn its error into its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

from twinlog.errors import TwinlogError
from twinlog.recovery.report import Name, Outcome, StepReport, failed_by

Told = Callable[[Name, Outcome | None], None]
"""Hears of a step that begins (None), and of its outcome."""


def timed(name: Name, deed: Callable[[], Outcome], told: Told[Name]) -> tuple[Outcome, StepReport[Name]]:
    """Do a step; return its outcome, and its row of the report.

    Raises FencedError `relieved` if another process goes on with the run: this one has nothing to report.
    """
    told(name, None)
    began = time.monotonic()
    try:
        outcome = deed()
    except TwinlogError as error:
        if error.code == "relieved":
            raise
        outcome = failed_by(error)
    told(name, outcome)
    return outcome, StepReport(name, outcome.state, round(time.monotonic() - began, 3), outcome.message)


def walk(
    todo: Iterable[Name],
    do: Callable[[Name], Outcome],
    told: Told[Name],
    note: Callable[[StepReport[Name], Outcome], None],
) -> Outcome | None:
    """Do the steps in their order, until one ends it, and note each; return the last outcome."""
    last: Outcome | None = None
    for name in todo:
        last, row = timed(name, partial(do, name), told)
        note(row, last)
        if last.ends:
            break
    return last
