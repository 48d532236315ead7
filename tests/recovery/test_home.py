"""The way home goes on wherever it was stopped: each record is on both sides once, and no group reads one twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from fake_log import FakeLog
from home_world import BothWays, denied, lose, new_world, promoted_world, replace_what_needs_brokers
from recovery_world import ORDERS, WRITES, Blows, Killed

from twinlog.cluster.admin.groups import GroupState
from twinlog.config.flow.settings import Configuration, FlowSettings
from twinlog.copying.loopback import with_loopback
from twinlog.copying.ranges import ResolvedRanges
from twinlog.errors import ClusterRefused, ClusterUnreachable, FencedError, TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import FAILBACK, RunState
from twinlog.judge.check import Mode
from twinlog.lane.spec import RangeSpec
from twinlog.policy.selection import NameFilter
from twinlog.recovery import abort, history
from twinlog.recovery.failback import failback
from twinlog.recovery.failback.home_steps import HOME
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import FailbackReport, State
from twinlog.recovery.steps.world import LOOKING, Answer, Request
from twinlog.recovery.ways_home import require_reverse, way_home
from twinlog.state.ledger import write_ledger
from twinlog.topics import pauses
from twinlog.topics.other_writers import other_writers

HOMEWARD = [it.name.value for it in HOME]


@pytest.fixture
def world(make_promoted: Callable[[], BothWays]) -> BothWays:
    return make_promoted()


def steps_of(report) -> dict[str, str]:
    return {it.name.value: it.state.value for it in report.steps}


def said(report: FailbackReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def told(report: FailbackReport) -> str:
    return "\n".join(f"{it.name.value}: {it.state.value}: {it.message}" for it in report.steps)


def unfinished(world: BothWays) -> bool:
    """Say whether a way home is left to be ended."""
    last = world.ledger(world.there).recoveries[-1]
    return last.mode != FAILBACK or not last.cleared


def require_home(world: BothWays, records: int = 9, unread: int = 1) -> None:
    """Everything that a finished way home leaves behind, whatever happened on the way."""
    there, back = world.ledger(world.there), world.ledger(world.back)
    assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == (there.phase, back.phase)
    first, last = there.recoveries[0], there.recoveries[-1]
    assert (RunState.RETURNED, RunState.PROMOTED, True) == (first.state, last.state, last.cleared)
    assert {RunState.RETURNED} == {it.state for it in back.recoveries if it.run == last.run}
    assert last.evidence
    assert there.last_report.at_ms >= last.promoted_ms, "lest A is lost before a cycle ends"
    assert [(), ()] == [it.denied for it in (first, last)]
    assert {WRITES} == world.a.acls
    assert not any(it.operation == "WRITE" for it in world.b.acls)
    assert list(range(records)) == world.values(world.a) == world.values(world.b)
    assert unread == len(world.unread(world.a))
    world.write(world.a, 2)
    assert (2, 0) == (world.cycle(world.there), world.cycle(world.usual))
    assert list(range(records + 2)) == world.values(world.a) == world.values(world.b)


class TestReadAtHome:
    """What came home was read on A before A was lost: the next way home knows that, by A's own position."""

    def test_is_not_skipped_by_the_next_way_home(self, world: BothWays):
        """B knows of an older position alone; A's clients had read on through what came home."""
        assert State.FOLLOWING is world.home().state
        world.a.commit("billing", ORDERS, 9)
        again = lose(world.a)
        assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD, reverse=False).state
        again()
        assert 8 == world.position(world.b)
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        assert [(9, 0, 0)] == [(it.downstream_offset, it.again, it.skipped) for it in report.groups]

    def test_is_not_skipped_before_anything_came_home(
        self, flow: FlowSettings, tmp_path: Path, monkeypatch, keeps_names: bool
    ):
        """The group read on A what no cycle copied; nobody writes on B, so no map knows of it."""
        world = new_world(flow, tmp_path, keeps_names=keeps_names)
        replace_what_needs_brokers(world, monkeypatch)
        for it in (world.there, world.usual):
            world.cycle(it)
        world.write(world.a, 2)
        world.a.commit("billing", ORDERS, 7)
        again = lose(world.a)
        assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD, reverse=False).state
        again()
        dry = world.home(dry_run=True)
        assert "says no" not in said(dry, "gate"), told(dry)
        report = world.home(tail=Tail.KEEP)
        assert State.FOLLOWING is report.state, told(report)
        assert [(7, 0, 0)] == [(it.downstream_offset, it.again, it.skipped) for it in report.groups]

    def test_what_comes_home_now_is_skipped_by_a_group_that_was_moved_there(self, world: BothWays):
        """Somebody resets the group on A behind records that B's clients have written and not read."""
        world.home(Answer.NO)
        world.a.commit("billing", ORDERS, 9)
        report = world.home()
        assert State.REFUSED is report.state
        assert "group-not-ahead: billing" in said(report, "fence-producers")


