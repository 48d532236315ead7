"""What a step has found is known to the steps behind it, on the way home of both flows; no step changes a world."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.recovery import StepState
from twinlog.procedure import StepName, StepReport, done
from twinlog.recovery.procedure import Actor
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps.world import LOOKING, Request, World

ROW = StepReport(StepName.DRAIN, StepState.DONE, 0.1, "nothing is left")


def world(flow: FlowSettings) -> World:
    away: Any = None
    return World.of(Way(flow, Clusters(away, away)), Request("jo"), LOOKING, Actor("jo", ""), "run-1")


def test_the_next_step_knows_what_was_found(flow: FlowSettings) -> None:
    """And the world that the step had is as it was; an outcome without a finding takes nothing away."""
    before = world(flow)
    behind = before.after(ROW, before.noting(done("copied"), "look at it")).after(ROW, done("placed"))
    assert ((), ()) == (before.steps, before.found.notes)
    assert ((ROW, ROW), ("look at it",)) == (behind.steps, behind.found.notes)


def test_both_flows_of_a_way_home_know_it(flow: FlowSettings) -> None:
    """The flow that copies home is asked by the steps of the planned failover."""
    there = replace(world(flow), reverse=world(flow))
    assert ("late",) == there.after(ROW, there.back.noting(done("copied"), "late")).back.found.notes


def test_nothing_changes_a_world(flow: FlowSettings) -> None:
    """It is frozen, and so is what was found."""
    it = world(flow)
    with pytest.raises(FrozenInstanceError):
        it.steps = (ROW,)  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        it.found.notes = ("late",)  # type: ignore[misc]
