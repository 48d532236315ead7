"""Denials are noted, made and confirmed: a process that stalls in between leaves none behind that nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from home_world import BothWays, denied, promoted_world
from recovery_world import Blows, Killed

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FencedError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.recovery import history, transitions
from twinlog.recovery.report import State
from twinlog.recovery.steps.scene import Answer


@pytest.fixture(params=[True, False], ids=["same-names", "other-names"])
def world(
    request: pytest.FixtureRequest, flow: FlowSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> BothWays:
    """A flow that was failed over, with records of clients on B."""
    return promoted_world(flow, tmp_path, monkeypatch, keeps_names=request.param)


def stalled_at(world: BothWays, change: str, meanwhile: Callable[[], object], *, dies: bool = False) -> None:
    """Let another process act in front of a change, which is made behind it all the same."""

    class Stalled(Blows):
        def change(self, name: str, do: Callable[[], object]) -> object:
            if name != change:
                return do()
            world.blows = Blows()
            meanwhile()
            done = do()
            if dies:
                raise Killed(name)
            return done

    world.blows = Stalled()


class TestStalled:
    def test_one_that_makes_denials_after_another_has_turned_back_takes_them_away(self, world: BothWays):
        """Producers may go on writing to B, where they were left."""
        stalled_at(world, "B.create_acls", world.turn_back)
        with pytest.raises(FencedError, match="aborted"):
            world.home()
        assert FlowPhase.PROMOTED is world.ledger(world.there).phase
        assert not denied(world.b)

    def test_those_of_the_process_that_took_over_stay(self, world: BothWays):
        """The first makes them once more, and removes none: the second's failover stands on them."""
        stalled_at(world, "B.create_acls", lambda: world.home(Answer.NO, by="ann"))
        with pytest.raises(FencedError, match="taken over"):
            world.home()
        assert denied(world.b)
        assert State.FOLLOWING is world.home().state
        assert not denied(world.b)

    def test_one_that_dies_behind_them_is_cleared_up_after(self, world: BothWays, monkeypatch):
        """The note outlives the turning back: the status names it, and the next command removes the denials."""
        stalled_at(world, "B.create_acls", world.turn_back, dies=True)
        with pytest.raises(Killed):
            world.home()
        assert denied(world.b)
        found = history.status(world.there, world.clusters(world.there))
        assert "may have left 1 denials of WRITE: `twinlog recovery abort --flow 'A->B'" in found.next
        assert () == world.turn_back().left
        assert not denied(world.b)
        monkeypatch.setattr(transitions, "STALLED_MS", 0)
        assert () == world.turn_back().left
        assert world.turn_back() is None

    def test_the_next_way_home_goes_on_with_what_is_there(self, world: BothWays):
        """It ends as any other, and no denial is left."""
        stalled_at(world, "B.create_acls", world.turn_back, dies=True)
        with pytest.raises(Killed):
            world.home()
        report = world.home()
        assert State.FOLLOWING is report.state, [(it.name, it.message) for it in report.steps]
        assert not denied(world.b)


def test_a_denial_that_somebody_removes_before_the_promotion(world: BothWays) -> None:
    """Producers might write again: nothing is promoted."""

    def meanwhile() -> Answer:
        world.b.acls = {it for it in world.b.acls if it.permission != "DENY"}
        return Answer.YES

    report = world.home(meanwhile)
    assert State.REFUSED is report.state
    assert f"B does not deny WRITE any more on {world.copied.topic}" in report.steps[-6].message
    assert State.FOLLOWING is world.home().state