class TestNothingWrittenThere:
    def test_everybody_goes_home_and_over_again_exactly(
        self, flow: FlowSettings, tmp_path: Path, monkeypatch, keeps_names: bool
    ):
        """As in each partition that nobody wrote to: the map of the way home is whole, and has no record."""
        world = promoted_world(flow, tmp_path, monkeypatch, keeps_names=keeps_names, written=0)
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        assert [0] == [it.again for it in report.groups]
        require_home(world, records=5, unread=0)
        again = world.fail_over()
        assert State.PROMOTED is again.state, told(again)
        assert [0] == [it.again for it in again.groups]


class TestHome:
    def test_goes_in_the_order_of_the_procedure(self, world: BothWays):
        """Each step is done; the group goes on behind everything that it has read on either side."""
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        assert HOMEWARD == list(steps_of(report))
        assert [0] == [it.again for it in report.groups]
        require_home(world)
        assert (
            "A->B: promote A again? nothing is lost, 1 group is placed there, 0 records are read again"
            == world.questions[-1]
        )

    def test_killed_at_every_change_it_goes_on_to_the_same_end(self, make_promoted, changes, nobody_busy):
        """The process dies after each change that it makes; another one ends the way home."""
        for at in changes:
            world = make_promoted()
            world.blows = Blows(at)
            try:
                world.home()
            except Killed:
                world.blows = Blows()
                if unfinished(world):
                    report = world.home(by="ann")
                    assert State.FOLLOWING is report.state, [(at, it.name, it.message) for it in report.steps]
            else:
                assert at > len(world.blows.names)
                break
            require_home(world)
        assert at > 25

    def test_a_dry_run_changes_nothing(self, world: BothWays):
        """The steps with the numbers of now; not one change is made on either cluster."""
        world.write(world.a, 1)
        world.blows = Blows()
        report = world.home(dry_run=True)
        assert (0, State.PROMOTED) == (world.blows.count, report.state)
        assert {"compare": "done"} | dict.fromkeys(set(HOMEWARD) - {"compare"}, "planned") == steps_of(report)
        assert "1 denial of WRITE on A; 4 records of B are not on A now" in said(report, "bring-home")
        assert "4 records are not on A now" == said(report, "drain")
        assert said(report, "fence-producers").startswith("would copy what was written to B since, then ")
        assert "says no" not in said(report, "gate"), "the maps that are missing are made before it asks"
        assert [("billing", None, None, None)] == [
            (it.group, it.downstream_offset, it.again, it.skipped) for it in report.groups
        ]
        assert FlowPhase.PROMOTED is world.ledger(world.there).phase

    def test_a_dry_run_of_one_that_waits_says_what_goes_on(self, world: BothWays):
        """It changes nothing, and names the run."""
        world.home(Answer.NO)
        world.blows = Blows()
        report = world.home(dry_run=True)
        run = world.ledger(world.there).recoveries[-1].run
        assert (0, State.WAITING) == (world.blows.count, report.state)
        assert f"goes on with {run}" in report.next


