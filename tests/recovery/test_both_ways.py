"""A planned failover of one of two flows with unchanged names: groups go on behind all that they have read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from home_world import GROUP, BothWays, new_world, replace_what_needs_brokers
from recovery_world import ORDERS, Blows, Killed

from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.records import FlowPhase
from twinlog.recovery.report import FailoverReport, State
from twinlog.topics import pauses


@pytest.fixture
def make_world(flow: FlowSettings, tmp_path: Path, monkeypatch) -> Callable[[], BothWays]:
    """`make_world()` is both flows; since their last cycles A got six records, and the group read four."""

    def make() -> BothWays:
        made = new_world(flow, tmp_path)
        replace_what_needs_brokers(made, monkeypatch)
        for it in (made.there, made.back):
            made.cycle(it)
        made.write(made.a, 6)
        made.a.commit(GROUP, ORDERS, 9)
        return made

    return make


@pytest.fixture
def world(make_world: Callable[[], BothWays]) -> BothWays:
    return make_world()


def said(report: FailoverReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def require_exact(world: BothWays) -> None:
    """B is promoted, has all records once, and the group goes on with the first that it has not read."""
    assert FlowPhase.PROMOTED is world.ledger(world.there).phase
    assert FlowPhase.ACTIVE is world.ledger(world.back).phase
    assert list(range(11)) == world.values(world.a) == world.values(world.b)
    assert [9, 10] == world.unread(world.b)


def test_nothing_is_read_again(world: BothWays) -> None:
    """B->A passes over what came before groups are placed."""
    report = world.fail_over()
    assert State.PROMOTED is report.state
    assert [0] == [it.again for it in report.groups]
    require_exact(world)


def test_killed_at_every_change(make_world: Callable[[], BothWays]) -> None:
    """Another process ends it, with the same places."""
    for at in range(1, 60):
        world = make_world()
        world.blows = Blows(at)
        try:
            world.fail_over()
        except Killed:
            world.blows = Blows()
            if not world.ledger(world.there).recoveries[-1].cleared:
                assert State.PROMOTED is world.fail_over().state
        else:
            break
        require_exact(world)
    assert at > 20


def test_records_of_b_that_a_denies(world: BothWays) -> None:
    """They stay on B, and nobody is kept from B by that; a group begins before them, as it has not read them."""
    world.write(world.b, 2)
    report = world.fail_over()
    assert State.PROMOTED is report.state
    assert "B->A could not copy all of it yet" in said(report, "drain")
    assert {9, 10, 11, 12} <= set(world.unread(world.b))
    assert State.FOLLOWING is world.home().state
    assert list(range(13)) == world.values(world.a) == world.values(world.b)


@pytest.mark.parametrize(("why", "again"), [("no-reverse", 4), ("paused", 4), ("never-ran", 0)])
def test_a_reverse_flow_that_does_not_pass_over(world: BothWays, why: str, again: int) -> None:
    """B is promoted all the same; the group begins earlier if that flow has written before, and misses nothing."""
    if why == "never-ran":
        for name in [it for it in world.a.topics if it.startswith("mm2")]:
            del world.a.topics[name]
    if why == "paused":
        pauses.pause(world.back, world.a, by="ann", reason="disks")
    report = world.fail_over(reverse=why != "no-reverse")
    assert State.PROMOTED is report.state
    assert 2 + again == len(world.unread(world.b))
    assert {9, 10} <= set(world.unread(world.b))
    assert list(range(11)) == world.values(world.b)
