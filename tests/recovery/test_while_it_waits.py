"""While a way home waits, cycles of the flow that copies home go on: of `B->A`, or of `B.home->A` with MM2's names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from home_world import BothWays, lose, new_world, replace_what_needs_brokers
from recovery_world import Blows, Killed

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import FencedError, TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.judge.check import Mode
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import State
from twinlog.recovery.reverse import as_noted, why_nothing_home
from twinlog.recovery.steps.world import Answer
from twinlog.topics.snapshot import FlowSnapshot


@pytest.fixture
def world(make_promoted: Callable[[], BothWays]) -> BothWays:
    return make_promoted()


def cycle(world: BothWays) -> int:
    """A cycle of the flow that copies home; how many records it has brought."""
    return world.cycle(as_noted(world.back, world.a))


def test_cycles_bring_home_what_comes_until_the_next_command(world: BothWays) -> None:
    """And behind it they have nothing more to do for a way home."""
    assert State.REFUSED is world.home(Answer.NO).state
    for _ in range(2):
        world.b.acls = set()  # the way home keeps producers out; these got in
        world.write(world.b, 2)
        assert (2, 0) == (cycle(world), cycle(world))
    assert world.values(world.a) == world.values(world.b)
    seen = []

    def meanwhile() -> Answer:
        world.b.acls = set()
        world.write(world.b, 1)
        seen.extend([cycle(world), why_nothing_home(world.back, world.ledger(world.back))])
        return Answer.NO

    world.home(meanwhile)
    held, why = seen
    assert (0, True) == (held, "`twinlog failback` goes on with it" in why)
    assert ("", 1) == (why_nothing_home(world.back, world.ledger(world.back)), cycle(world))
    assert State.FOLLOWING is world.home().state
    assert "no way home of" in why_nothing_home(world.back, world.ledger(world.back))
    assert world.values(world.a) == world.values(world.b) == sorted(set(world.values(world.a)))


def test_nothing_comes_home_before_a_person_has_decided_about_the_tail(world: BothWays) -> None:
    """What A alone has is not to lie in front of what a cycle brought."""
    world.a.acls = set()
    world.write(world.a, 2)
    assert State.WAITING is world.home().state
    assert (0, FlowPhase.FAILING_OVER) == (cycle(world), world.ledger(world.back).phase)
    assert State.REFUSED is world.home(Answer.NO, tail=Tail.KEEP).state
    world.b.acls = set()
    world.write(world.b, 2)
    assert 2 == cycle(world)


def test_a_lost_source_does_not_hold_cycles_once_a_person_goes_home(
    flow: FlowSettings, tmp_path: Path, monkeypatch
) -> None:
    """Until then `B->A` waits for somebody to look at what A alone has; the way home has looked."""
    world = new_world(flow, tmp_path)
    replace_what_needs_brokers(world, monkeypatch)
    for it in (world.there, world.usual):
        world.cycle(it)
    again = lose(world.a)
    assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD).state
    again()
    world.write(world.b, 2)
    assert (
        "was failed over without its source"
        in FlowSnapshot(world.back, world.clusters(world.back)).discovery.stands_by
    )
    assert State.REFUSED is world.home(Answer.NO).state
    world.b.acls = set()
    world.write(world.b, 2)
    assert 2 == cycle(world)
    assert State.FOLLOWING is world.home().state
    assert world.values(world.a) == world.values(world.b)


def test_abort_lets_nothing_more_come_home(world: BothWays) -> None:
    """With MM2's names there is no way home any more; with unchanged names `B->A` follows by itself."""
    world.home(Answer.NO)
    world.turn_back()
    world.write(world.b, 2)
    brings = cycle(world) if world.back is world.usual else 0
    assert (FlowPhase.ACTIVE, 2 if world.back is world.usual else 0) == (
        world.ledger(world.back).phase,
        brings,
    )
    assert "no way home of" in why_nothing_home(world.back, world.ledger(world.back))


def test_b_that_is_lost_while_it_waits(world: BothWays) -> None:
    """What cycles have brought is on A, and as of the last one nothing is lost; none copies behind the promotion."""
    world.home(Answer.NO)
    world.b.acls = set()
    world.write(world.b, 3)
    assert 3 == cycle(world)
    again = lose(world.b)
    report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
    assert (State.PROMOTED, 12) == (report.state, len(world.values(world.a)))
    again()
    world.write(world.b, 1)
    assert 0 == cycle(world)


def test_killed_at_every_change_each_record_comes_home_once(
    make_promoted: Callable[[], BothWays], changes: range
) -> None:
    """A cycle runs before the second command, when it was killed, and behind it: both sides are equal in the end."""
    held = 0
    for at in changes:
        world = make_promoted()
        world.home(Answer.NO)
        world.b.acls = set()
        world.write(world.b, 2)
        assert 2 == cycle(world)
        world.write(world.b, 1)
        world.blows = Blows(at)
        try:
            world.home()
        except Killed:
            world.blows = Blows()
        else:
            break
        held += not cycle(world)
        try:
            report = world.home()
        except (TerminalError, FencedError) as error:
            assert error.code == "not-promoted", error  # all was done
        else:
            assert State.FOLLOWING is report.state
        for flow in (world.there, world.usual):
            world.cycle(flow)
        assert world.values(world.a) == world.values(world.b) == list(range(5 + 4 + 3))
    assert at > 12
    assert held
