"""Find the steps of a procedure by the mode that its run has in the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.formats.ledger.recovery import FAILBACK
from twinlog.procedure import Step, StepName
from twinlog.recovery import failover
from twinlog.recovery.failback.home_steps import HOME
from twinlog.recovery.steps.world import World

STEPS: Mapping[str, tuple[Step[World], ...]] = {**failover.STEPS, FAILBACK: HOME}


def steps_of(mode: str, *, observed: bool = False) -> tuple[Step[World], ...]:
    """Return the steps of a mode, for a flow that another engine copies if it is `observed`."""
    return HOME if mode == FAILBACK else failover.steps_of(mode, observed=observed)


def names_of(mode: str, *, observed: bool = False) -> tuple[StepName, ...]:
    """Return the names of all steps of a mode."""
    return tuple(step.name for step in steps_of(mode, observed=observed))