@pytest.mark.parametrize("keeps_names", [False], indirect=True)
class TestOtherNames:
    """`orders` is `A.orders` on B: what is different from names that stay."""

    def test_goes_over_and_home_again_and_again(self, world: BothWays):
        """Each time only what clients wrote since the failover comes home, once; the group reads each record once."""
        assert State.FOLLOWING is world.home().state
        require_home(world)
        world.a.commit("billing", ORDERS, 11)
        assert State.PROMOTED is world.fail_over().state
        assert [] == world.unread(world.b)
        world.write(world.b, 3)
        world.b.commit("billing", world.copied, world.position(world.b) + 1)
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        assert [0] == [it.again for it in report.groups]
        require_home(world, 14, 2)

    def test_what_lay_between_the_copies_before_the_failover_stays_there(self, make_promoted):
        """The gate of the failover has judged it: only what was written behind the copied end comes home."""
        world = make_promoted()
        world.follow()
        world.a.acls = {WRITES}
        world.write(world.a, 1)
        world.cycle(world.there)  # behind what clients wrote: a person has written that home by hand
        assert State.PROMOTED is world.fail_over().state
        world.write(world.b, 2)
        report = world.home(dry_run=True)
        assert 2 == report.only_on_target
        assert State.FOLLOWING is world.home().state
        assert [*range(5), 9, 10, 11] == world.values(world.a)

    def test_turned_back_and_home_later_nothing_is_passed_over(self, world: BothWays):
        """The second way home of one failover goes on where the first one stood."""
        world.home(Answer.NO)
        world.turn_back()
        world.write(world.b, 2)
        assert State.REFUSED is world.home(Answer.NO).state
        world.turn_back()
        world.write(world.b, 1)
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        require_home(world, 12, 4)

    def test_what_has_expired_on_b_meanwhile_is_named(self, world: BothWays):
        """Clients stayed there for longer than the topic keeps records: the rest comes home."""
        world.b.topics["A.orders"].logs[0].delete_before(7)
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        assert "A.orders-0: 2 offsets behind the copies had expired on B" in said(report, "bring-home")
        assert [*range(5), 7, 8] == world.values(world.a)

    def test_the_usual_flow_never_copies_home(self, world: BothWays):
        """`B->A` leaves copies of A's topics out, as MM2 does, before, on and after the way home."""
        assert 0 == world.cycle(world.usual)
        assert State.REFUSED is world.home(Answer.NO).state
        assert 0 == world.cycle(world.usual)
        assert State.FOLLOWING is world.home().state
        assert 0 == world.cycle(world.usual)
        assert not [it for it in world.a.topics if it.startswith("B.A.")]
        require_home(world)

    def test_groups_of_the_copy_are_placed_by_both_maps_in_normal_life(self, world: BothWays):
        """A group that has not read what came home is not placed behind it, on neither side."""
        world.home()
        world.write(world.a, 2)
        world.cycle(world.there)
        for at, unread in ((5, 6), (6, 5), (8, 3), (9, 2), (10, 1), (11, 0)):
            world.b.commit("late", world.copied, at)
            world.cycle(replace(world.usual, sync_group_offsets=True))
            there = world.a.committed_offsets(["late"]).found["late"][ORDERS].offset
            assert unread == sum(it.offset >= there for it in world.a.topics["orders"].logs[0].records)

    def test_a_rebuild_is_refused(self, world: BothWays):
        """It would leave out what came home: the copy holds the only records of B's own producers."""
        assert State.FOLLOWING is world.home().state
        names = "orders", "A.orders", world.b.topics["A.orders"].topic_id
        (writers,) = other_writers(world.there, world.clusters(world.there), *names)
        assert "producers of B" in writers

    def test_a_lost_ledger_of_the_way_home_stops_the_topic(self, world: BothWays):
        """Nobody knows any more which records came home."""
        assert State.FOLLOWING is world.home().state
        del world.a.topics[world.back.ledger_topic]
        spec = RangeSpec("orders", world.a.topics["orders"].topic_id, "A.orders", 0, 9, 20)
        found = with_loopback(world.there, world.clusters(world.there), ResolvedRanges((spec,), ()))
        assert [("orders", "reverse-flow-gone")] == [(it.topic, it.code) for it in found.stopped]

    def test_lanes_leave_out_what_came_home(self, world: BothWays):
        """By the map, and behind it by the producer."""
        assert State.FOLLOWING is world.home().state
        topic = world.b.topics["A.orders"].topic_id
        spec = RangeSpec(
            "orders", world.a.topics["orders"].topic_id, "A.orders", 0, 0, 20, remote_topic_id=topic
        )
        found = with_loopback(world.there, world.clusters(world.there), ResolvedRanges((spec,), ()))
        assert [(True, ((5, 9),))] == [(it.both_ways, it.loopback) for it in found.ranges]

    def test_the_flow_home_leaves_out_what_a_to_b_wrote(self, world: BothWays):
        """Also the first time, and behind its own progress: a tail that is kept is copied to B meanwhile."""
        assert State.REFUSED is world.home(Answer.NO).state
        back = replace(world.back, homes={"A.orders": "orders"})
        ids = world.b.topics["A.orders"].topic_id, world.a.topics["orders"].topic_id
        spec = RangeSpec("A.orders", ids[0], "orders", 0, 0, 20, remote_topic_id=ids[1])
        found = with_loopback(back, world.clusters(back), ResolvedRanges((spec,), ()))
        assert [(True, ((0, 5),))] == [(it.both_ways, it.loopback) for it in found.ranges]

    def test_a_copy_that_is_not_the_one_they_came_from_lacks_them(self, world: BothWays):
        """Deleted by hand and made anew, it gets everything."""
        assert State.FOLLOWING is world.home().state
        spec = RangeSpec(
            "orders", world.a.topics["orders"].topic_id, "A.orders", 0, 0, 20, remote_topic_id="new"
        )
        found = with_loopback(world.there, world.clusters(world.there), ResolvedRanges((spec,), ()))
        assert (spec,) == found.ranges

    def test_partitions_that_were_added_on_b_come_home(self, world: BothWays):
        """The topic grows on A as well."""
        world.b.create_partitions({"A.orders": 2})
        assert State.FOLLOWING is world.home().state
        assert 2 == len(world.a.topics["orders"].logs)

    def test_needs_no_flow_that_is_enabled(self, world: BothWays):
        """The file has to say how `B->A` would copy, nothing more."""
        flows = {world.usual.name: replace(world.usual, enabled=False)}
        configuration = Configuration(world.folder, "sha", {}, flows, ())
        assert "B.home->A" == way_home(configuration, world.there).name
        with pytest.raises(TerminalError, match="the file has no flow B->A") as refused:
            way_home(replace(configuration, flows={}), world.there)
        assert "no-way-home" == refused.value.code

    def test_a_map_that_does_not_say_where_the_copies_end(self, world: BothWays):
        """Nothing is taken for a client's record that may be a copy."""
        world.b.topics[world.there.offset_map_topic].logs = [FakeLog() for _ in range(16)]
        with pytest.raises(TerminalError, match=r"does not say where the copies in A\.orders end") as refused:
            world.home()
        assert ("no-way-home", FlowPhase.PROMOTED) == (refused.value.code, world.ledger(world.there).phase)
        assert 5 == len(world.a.topics["orders"].logs[0].records)


