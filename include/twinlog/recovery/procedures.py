"""Find the steps of a procedure by the mode that its run has in the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.formats.ledger.recovery import FAILBACK
from twinlog.procedure import Step, StepName
from twinlog.recovery import failover
from twinlog.recovery.failback.home_steps import HOME
from twinlog.recovery.steps.world import World

STEPS: Mapping[str, tuple[Step[World], ...]] = {**failover.STEPS, FAILBACK: HOME}


def names_of(mode: str) -> tuple[StepName, ...]:
    """Return the names of all steps of a mode."""
    return tuple(step.name for step in STEPS[mode])
