"""Groups go back to where they stood at a time, and all else of a failover stays as it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from recovery_world import COPY, ORDERS, Blows, Killed, World

from twinlog.cluster.admin.groups import GroupState
from twinlog.errors import UsageError
from twinlog.formats.ledger.gate import Waiver
from twinlog.formats.ledger.groups import GroupLook, Stand
from twinlog.formats.ledger.records import FlowPhase
from twinlog.formats.ledger.topics import Incarnation, IncarnationReason
from twinlog.gate.suites.suites import Mode
from twinlog.groups import checkpoints
from twinlog.groups.time_machine import Stood, past
from twinlog.policy.selection import NameFilter
from twinlog.recovery import failover
from twinlog.recovery.procedure import StepName
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps import groups_at
from twinlog.state.ledger import read_ledger, write_ledger

NOW = int(time.time() * 1000)
EARLY, LATE = NOW - 3_600_000, NOW - 1_800_000
BETWEEN = EARLY + 60_000


def stand(
    upstream: int, group: str = "billing", topic: str = "orders", downstream: int | None = None
) -> Stand:
    return Stand(group, topic, 0, f"A.{topic}", "", upstream, downstream, True)


def ledger_of(world: World):
    return read_ledger(world.flow, world.clusters.target)


def steps_of(report: FailoverReport) -> dict[str, str]:
    return {it.name.value: it.state.value for it in report.steps}


def message(report: FailoverReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def there(world: World, group: str = "billing") -> int:
    return world.clusters.target.committed_offsets([group]).found[group][COPY].offset


@pytest.fixture
def make_past(make_world: Callable[[], World]) -> Callable[[], World]:
    """`make_past()` has `billing` at 3 on the source, and looks in which it stood at 1, and at 2 later."""

    def make() -> World:
        world = make_world()
        looks = [GroupLook.of(EARLY, [stand(1)]), GroupLook.of(LATE, [stand(2)])]
        write_ledger(world.flow, world.clusters.target, looks)
        return world

    return make


@pytest.fixture
def world(make_past: Callable[[], World]) -> World:
    return make_past()


class TestPast:
    def look(self, world: World, at_ms: int):
        return past(world.flow, world.clusters.target, ledger_of(world), at_ms)

    def test_a_cycle_has_noted_where_groups_stand(self, make_world):
        """And the next one, in which nothing has changed, writes nothing of it."""
        world = make_world()
        (look,) = ledger_of(world).group_looks
        assert [("billing", 3, 3)] == [(it.group, it.upstream, it.downstream) for it in look.stands]
        checkpoints.run(world.flow, world.clusters)
        assert (look,) == ledger_of(world).group_looks

    def test_the_look_before_tells_and_the_one_behind_says_how_much(self, world):
        """Between two looks that differ the group was moving; at a look it was there."""
        (row,) = self.look(world, BETWEEN).rows
        assert (1, 1, True, Stood.MOVING, EARLY, LATE) == (
            row.upstream_offset,
            row.downstream_offset,
            row.exact,
            row.stood,
            row.as_of_ms,
            row.until_ms,
        )
        (row,) = self.look(world, EARLY).rows
        assert (1, Stood.UNMOVED) == (row.upstream_offset, row.stood)
        write_ledger(world.flow, world.clusters.target, [GroupLook.of(BETWEEN, [stand(1)])])
        (row,) = self.look(world, BETWEEN - 1).rows
        assert (1, Stood.UNMOVED, BETWEEN) == (row.upstream_offset, row.stood, row.until_ms)

    def test_a_group_that_was_not_told_has_its_look_before(self, world):
        """One that no look tells of is named, and has no row."""
        write_ledger(world.flow, world.clusters.target, [GroupLook.of(LATE, [], ["billing", "other"])])
        found = self.look(world, LATE + 1)
        assert [(1, EARLY)] == [(it.upstream_offset, it.as_of_ms) for it in found.rows]
        assert ("other",) == found.untold

    def test_what_is_not_known_has_no_offset(self, world):
        """A topic without a copy, one that was recreated since, and a place that nothing translates."""
        ledger = ledger_of(world)
        looks = (
            GroupLook.of(EARLY, [stand(1), stand(1, topic="gone"), stand(1, topic="none", downstream=1)]),
        )
        life = replace(ledger.incarnations["orders"], since_ms=LATE, reason=IncarnationReason.NEW_INCARNATION)
        ledger = replace(ledger, group_looks=looks, incarnations={"orders": life})
        found = past(world.flow, world.clusters.target, ledger, BETWEEN)
        assert {
            "gone": (None, "A.gone-0 does not answer, or is gone"),
            "none": (None, "A.none-0 does not answer, or is gone"),
            "orders": (None, "orders was recreated since"),
        } == {it.topic: (it.downstream_offset, it.text) for it in found.rows}

    def test_without_a_map_it_is_as_translated_then(self, world):
        """Only as long as the log there is the one of then, and still has that place."""
        ledger = ledger_of(world)
        target = world.clusters.target
        remote_id = target.describe_topics(["A.orders"]).found["A.orders"].topic_id

        def placed(downstream: int | None, topic_id: str = remote_id):
            made = stand(1, downstream=downstream)._replace(remote_id=topic_id)
            changed = replace(ledger, group_looks=(GroupLook.of(EARLY, [made]),), incarnations={})
            (row,) = past(world.flow, target, changed, BETWEEN).rows
            return row.downstream_offset, row.exact

        assert (2, True) == placed(2)
        assert (None, False) == placed(None)
        assert (None, False) == placed(99)
        assert (None, False) == placed(2, "another")

    @pytest.mark.parametrize(
        ("at_ms", "why"),
        [(EARLY - 1, "is before the history"), (NOW + 10**7, "has not come yet")],
        ids=["early", "late"],  # the times are those of now: xdist's processes have to agree on a name
    )
    def test_a_time_that_nobody_knows_is_refused(self, world, at_ms, why):
        """Before the first look, and to come."""
        with pytest.raises(UsageError, match=why):
            self.look(world, at_ms)

    def test_a_ledger_of_an_older_release_has_no_history(self, world):
        """It is said how one begins."""
        old = replace(ledger_of(world), group_looks=())
        with pytest.raises(UsageError, match="does not tell where groups stood"):
            past(world.flow, world.clusters.target, old, EARLY)


def fail_over(world: World, mode: Mode, **changes) -> FailoverReport:
    return world.fail_over(mode, groups_at_ms=BETWEEN, **changes)


class TestFailover:
    def test_planned_puts_them_back_last(self, world):
        """When all of now is proved; the report has what is read again."""
        world.write(2)
        report = fail_over(world, Mode.PLANNED)
        assert State.PROMOTED is report.state, report.steps
        names = list(steps_of(report))
        assert names.index("promote") == names.index("groups-at") + 1
        assert 1 == there(world)
        assert [("billing", 1, 1, 2)] == [
            (it.group, it.upstream_offset, it.downstream_offset, it.again) for it in report.groups
        ]
        assert "1 groups, 1 positions as of" in message(report, "groups-at")
        assert "2 records are read again; 1 of the positions were moving" in message(report, "groups-at")
        assert "groups go back to" in world.questions[0]
        assert BETWEEN == ledger_of(world).recoveries[0].groups_at_ms

    def test_without_the_source(self, world):
        """From the target alone."""
        world.lose_source()
        report = fail_over(world, Mode.SOURCE_DEAD)
        assert State.PROMOTED is report.state, report.steps
        assert (1, [(1, 1, 2)]) == (
            there(world),
            [(it.upstream_offset, it.downstream_offset, it.again) for it in report.groups],
        )

    @pytest.mark.parametrize("known", [True, False], ids=["copied", "forgotten"])
    def test_a_lost_copy_counts_only_while_the_flow_has_its_topic(self, make_world, known):
        """A look outlives a topic that both sides have lost, and was forgotten."""
        world = make_world()
        world.flow = replace(world.flow, topics=NameFilter(("orders", "gone")))
        lives = [Incarnation("gone", "id", EARLY, "A.gone")] if known else []
        look = GroupLook.of(EARLY, [stand(1), stand(1, "shop", "gone")])
        write_ledger(world.flow, world.clusters.target, [look, *lives])
        told = message(fail_over(world, Mode.PLANNED, dry_run=True), "groups-at")
        assert known == ("cannot be placed: shop: A.gone-0 does not answer, or is gone" in told)
        if not known:
            assert State.PROMOTED is fail_over(world, Mode.PLANNED).state
            assert 1 == there(world)

    def test_a_dry_run_shows_it_and_changes_nothing(self, world):
        """As a step, with the numbers; without the option the step is not there."""
        world.blows = Blows()
        report = fail_over(world, Mode.PLANNED, dry_run=True)
        assert "2 records are read again" in message(report, "groups-at")
        assert [(1, 1, 2)] == [(it.upstream_offset, it.downstream_offset, it.again) for it in report.groups]
        assert "--groups-at" in report.next
        assert 0 == world.blows.count
        assert "groups-at" not in steps_of(world.fail_over(dry_run=True))

    @pytest.mark.parametrize("mode", Mode)
    def test_killed_at_every_change_it_goes_on_to_the_same_end(self, make_past, mode):
        """The next command needs no option: the run knows the time; every group ends where it stood then."""
        for at in range(1, 100):
            world = make_past()
            if mode is Mode.SOURCE_DEAD:
                world.lose_source()
            world.blows = Blows(at)
            try:
                fail_over(world, mode)
            except Killed:
                world.blows = Blows()
                ledger = ledger_of(world)
                begun = bool(ledger.recoveries)
                if not begun or not ledger.recoveries[-1].cleared:
                    again = world.fail_over(mode, by="ann", groups_at_ms=None if begun else BETWEEN)
                    assert State.PROMOTED is again.state, again.steps
            else:
                assert at > len(world.blows.names)
                break
            assert (1, FlowPhase.PROMOTED) == (there(world), ledger_of(world).phase)

    def test_a_group_that_works_there_is_not_touched(self, world):
        """The failover waits, and names it; a waiver leaves it where it is."""
        target = world.clusters.target
        checkpoints.run(replace(world.flow, sync_group_offsets=True), world.clusters)
        listed = target.groups

        def active():
            return [replace(it, state=GroupState.STABLE) if it.group == "billing" else it for it in listed()]

        target.groups = active
        report = fail_over(world, Mode.PLANNED)
        assert (State.WAITING, 3) == (report.state, there(world))
        assert "it has members on B" in message(report, "groups-at")
        waiver = Waiver("group-covered", "billing", "it may stay", "jo", NOW + 10**7, NOW)
        write_ledger(world.flow, target, [waiver])
        report = world.fail_over()
        assert (State.PROMOTED, 3) == (report.state, there(world))

    def test_a_group_without_a_place_then_stays_and_is_named(self, world):
        """It goes on where it stands now."""
        world.clusters.source.commit("young", ORDERS, 4)
        checkpoints.run(world.flow, world.clusters)
        report = fail_over(world, Mode.PLANNED)
        assert (State.PROMOTED, 1, 4) == (report.state, there(world), there(world, "young"))
        assert "without a place then: young" in message(report, "groups-at")

    def test_a_group_that_moves_after_it_was_put_back_stops_the_promotion(self, world, monkeypatch):
        """Somebody has placed it elsewhere: what was shown does not hold."""
        put_back = groups_at.put_back

        def and_moved(scene):
            outcome = put_back(scene)
            world.clusters.target.commit("billing", COPY, 2)
            return outcome

        key = Mode.PLANNED, StepName.GROUPS_AT
        monkeypatch.setattr(failover, "_DEEDS", {**failover._DEEDS, key: and_moved})
        report = fail_over(world, Mode.PLANNED)
        assert "failed" == steps_of(report)["promote"]
        assert "billing moved on orders-0 since" in message(report, "promote")

    def test_a_bad_time_begins_nothing(self, world):
        """Nor is a promoted target's group moved by a later command."""
        with pytest.raises(UsageError, match="before the history"):
            world.fail_over(groups_at_ms=EARLY - 1)
        assert FlowPhase.ACTIVE is ledger_of(world).phase
        assert State.PROMOTED is world.fail_over().state
        with pytest.raises(UsageError, match="is promoted"):
            world.fail_over(groups_at_ms=BETWEEN)
        assert 3 == there(world)