class TestTail:
    """Records that A alone has: clients that nobody denied WRITE to wrote them after the failover."""

    @pytest.fixture
    def with_tail(self, world: BothWays) -> BothWays:
        """Two records on A alone."""
        kept, world.a.acls = world.a.acls, set()
        world.write(world.a, 2)
        world.a.acls = kept
        return world

    def test_waits_for_a_person_to_decide(self, with_tail: BothWays):
        """They are exported; nothing is copied either way before somebody says what becomes of them."""
        report = with_tail.home()
        assert (State.WAITING, 1) == (report.state, report.exit_code)
        assert "waiting" == steps_of(report)["bring-home"]
        assert "--tail keep" in said(report, "bring-home")
        assert 2 == sum(it.records for it in report.exported)
        assert [*range(5), 9, 10] == with_tail.values(with_tail.a)
        assert denied(with_tail.a)

    def test_kept_they_are_on_both_sides(self, with_tail: BothWays):
        """On A they lie before what came home, so a group that has not read them reads the rest again: it is said."""
        report = with_tail.home(tail=Tail.KEEP)
        assert State.FOLLOWING is report.state, told(report)
        assert [9, 10, 5, 6, 7, 8] == with_tail.unread(with_tail.a)
        assert ([3], True) == (
            [it.again for it in report.groups],
            "3 records are read again" in with_tail.questions[-1],
        )
        require_home(with_tail, 11, 6)

    def test_kept_and_read_on_b_nothing_is_read_again(self, with_tail: BothWays):
        """They are copied to B while its clients work there."""
        assert State.REFUSED is with_tail.home(Answer.NO, tail=Tail.KEEP).state
        assert list(range(11)) == with_tail.values(with_tail.b)
        with_tail.b.commit("billing", with_tail.copied, 11)
        report = with_tail.home(tail=Tail.KEEP)
        assert State.FOLLOWING is report.state, told(report)
        assert [0] == [it.again for it in report.groups]
        require_home(with_tail, 11, 0)

    def test_is_kept_by_the_next_command_too(self, with_tail: BothWays):
        """The choice belongs to the command: one that forgets it waits again, until the records are copied."""
        assert State.WAITING is with_tail.home().state
        assert State.REFUSED is with_tail.home(Answer.NO, tail=Tail.KEEP).state
        report = with_tail.home()
        assert State.FOLLOWING is report.state, told(report)
        require_home(with_tail, 11, 6)


