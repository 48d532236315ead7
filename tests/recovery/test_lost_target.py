"""B is lost on the way home: A is promoted by what failback/standby.py has kept there, and B joins again later."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from home_world import WRITTEN_ON_B, BothWays, denied, lose, now_ms
from recovery_world import WRITES, Blows, Killed

from twinlog.errors import ClusterUnreachable, FencedError, TerminalError
from twinlog.formats.ledger.accepted import Waiver
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.recovery import RecoveryRun, RunState
from twinlog.judge.check import Mode
from twinlog.recovery import abort, history
from twinlog.recovery.report import FailoverReport, State, at_risk
from twinlog.recovery.steps.world import Answer
from twinlog.state.ledger import write_ledger

READ = set(range(8))
"""What the group has read, on A before the failover or on B behind it."""


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
    assert left <= world.of_others()
    assert {FlowPhase.ACTIVE} == {world.ledger(it).phase for it in (world.there, world.back)}


def known(world: BothWays) -> tuple[RecoveryRun, ...]:
    """The runs that A's ledger of the way home knows."""
    if world.back.ledger_topic not in world.a.topics:
        return ()
    return world.ledger(world.back).recoveries


class TestKilled:
    def test_b_is_lost_at_every_change_of_the_way_home(self, make_promoted, changes):
        """A can be promoted as soon as its ledger knows of the way home, and only then."""
        refused, promoted = 0, []
        for at in changes:
            world = make_promoted()
            world.blows = Blows(at)
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
                if world.back is world.usual:
                    continue  # it has to be failed over by what a cycle of it has reported
                with pytest.raises(TerminalError, match="no way home of A->B has begun"):
                    world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
                continue
            home = require_promoted(world, without_b(world))
            promoted.append(home)
            again()
            require_together(world, home)
        assert (True, {0, WRITTEN_ON_B}) == (refused < 10 < len(promoted), set(promoted))

    def test_killed_at_every_change_the_next_command_promotes_a(self, make_promoted, changes):
        """It asks again, and does every step itself."""
        for at in changes:
            world = make_promoted()
            world.home(Answer.NO)
            lose(world.b)
            world.blows = Blows(at)
            try:
                world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
            except Killed:
                world.blows = Blows()
                if not world.ledger(world.back).recoveries[-1].cleared:
                    world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
            else:
                break
            assert WRITTEN_ON_B == len(world.values(world.a)) - 5
            assert (FlowPhase.PROMOTED, True) == (
                world.ledger(world.back).phase,
                world.ledger(world.back).recoveries[-1].cleared,
            ), at
            assert not denied(world.a)
        assert at > 8

    def test_killed_at_every_change_the_next_command_lets_both_follow(self, make_promoted, changes):
        """No denial is left on either side."""
        for at in changes:
            world = make_promoted()
            world.home(Answer.NO)
            again = lose(world.b)
            without_b(world)
            again()
            world.blows = Blows(at)
            try:
                world.follow()
                world.follow(world.back)
            except Killed:
                world.blows = Blows()
                for flow in (world.there, world.back):
                    with suppress(TerminalError):  # it follows already
                        world.follow(flow)
            else:
                break
            assert [FlowPhase.ACTIVE] * 2 == [world.ledger(it).phase for it in (world.there, world.back)], at
            assert [False, False] == [denied(world.a), denied(world.b)]
            runs = world.ledger(world.there).recoveries
            assert {RunState.RETURNED} == {it.state for it in runs}
            assert State.PROMOTED is world.fail_over().state
            world.write(world.b, 2)
            assert State.FOLLOWING is world.home().state
        assert at > 3


