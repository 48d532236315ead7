"""B is lost on the way home: A is promoted without it, by what failback/standby.py has kept there, and B joins again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from home_world import BothWays, denied, lose, new_world, now_ms, replace_what_needs_brokers
from recovery_world import Blows, Killed

from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.gate import Waiver
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun
from twinlog.gate.suites.suites import Mode
from twinlog.recovery.failback import export
from twinlog.recovery.report import FailoverReport, State
from twinlog.state.ledger import write_ledger

WRITTEN_ON_B = 4
READ = set(range(8))
"""What the group has read, on A before the failover or on B behind it."""


@pytest.fixture(params=[True, False], ids=["same-names", "other-names"])
def make_promoted(
    request: pytest.FixtureRequest, flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], BothWays]:
    """`make_promoted()` is a flow that was failed over; clients have written four records to B, and read three."""
    monkeypatch.setattr(export, "PAUSE_SECONDS", 0)

    def make() -> BothWays:
        world = new_world(flow, tmp_path, keeps_names=request.param)
        replace_what_needs_brokers(world, monkeypatch)
        for it in (world.there, world.usual):
            world.cycle(it)
        assert State.PROMOTED is world.fail_over().state
        world.write(world.b, WRITTEN_ON_B)
        world.b.commit("billing", world.copied, world.position(world.b) + 3)
        return world

    return make


@pytest.fixture
def world(make_promoted: Callable[[], BothWays]) -> BothWays:
    return make_promoted()


def without_b(world: BothWays) -> FailoverReport:
    """Promote A; a person answers for what nobody could audit before B was lost."""
    report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
    if report.state is State.REFUSED:
        wanted = (
            "audit-age",
            "audit-promised",
            "flow-has-run",
            "last-cycle-succeeded",
            "state-age",
            "known-rpo",
        )
        more = ("known-transactions-end", "map-known", "has-topics", "known-partitions-seen", "known-drift")
        waivers = [Waiver(it, "", "B is lost", "jo", now_ms() + 60_000, now_ms()) for it in (*wanted, *more)]
        write_ledger(world.back, world.a, waivers)
        report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
    return report


def told(report: FailoverReport) -> str:
    return "\n".join(f"{it.name.value}: {it.state.value}: {it.message}" for it in report.steps)


def require_promoted(world: BothWays, report: FailoverReport) -> int:
    """A is the one to use: nothing is twice on it, no group skips a record there; return how many records came home."""
    assert State.PROMOTED is report.state, told(report)
    assert FlowPhase.PROMOTED is world.ledger(world.back).phase
    assert not denied(world.a)
    on_a = world.values(world.a)
    assert on_a == sorted(set(on_a))
    assert set(on_a) - READ <= set(world.unread(world.a))
    return len(on_a) - 5


def require_together(world: BothWays, home: int) -> None:
    """Once B is back: what never came home is saved, both flows follow, and A's records come to B."""
    world.write(world.a, 2)
    saved = world.save(world.back)
    assert State.PROMOTED is saved.state, told(saved)
    assert WRITTEN_ON_B - home == saved.only_on_source == sum(it.records for it in saved.exported)
    assert () == world.follow().left
    assert () == world.follow(world.back).left
    assert not denied(world.a)
    assert not denied(world.b)
    for it in (world.there, world.usual, world.there):
        world.cycle(it)
    left = set(range(5 + home, 5 + WRITTEN_ON_B)) if world.back is not world.usual else set()
    assert world.values(world.b) == sorted({*world.values(world.a), *left})
    assert {FlowPhase.ACTIVE} == {world.ledger(it).phase for it in (world.there, world.back)}


def known(world: BothWays) -> tuple[RecoveryRun, ...]:
    """The runs that A's ledger of the way home knows."""
    if world.back.ledger_topic not in world.a.topics:
        return ()
    return world.ledger(world.back).recoveries


class TestKilled:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_b_is_lost_at_every_change_of_the_way_home(self, make_promoted, after: bool):
        """A can be promoted as soon as its ledger knows of the way home, and only then."""
        refused, promoted = 0, []
        for at in range(1, 120):
            world = make_promoted()
            world.blows = Blows(at, after)
            try:
                world.home()
            except Killed:
                world.blows = Blows()
            else:
                break
            if world.ledger(world.there).phase is not FlowPhase.FAILING_BACK:
                continue  # before the way home, or behind its end
            again = lose(world.b)
            if not any(it.home for it in known(world)):
                refused += 1
                continue
            home = require_promoted(world, without_b(world))
            promoted.append(home)
            again()
            require_together(world, home)
        assert (refused < 5, {0, WRITTEN_ON_B}) == (True, set(promoted))