class TestRefusals:
    """Each in one line, with nothing changed on either cluster."""

    def require_refused(self, world: BothWays, code: str, match: str) -> TerminalError:
        world.blows = Blows()
        with pytest.raises(TerminalError, match=match) as refused:
            world.home()
        assert (code, []) == (refused.value.code, world.blows.names)
        return refused.value

    def test_failback_before_failover(self, world: BothWays):
        """A flow that follows has nothing to come home from."""
        world.follow()
        self.require_refused(world, "not-promoted", "failback before failover")

    def test_a_second_time(self, world: BothWays):
        """One that is home is home."""
        world.home()
        self.require_refused(world, "not-promoted", "failback before failover")

    def test_a_flow_promoted_by_hand(self, world: BothWays):
        """No run says what was denied."""
        state = FlowState(FlowPhase.PROMOTED, 99, "jo", "by hand")
        write_ledger(world.there, world.b, [state])
        self.require_refused(world, "not-promoted", "failback before failover")

    @pytest.mark.parametrize("keeps_names", [True], indirect=True)
    def test_no_reverse_flow(self, world: BothWays):
        """The line says which flow to enable."""
        for reverse in (None, replace(world.back, enabled=False)):
            with pytest.raises(TerminalError, match="no flow B->A is enabled") as refused:
                require_reverse(world.there, reverse)
            assert "no-way-home" == refused.value.code
            assert "B->A.enabled = true" in refused.value.hint

    @pytest.mark.parametrize("keeps_names", [True], indirect=True)
    def test_a_reverse_flow_that_leaves_a_topic_out(self, world: BothWays):
        """What was written to it would stay on B."""
        world.back = replace(world.back, topics=NameFilter(("invoices",)))
        error = self.require_refused(world, "no-way-home", "B->A does not bring it home to orders")
        assert "docs/failback.md" in error.hint

    @pytest.mark.parametrize("keeps_names", [True], indirect=True)
    def test_a_reverse_flow_that_has_never_run(self, world: BothWays):
        """It has no ledger on A that could say who copies home."""
        del world.a.topics[world.back.ledger_topic]
        self.require_refused(world, "no-ledger", "B->A has never run")

    @pytest.mark.parametrize("keeps_names", [True], indirect=True)
    def test_a_reverse_flow_that_a_person_paused(self, world: BothWays):
        """A person had a reason."""
        pauses.pause(world.back, world.a, by="ann", reason="disks")
        assert "resume" in self.require_refused(world, "paused", "B->A is paused by ann: disks").hint

    def test_another_cluster_in_the_place_of_a(self, world: BothWays):
        """Its records are not those of the flow."""
        world.a._cluster_id = "stranger"
        self.require_refused(world, "source-changed", "A")

    def test_a_source_that_does_not_answer(self, world: BothWays):
        """It says to wait for it."""
        lose(world.a)
        with pytest.raises(ClusterUnreachable) as away:
            world.home()
        assert "run it again once A is back" == away.value.hint
        assert FlowPhase.PROMOTED is world.ledger(world.there).phase

    def test_a_failover_of_the_flow_on_its_way_home(self, world: BothWays):
        """Neither flow is failed over meanwhile, nor does a dry run show how; the hint says what can be done."""
        world.home(Answer.NO)
        for flow, dry_run in product((world.there, world.back), (False, True)):
            world.blows = Blows()
            with pytest.raises(TerminalError, match="A->B is on its way home") as refused:
                world.fail_over(flow=flow, dry_run=dry_run)
            assert ("failing-back", []) == (refused.value.code, world.blows.names)
            assert "twinlog failback --flow 'A->B'" in refused.value.hint

    def test_saving_without_home_meanwhile(self, world: BothWays):
        """`failback` alone says that the way home is under way."""
        world.home(Answer.NO)
        read = partial(world.read, world.there)
        with pytest.raises(TerminalError, match="A->B is on its way home"):
            failback.run(world.there, world.clusters(world.there), Request("jo"), LOOKING, read)