class TestLoss:
    def test_what_is_lost_is_known_and_estimated(self, make_promoted):
        """As B was when the two sides were compared, without what has come home since."""
        world = make_promoted()
        kill_at(world, "copy")
        lose(world.b)
        dry = world.fail_over(Mode.SOURCE_DEAD, flow=world.back, dry_run=True)
        assert WRITTEN_ON_B == at_risk(dry.topics).least
        report = without_b(world)
        assert (State.PROMOTED, WRITTEN_ON_B) == (report.state, at_risk(report.topics).least)
        assert "4 records are known to be lost" in world.questions[-1]
        assert WRITTEN_ON_B == world.ledger(world.back).recoveries[-1].known

    def test_nothing_is_lost_once_it_is_home(self, world: BothWays):
        """The group goes on behind all that it has read on B, and no check has to be waived."""
        world.home(Answer.NO)
        lose(world.b)
        report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
        assert (State.PROMOTED, 0) == (report.state, at_risk(report.topics).least), told(report)
        assert [8] == world.unread(world.a)
        assert "once B answers" in report.next

    def test_the_group_goes_on_where_it_was_when_its_records_came_home(self, make_promoted):
        """Also if B is lost before the step that places groups."""
        world = make_promoted()
        kill_at(world, "B.create_acls")
        lose(world.b)
        assert WRITTEN_ON_B == require_promoted(world, without_b(world))
        assert [8] == world.unread(world.a)

    def test_denials_on_a_are_removed_although_only_b_has_made_them(self, make_promoted):
        """The dry run says so; one that somebody else has made is named."""
        world = make_promoted()
        kill_at(world, "A.delete_acls")
        lose(world.b)
        assert denied(world.a)
        dry = world.fail_over(Mode.SOURCE_DEAD, flow=world.back, dry_run=True)
        assert "would remove 1 denial of WRITE on A" in told(dry)
        report = without_b(world)
        assert "1 denial of WRITE removed from A" in told(report)
        assert not denied(world.a)

    def test_a_denial_of_somebody_else_is_named(self, world: BothWays):
        """It keeps producers from A, and is not ours to remove."""
        world.home(Answer.NO)
        world.a.acls.add(replace(WRITES, principal="User:*", permission="DENY"))
        lose(world.b)
        assert "A denies WRITE to everybody on orders, not by this run" in told(without_b(world))
        assert denied(world.a)


def kill_at(world: BothWays, change: str) -> None:
    """Let the process that goes home die in front of a change."""

    class There(Blows):
        def change(self, name: str, do: Callable[[], object]) -> object:
            if name == change:
                raise Killed(name)
            return do()

    world.blows = There()
    with pytest.raises(Killed):
        world.home()
    world.blows = Blows()


class TestTwoOperators:
    def test_the_one_who_goes_home_is_relieved(self, world: BothWays):
        """While a person is asked, another finds B silent and promotes A: the first promotes nothing more."""

        def meanwhile() -> Answer:
            again = lose(world.b)
            assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD, flow=world.back).state
            again()
            return Answer.YES

        with pytest.raises(FencedError) as caught:
            world.home(meanwhile)
        assert "relieved" == caught.value.code
        assert FlowPhase.FAILING_BACK is world.ledger(world.there).phase
        require_together(world, WRITTEN_ON_B)

    def test_b_that_answers_is_not_passed_over(self, world: BothWays):
        """The gate says no, and the way home goes on once the failover is taken back."""
        world.home(Answer.NO)
        report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
        assert (State.REFUSED, 1) == (report.state, report.exit_code)
        with pytest.raises(TerminalError, match="is failing over itself"):
            world.home()
        done = abort.run(world.back, world.clusters(world.back), by="jo", reason="B is there")
        assert ((), "failing-over") == (done.left, done.state)
        assert State.FOLLOWING is world.home().state

    def test_b_that_comes_back_in_the_middle(self, world: BothWays):
        """Nothing is promoted at the last moment."""
        world.home(Answer.NO)
        again = lose(world.b)

        def meanwhile() -> Answer:
            again()
            return Answer.YES

        report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back, answer=meanwhile)
        assert "B answers again: nothing is promoted" in told(report)
        assert FlowPhase.FAILING_OVER is world.ledger(world.back).phase


class TestOnceBIsBack:
    @pytest.fixture
    def back_again(self, world: BothWays) -> BothWays:
        """A was promoted without B, and B answers again."""
        world.home(Answer.NO)
        again = lose(world.b)
        without_b(world)
        again()
        return world

    def test_nobody_goes_home_or_stays_there_by_mistake(self, back_again: BothWays):
        """Clients work on A: the line says how both flows go on, and nothing is changed."""
        back_again.blows = Blows()
        for deed in (back_again.home, back_again.turn_back):
            with pytest.raises(TerminalError, match="A was promoted without B, by jo") as refused:
                deed()
            assert "promoted" == refused.value.code
            assert "twinlog recovery follow --flow 'A->B'" in refused.value.hint
        assert [] == back_again.blows.names

    def test_status_says_what_to_do(self, back_again: BothWays):
        """For the flow that brought home."""
        found = history.status(back_again.back, back_again.clusters(back_again.back))
        assert "promoted" == found.state
        assert f"`twinlog failback --save --flow '{back_again.back.name}'` saves" in found.next

    def test_a_flow_on_its_way_home_does_not_follow(self, world: BothWays):
        """As long as A was not promoted, clients are on B."""
        world.home(Answer.NO)
        with pytest.raises(TerminalError, match="A->B is on its way home") as refused:
            world.follow()
        assert "failing-back" == refused.value.code


def test_a_person_learns_how_to_promote_a(world: BothWays) -> None:
    """The way home that finds B silent names the command."""
    world.home(Answer.NO)
    lose(world.b)
    with pytest.raises(ClusterUnreachable) as away:
        world.home()
    assert f"twinlog failover --mode source-dead --flow '{world.back.name}'" in away.value.hint
