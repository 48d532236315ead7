"""Do one step of a procedure: tell that it begins, take its time, and turn its error into its outcome."""

from __future__ import annotations

import time
from collections.abc import Callable

from twinlog.errors import TwinlogError
from twinlog.recovery.procedure import Name
from twinlog.recovery.report import Outcome, StepReport, failed_by

Told = Callable[[Name, Outcome | None], None]
"""Hears of a step that begins (None), and of its outcome."""


def timed(name: Name, deed: Callable[[], Outcome], told: Told[Name]) -> tuple[Outcome, StepReport[Name]]:
    """Do a step; return its outcome, and its row of the report."""
    told(name, None)
    began = time.monotonic()
    try:
        outcome = deed()
    except TwinlogError as error:
        outcome = failed_by(error)
    told(name, outcome)
    return outcome, StepReport(name, outcome.state, round(time.monotonic() - began, 3), outcome.message)