class TestWaits:
    """A step that says no leaves clients on B; the next command goes on."""

    def test_the_answer_is_no_and_then_yes(self, world: BothWays):
        """Nothing is promoted; cycles of both flows stand by; then it goes home."""
        report = world.home(Answer.NO)
        assert (State.REFUSED, 1, "failed") == (report.state, report.exit_code, steps_of(report)["approve"])
        assert (FlowPhase.FAILING_BACK, FlowPhase.FAILING_OVER) == phases(world)
        assert [0, 0] == [world.cycle(it) for it in (world.there, world.back)]
        assert State.FOLLOWING is world.home().state
        require_home(world)

    def test_nobody_is_there_to_answer(self, world: BothWays):
        """It waits, with exit code 1."""
        report = world.home(Answer.NOBODY)
        assert (State.WAITING, 1) == (report.state, report.exit_code)
        assert "--yes" in said(report, "approve")

    def test_producers_that_no_acl_stops(self, world: BothWays):
        """B keeps no ACLs: its ends are watched, and the topic is named."""
        world.b.acls = None
        world.between = [lambda: world.write(world.b, 1)] * 9
        report = world.home()
        assert (State.WAITING, "waiting") == (report.state, steps_of(report)["fence-producers"])
        assert f"still written to on B: {world.copied.topic}" in said(report, "fence-producers")
        world.between = []
        assert State.FOLLOWING is world.home().state

    def test_a_group_that_is_active_on_a(self, world: BothWays):
        """It is not moved under its members' feet."""
        world.a.commit("billing", ORDERS, 5).state = GroupState.STABLE
        report = world.home()
        assert (State.WAITING, "waiting") == (report.state, steps_of(report)["groups"])
        assert "stop it on A" in said(report, "groups")
        world.a.commit("billing", ORDERS, 5).state = GroupState.EMPTY
        assert State.FOLLOWING is world.home().state
        require_home(world)

    def test_a_group_that_still_reads_on_b(self, world: BothWays):
        """It is waited for, until it has read to the end."""
        world.b.commit("billing", world.copied, world.position(world.b)).state = GroupState.STABLE
        report = world.home()
        assert "still reading on B: billing" in said(report, "groups")
        world.b.commit("billing", world.copied, world.position(world.b) + 1)
        assert State.FOLLOWING is world.home().state
        require_home(world, unread=0)

    def test_a_change_between_approval_and_promotion(self, world: BothWays):
        """A group that commits while a person thinks is not left with its old position."""

        def commit() -> Answer:
            world.b.commit("billing", world.copied, world.position(world.b) + 1)
            return Answer.YES

        report = world.home(commit)
        assert (State.REFUSED, "failed") == (report.state, steps_of(report)["promote"])
        assert State.FOLLOWING is world.home().state
        require_home(world, unread=0)

    def test_a_partition_that_cannot_be_seen_before_the_promotion(self, world: BothWays):
        """Nobody goes home over it: what clients wrote there last may be on B alone."""
        topic = world.copied.topic

        def away() -> Answer:
            world.b.refuse("offsets", topic, ClusterRefused("it has no leader"))
            return Answer.YES

        report = world.home(away)
        assert State.REFUSED is report.state
        assert f"one partition of {topic} could not be looked at on B" in said(report, "promote")
        world.b.allow("offsets", topic)
        assert State.FOLLOWING is world.home().state
        require_home(world)

    def test_clients_that_write_to_a_too_early(self, world: BothWays):
        """They are on A in order, come to B once it is allowed there, and nothing is read twice or left out."""

        def early() -> Answer:
            world.write(world.a, 2)
            return Answer.YES

        report = world.home(early)
        assert State.FOLLOWING is report.state, told(report)
        assert [8, 9, 10] == world.unread(world.a)
        world.cycle(world.there)
        require_home(world, 11, 3)

    def test_clients_that_write_to_a_before_the_second_try(self, world: BothWays):
        """B denies everybody, so they are not copied there yet; that does not keep clients from going home."""
        assert State.REFUSED is world.home(Answer.NO).state
        world.write(world.a, 2)
        report = world.home(tail=Tail.KEEP)
        assert State.FOLLOWING is report.state, told(report)
        assert "A->B could not copy all of it yet" in said(report, "drain")
        assert [8, 9, 10] == world.unread(world.a)
        world.cycle(world.there)
        require_home(world, 11, 3)

    def test_denials_that_a_does_not_let_go(self, world: BothWays):
        """Nothing can be copied home: the step says why."""
        lifted = next(it for it in world.a.acls if it.permission == "DENY")
        world.a.deny("delete_acls", lifted, ClusterRefused("not yours"))
        report = world.home()
        assert (State.FAILED, "failed") == (report.state, steps_of(report)["bring-home"])
        assert f"not yours (1 refused); {world.back.told} cannot write there" in said(report, "bring-home")

    def test_denials_that_b_does_not_let_go(self, world: BothWays):
        """B->A would bring them to A: it stands by until they are gone."""
        ours = replace(WRITES, principal="User:*", permission="DENY", name=world.copied.topic)
        world.b.deny("delete_acls", ours, ClusterRefused("not yours"))
        report = world.home()
        assert (State.FOLLOWING, "failed") == (report.state, steps_of(report)["follow"])
        assert (FlowPhase.ACTIVE, FlowPhase.FAILING_OVER) == phases(world)
        with pytest.raises(TerminalError, match="A->B is on its way home"):
            world.fail_over()
        world.b._denied.clear()
        assert State.FOLLOWING is world.home().state
        require_home(world)


def phases(world: BothWays) -> tuple[FlowPhase, FlowPhase]:
    return world.ledger(world.there).phase, world.ledger(world.back).phase


class TestTwoOperators:
    def test_the_second_is_refused_while_the_first_is_live_and_goes_on_after(
        self, world: BothWays, wait_a_minute
    ):
        """While one is asked, another ends the way home: the first is relieved, whatever it answers."""

        def meanwhile() -> Answer:
            before = world.ledger(world.there), world.ledger(world.back)
            with pytest.raises(TerminalError, match=r"jo on .* is busy with") as refused:
                world.home(by="ann")
            assert "live-run" == refused.value.code
            assert before == (world.ledger(world.there), world.ledger(world.back))
            wait_a_minute()
            assert State.FOLLOWING is world.home(by="ann").state
            return Answer.YES

        with pytest.raises(FencedError) as caught:
            world.home(meanwhile)
        assert "relieved" == caught.value.code
        assert {"ann"} == {
            it.by for it in world.ledger(world.there).recoveries[-1].journal if it.step == "promote"
        }
        require_home(world)

    def test_one_that_turns_back_wins(self, world: BothWays):
        """While one is asked, another turns back: nothing is promoted."""

        def meanwhile() -> Answer:
            world.turn_back()
            return Answer.YES

        with pytest.raises(FencedError, match="aborted"):
            world.home(meanwhile)
        assert (FlowPhase.PROMOTED, FlowPhase.ACTIVE) == phases(world)

    def test_one_that_comes_between_reading_and_taking(self, make_promoted, changes, nobody_busy):
        """In front of every copy and ledger record of the first, another one ends it: the first does no more."""
        for at in changes:
            world = make_promoted()
            came = interrupt(world, at)
            try:
                world.home()
            except (FencedError, TerminalError) as error:
                assert error.code in {"relieved", "not-promoted"}, at
            if not came:
                break
            require_home(world)
        assert at > 20


def interrupt(world: BothWays, at: int) -> list[int]:
    """Let another operator go home in front of a change of the first; the result says whether it came to that."""
    came, count = [], iter(range(1, 1_000))

    class Meanwhile(Blows):
        def change(self, name: str, do: Callable[[], object]) -> object:
            if name.startswith(("fence", "copy")) and next(count) == at:
                came.append(at)
                world.blows = Blows()
                if unfinished(world):
                    assert State.FOLLOWING is world.home(by="ann").state, at
            return do()

    world.blows = Meanwhile()
    return came


class TestTurningBack:
    def test_leaves_clients_on_b(self, world: BothWays):
        """Producers may write there again, the flow is promoted as before, and B->A copies by itself."""
        world.home(Answer.NO)
        done = world.turn_back()
        assert ((), "promoted", 0) == (done.left, done.state, done.exit_code)
        require_turned_back(world)

    def test_killed_at_every_change_the_next_one_ends_it(self, make_promoted):
        """No denial is left on B, and neither flow is held, at whichever change it was killed."""
        for at in range(1, 30):
            world = make_promoted()
            world.home(Answer.NO)
            world.blows = Blows(at)
            try:
                world.turn_back()
            except Killed:
                world.blows = Blows()
                world.turn_back()
            else:
                break
            require_turned_back(world)
        assert at > 3

    def test_while_a_is_away(self, world: BothWays):
        """Clients on B may write at once; B->A is let go by the next call, once A answers."""
        world.home(Answer.NO)
        again = lose(world.a)
        done = world.turn_back()
        assert (1, FlowPhase.PROMOTED) == (done.exit_code, world.ledger(world.there).phase)
        assert f"{world.back.name} may still stand by" in done.left[0]
        assert not denied(world.b)
        again()
        assert () == world.turn_back().left
        require_turned_back(world)

    def test_what_a_could_not_let_go_is_taken_by_the_next_way_home(self, world: BothWays):
        """A new run, without a second abort."""
        world.home(Answer.NO)
        again = lose(world.a)
        world.turn_back()
        again()
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        require_home(world)

    def test_a_flow_that_copies_home_is_not_aborted_alone(self, world: BothWays):
        """It would bring B's denials to A: the line names the flow to turn back."""
        world.home(Answer.NO)
        with pytest.raises(TerminalError, match="A->B is on its way home") as refused:
            abort.run(world.back, world.clusters(world.back), by="jo", reason="enough")
        assert "recovery abort --flow 'A->B'" in refused.value.hint

    def test_without_a_way_home_there_is_none(self, world: BothWays):
        """The command then aborts a failover, or says that it is too late for one."""
        assert world.turn_back() is None


def require_turned_back(world: BothWays) -> None:
    """As after the failover; the next way home comes to the same end."""
    assert (FlowPhase.PROMOTED, FlowPhase.ACTIVE) == phases(world)
    assert [()] * 2 == [world.ledger(it).recoveries[-1].denied for it in (world.there, world.back)]
    assert not denied(world.b)
    world.write(world.b, 2)
    assert (2 if world.back is world.usual else 0) == world.cycle(world.usual)
    assert world.turn_back() is None
    assert State.FOLLOWING is world.home().state
    require_home(world, 11, 3)


class TestClustersThatDie:
    def test_a_dies_on_the_way(self, world: BothWays):
        """Clients stay on B, and it goes on once A answers."""
        back: list[Callable[[], None]] = []

        def die() -> Answer:
            back.append(lose(world.a))
            return Answer.YES

        with pytest.raises(ClusterUnreachable) as away:
            world.home(die)
        assert "run it again once A is back" == away.value.hint
        assert FlowPhase.FAILING_BACK is world.ledger(world.there).phase
        back[0]()
        assert State.FOLLOWING is world.home().state
        require_home(world)

    def test_a_dies_right_after_its_promotion(self, world: BothWays):
        """A failover without A promotes B again, and takes away what keeps producers from it."""
        world.blows = Blows(names=[])
        kill_behind(world, "promote")
        with pytest.raises(Killed):
            world.home()
        world.blows = Blows()
        assert denied(world.b)
        again = lose(world.a)
        report = world.fail_over(Mode.SOURCE_DEAD)
        assert State.PROMOTED is report.state, told(report)
        assert not denied(world.b)
        world.write(world.b, 2)
        again()
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        require_home(world, 11, 3)

    @pytest.mark.parametrize("keeps_names", [True], indirect=True)
    def test_b_dies_on_the_way_and_clients_go_back_to_it(self, world: BothWays):
        """A is promoted without it; once B is back, clients go home in the other direction."""
        world.home(Answer.NO)
        again = lose(world.b)
        report = world.fail_over(Mode.SOURCE_DEAD, flow=world.back)
        assert State.PROMOTED is report.state, told(report)
        world.write(world.a, 2)
        again()
        with pytest.raises(TerminalError, match="A->B is on its way home itself"):
            world.home(flow=world.back)
        assert () == world.follow().left
        report = world.home(flow=world.back, tail=Tail.KEEP)
        assert State.FOLLOWING is report.state, told(report)
        assert list(range(11)) == world.values(world.a) == world.values(world.b)
        assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == phases(world)
        assert not denied(world.a)
        assert not denied(world.b)


def kill_behind(world: BothWays, step: str) -> None:
    """Let the process die once a step of the way home is in the ledger."""

    class Last(Blows):
        def change(self, name: str, do: Callable[[], object]) -> object:
            result = do()
            runs = world.ledger(world.there).recoveries
            if any(it.step == step and it.state == "done" for it in runs[-1].journal):
                raise Killed(step)
            return result

    world.blows = Last()


class TestStatus:
    def test_says_where_both_flows_stand(self, world: BothWays):
        """And what can be done with each."""
        world.home(Answer.NO)
        there, back = (history.status(it, world.clusters(it)) for it in (world.there, world.back))
        assert ("failing-back", "failing-over") == (there.state, back.state)
        assert tuple(HOMEWARD) == there.left
        assert "`twinlog failback --flow 'A->B'` goes on" in there.next
        assert "it copies home for A->B" in back.next

    def test_says_what_is_left_after_the_promotion_of_a(self, world: BothWays):
        """Only the steps behind it are done by the next command, without asking anybody again."""
        kill_behind(world, "promote")
        with pytest.raises(Killed):
            world.home()
        world.blows = Blows()
        there = history.status(world.there, world.clusters(world.there))
        assert ("following", ("schemas", "follow", "switch-clients", "canary", "report")) == (
            there.state,
            there.left,
        )
        asked = len(world.questions)
        assert State.FOLLOWING is world.home().state
        assert asked == len(world.questions)
        require_home(world)


class TestOverAndBackAgain:
    def test_twice(self, world: BothWays):
        """The second failover and way home end as the first."""
        world.home()
        assert State.PROMOTED is world.fail_over().state
        world.write(world.b, 2)
        report = world.home()
        assert State.FOLLOWING is report.state, told(report)
        require_home(world, 11, 3)
