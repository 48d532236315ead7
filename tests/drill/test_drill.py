"""A drill passes only by records that were read and right, and leaves nothing behind, however it ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from drill_stage import Stage
from fake_cluster import GoneCluster
from recovery_world import COPY, ORDERS

from twinlog import clock
from twinlog.cluster.admin.groups import GroupState
from twinlog.cluster.api import Clusters
from twinlog.drill import clones
from twinlog.drill.report import DrillReport, Found
from twinlog.errors import ClusterRefused, TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import DrillRun, DrillState
from twinlog.gate.evidence import Seal, verify
from twinlog.groups import checkpoints
from twinlog.kafka_types import TopicPartition
from twinlog.monitoring import publish
from twinlog.policy.selection import NameFilter
from twinlog.state.ledger import read_ledger, write_ledger

CHANGES = ("produce", "alter_offsets", "delete_groups", "create_topics")
LEFT = "drill-20260101T000000Z-0000aa"


def found(report: DrillReport) -> dict[str, str]:
    return {it.group: it.found.value for it in report.groups}


def steps_of(report: DrillReport) -> dict[str, str]:
    return {it.name.value: it.state.value for it in report.steps}


class Mortal:
    """A cluster whose changes end the process at the one chosen: before it is made, or after.

    A dead process changes nothing more (`stays_dead`); one that is interrupted cleans up.
    """

    def __init__(self, cluster: Any, at: int, *, after: bool, stays_dead: bool) -> None:
        self._cluster, self._at, self._after, self._stays_dead = cluster, at, after, stays_dead
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._cluster, name)
        if name not in CHANGES:
            return verb

        def do(*args: Any) -> Any:
            self.count += 1
            dead = self._stays_dead and self.count > self._at
            if dead or (self.count == self._at and not self._after):
                raise KeyboardInterrupt
            result = verb(*args)
            if self.count == self._at:
                raise KeyboardInterrupt
            return result

        return do


class TestVerdict:
    def test_the_right_record_passes(self, stage: Stage):
        """The group goes on at the fourth record, equal to the source's; the clone is gone, and all else as it was."""
        before = stage.world.clusters.target.groups()
        report = stage.drill()
        assert (DrillState.PASSED, 0) == (report.state, report.exit_code), report.steps
        (row,) = [it for it in report.groups if it.group == "billing"]
        assert (3, 3, 3, 3, True, True, 0, 0) == (
            row.upstream_offset,
            row.downstream_offset,
            row.read_offset,
            row.read_upstream,
            row.exact,
            row.compared,
            row.again,
            row.skipped,
        )
        assert {"billing": "right", "done": "nothing-to-read"} == found(report)
        assert before == stage.world.clusters.target.groups()
        assert report.rto_seconds is not None
        assert 0.5 <= report.rto_seconds < 5
        assert 0 == report.rpo_seconds
        (note,) = stage.drills
        assert (DrillState.PASSED, (), 2) == (note.state, note.clones, note.groups)

    @pytest.mark.parametrize(("waited", "state"), [(0, DrillState.PASSED), (30, DrillState.FAILED)])
    @pytest.mark.parametrize("source_gone", [False, True])
    def test_records_that_wait_for_longer_than_the_rpo_fail_it(
        self, stage: Stage, waited: int, state: DrillState, source_gone: bool
    ):
        """Groups go on right, and a disaster now would lose more than was promised; so the last cycle's picture."""
        world = stage.world
        world.flow = replace(world.flow, tiers=(replace(world.flow.tiers[0], rpo_seconds=20),))
        now_ms = clock.now_ms()
        world.clusters.source.append(ORDERS, key=b"k", value=b"v", timestamp=now_ms - waited * 1000)
        if source_gone:
            publish.run(world.flow, world.clusters, "cycle", None, now_ms)
        clusters = Clusters(GoneCluster("A"), world.clusters.target) if source_gone else world.clusters
        report = stage.drill(clusters)
        assert state is report.state, steps_of(report)
        if waited:
            assert report.message.endswith("its RPO is 20 s"), report.message

    def test_a_topic_that_is_not_looked_at_fails_it(self, stage: Stage):
        """What waits there is not known, so nobody can say that it is within the RPO."""
        stage.world.clusters.source.add_topic("orders.x")
        stage.world.clusters.source.refuse("describe_topics", "orders.x", ClusterRefused("no"))
        report = stage.drill()
        assert DrillState.FAILED is report.state
        assert report.message.endswith("for how long is unknown: no RPO is proved"), report.message

    def test_it_can_place_as_on_the_day_itself(self, stage: Stage):
        """By the last checkpoint, although the source answers: a group that has read on begins before its place."""
        stage.world.clusters.source.commit("billing", ORDERS, 4)
        places = [
            next(it.downstream_offset for it in stage.drill(source_dead=dead).groups if it.group == "billing")
            for dead in (False, True)
        ]
        assert [4, 3] == places

    def test_by_checkpoints_it_counts_what_was_read_since(self, stage: Stage):
        """A group read on after its last checkpoint: that comes again; with the source gone nobody can say it."""
        stage.world.clusters.source.commit("billing", ORDERS, 4)
        gone = Clusters(GoneCluster("A"), stage.world.clusters.target)
        for report, again, said in (
            (stage.drill(source_dead=True), 1, "positions right, 1 record read again"),
            (stage.drill(gone), None, "at least 0 records read again; of some nobody knows it"),
        ):
            told = next(it for it in report.groups if it.group == "billing")
            assert (again, False, True) == (told.again, told.exact, told.found is Found.RIGHT)
            assert said in " ".join(it.message for it in report.steps)

    def test_it_leaves_signed_evidence(self, stage: Stage):
        """That it passed, of which flow and groups, may be shown to an auditor; the ledger may lose it."""
        key = Ed25519PrivateKey.generate()
        stage.seal = Seal("mm2.properties", "sha", key)
        report = stage.drill()
        text = Path(report.evidence).read_text(encoding="utf-8")
        found = verify(text, key.public_key())
        assert (report.flow, "drill", True) == (found.flow, found.mode, found.ready)
        assert report.run == json.loads(text)["payload"]["recovery"]["run"]

    @pytest.mark.parametrize(("shift", "again", "skipped"), [(-1, 1, 0), (-3, 3, 0), (1, 0, 1)])
    def test_another_record_fails(self, stage: Stage, shift: int, again: int, skipped: int):
        """One that was read before, or one behind the next: with how many are read again, or skipped."""
        stage.shift = shift
        report = stage.drill(groups="billing")
        assert (DrillState.FAILED, 1) == (report.state, report.exit_code)
        (row,) = report.groups
        assert (Found.WRONG, again, skipped, False) == (row.found, row.again, row.skipped, row.exact)

    @pytest.mark.parametrize("change", [{"value": b"other"}, {"key": b"other"}, {"timestamp": 1}])
    def test_a_record_that_differs_from_the_source_fails(self, stage: Stage, change: dict[str, Any]):
        """In its key, value or timestamp, although the offsets fit."""
        stage.replace_record("A.orders", 3, **change)
        report = stage.drill(groups="billing")
        assert (DrillState.FAILED, "wrong", False) == (
            report.state,
            found(report)["billing"],
            report.groups[0].compared,
        )

    def test_a_record_that_is_in_no_map_fails(self, stage: Stage):
        """Somebody wrote to the copy: nothing is proved by that record."""
        stage.world.clusters.target.append(COPY, key=b"x", value=b"x", timestamp=1)
        report = stage.drill(groups="done")
        assert (DrillState.FAILED, "wrong") == (report.state, found(report)["done"])

    def test_a_record_that_vanished_from_the_copy_fails(self, stage: Stage):
        """The map and the source have it; the copy's end was met."""
        stage.lose_record("A.orders", 3)
        stage.lose_record("A.orders", 4)
        report = stage.drill(groups="billing")
        assert (DrillState.FAILED, "wrong") == (report.state, found(report)["billing"])

    def test_a_record_that_both_sides_compacted_away_is_not_missed(self, stage: Stage):
        """The map has it; the next record of a reader of the source is the one behind it."""
        stage.lose_record("orders", 3)
        stage.lose_record("A.orders", 3)
        report = stage.drill(groups="billing")
        assert (DrillState.PASSED, 4, 0) == (
            report.state,
            report.groups[0].read_upstream,
            report.groups[0].skipped,
        )

    def test_a_record_that_the_source_still_has_is_missed(self, stage: Stage):
        """Only the copy has lost it."""
        stage.lose_record("A.orders", 3)
        report = stage.drill(groups="billing")
        assert (DrillState.FAILED, 1) == (report.state, report.groups[0].skipped)

    def test_nothing_to_read_is_not_passed(self, stage: Stage):
        """A group at the end proves nothing, and the exit code says so."""
        report = stage.drill(groups="done")
        assert (DrillState.WAITING, 1, {"done": "nothing-to-read"}) == (
            report.state,
            report.exit_code,
            found(report),
        )

    def test_no_group_is_not_passed(self, stage: Stage):
        """No group of that name was looked at."""
        report = stage.drill(groups="nobody")
        assert (DrillState.WAITING, 1, ()) == (report.state, report.exit_code, report.groups)
        assert [] == stage.read

    def test_a_missing_group_is_named_before_what_else_failed(self, stage: Stage):
        """It comes before the RPO or the canary."""
        target = stage.world.clusters.target
        target.add_topic("heartbeats")
        target.refuse("produce", "heartbeats", ClusterRefused("no"))
        report = stage.drill(groups="nobody")
        no_group = "no group asked for has a position: nothing is proved; canary: "
        assert (DrillState.FAILED, no_group) == (report.state, report.message[: len(no_group)])

    def test_no_group_is_called_missing_if_none_could_be_asked_for(self, stage: Stage, monkeypatch):
        """The step that could not look is named alone."""

        def refuse(*_: object, **__: object) -> None:
            raise ClusterRefused("no")

        monkeypatch.setattr("twinlog.drill.drill.view", refuse)
        report = stage.drill(groups="nobody")
        assert (DrillState.FAILED, "choose: no") == (report.state, report.message)

    def test_a_group_ahead_of_the_copy_has_nothing_to_read(self, stage: Stage):
        """It has read on the source what is not copied yet."""
        stage.world.write(2)
        stage.world.clusters.source.commit("done", ORDERS, 7)
        assert {"done": "nothing-to-read"} == found(stage.drill(groups="done"))

    def test_a_canary_that_fails_fails_the_drill(self, stage: Stage):
        """The target takes no heartbeat, although all records were right."""
        stage.world.clusters.target.add_topic("heartbeats")
        stage.world.clusters.target.refuse("produce", "heartbeats", ClusterRefused("no"))
        report = stage.drill()
        assert (DrillState.FAILED, 3, "failed") == (
            report.state,
            report.exit_code,
            steps_of(report)["canary"],
        )
        assert set() == stage.clones

    def test_a_group_without_a_place_fails(self, stage: Stage):
        """Its offset is beyond the end of the source: a failover could not place it either."""
        stage.world.clusters.source.commit("lost", ORDERS, 99)
        report = stage.drill()
        assert (DrillState.FAILED, "not-placed", "right") == (
            report.state,
            found(report)["lost"],
            found(report)["billing"],
        )

    def test_a_group_that_stands_further_there_skips(self, stage: Stage):
        """A failover leaves it where it stands; nobody here knows whether it has read the record in between."""
        stage.world.clusters.target.commit("billing", COPY, 4)
        report = stage.drill(groups="billing")
        assert (DrillState.FAILED, "wrong", 1) == (
            report.state,
            found(report)["billing"],
            report.groups[0].skipped,
        )

    def test_the_objective_is_held(self, stage: Stage):
        """Half a second is well within one; two are not."""
        (everything,) = stage.world.flow.tiers
        stage.world.flow = replace(stage.world.flow, tiers=(replace(everything, drill_rto_seconds=1),))
        assert DrillState.PASSED is stage.drill(groups="billing").state
        stage.seconds = 2
        report = stage.drill(groups="billing")
        assert (DrillState.FAILED, 1) == (report.state, report.exit_code)
        assert "twinlog.drill.rto.seconds=1" in report.message

    def test_each_tier_has_its_own_objective(self, stage: Stage):
        """The one of other topics does not count; the key that was missed is named."""
        (everything,) = stage.world.flow.tiers
        strict = replace(everything, drill_rto_seconds=1)
        gold = replace(strict, name="gold", topics=NameFilter((ORDERS.topic,)))
        lax = replace(everything, drill_rto_seconds=10)
        stage.seconds = 2
        stage.world.flow = replace(stage.world.flow, tiers=(strict, replace(gold, drill_rto_seconds=10)))
        assert DrillState.PASSED is stage.drill(groups="billing").state
        stage.world.flow = replace(stage.world.flow, tiers=(lax, gold))
        report = stage.drill(groups="billing")
        assert DrillState.FAILED is report.state
        assert "longer than twinlog.tier.gold.drill.rto.seconds=1" in report.message

    def test_without_the_source_the_map_decides(self, stage: Stage):
        """By checkpoints and the last report; nothing is compared, a wrong record is still found."""
        stage.world.lose_source()
        report = stage.drill()
        assert (DrillState.PASSED, None) == (report.state, report.groups[0].compared), report.steps
        stage.shift = 1
        assert DrillState.FAILED is stage.drill().state

    def test_without_the_source_a_copy_that_nobody_needs_any_more_is_not_drilled(self, stage: Stage):
        """Topic and copy were deleted; the checkpoint of its group is still there."""
        world = stage.world
        world.clusters.source.add_topic("temp")
        world.clusters.source.commit("reader", TopicPartition("temp", 0), 0)
        world.cycle()
        del world.clusters.source.topics["temp"]
        world.cycle()
        del world.clusters.target.topics["A.temp"]
        world.lose_source()
        assert DrillState.PASSED is stage.drill().state

    def test_groups_that_are_not_drilled_are_named(self, stage: Stage):
        """The first by name are drilled, the others counted."""
        report = stage.drill(most=1)
        assert (("billing",), ("done",)) == (report.drilled, report.not_drilled)
        assert "1 group is not drilled: done" in report.message

    @pytest.mark.parametrize("phase", [FlowPhase.FAILING_OVER, FlowPhase.PROMOTED])
    def test_a_failed_over_flow_is_refused(self, stage: Stage, phase: FlowPhase):
        """And nothing is written."""
        write_ledger(stage.world.flow, stage.world.clusters.target, [FlowState(phase, 7, "jo", "failover")])
        with pytest.raises(TerminalError) as caught:
            stage.drill()
        assert ("phase", 1, []) == (caught.value.code, caught.value.exit_code, stage.drills)


class TestCleanUp:
    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    @pytest.mark.parametrize("stays_dead", [False, True], ids=["interrupted", "killed"])
    def test_nothing_is_left_wherever_it_ends(
        self, make_stage: Callable[[], Stage], monkeypatch, after: bool, stays_dead: bool
    ):
        """At each change; of an interrupted drill itself, or of the next one if the process died.

        An interruption of the deletion itself is for the next one, too.
        """
        for at in range(1, 30):
            stage = make_stage()
            target = Mortal(stage.world.clusters.target, at, after=after, stays_dead=stays_dead)
            clusters = Clusters(stage.world.clusters.source, target)
            try:
                stage.drill(clusters)
            except KeyboardInterrupt:
                noted = {it for run in stage.drills for it in run.clones}
                assert stage.clones <= noted
                later = clock.now_ms() + clones.SILENT_MS
                monkeypatch.setattr(clock, "now_ms", partial(int, later))
                assert DrillState.PASSED is stage.drill().state
                monkeypatch.undo()
                assert set() == stage.clones
                assert not any(it.clones or it.state is DrillState.OPEN for it in stage.drills)
            else:
                break
        assert 5 < at < 30

    def test_an_interrupted_read_cleans_up_by_itself(self, stage: Stage, monkeypatch):
        """The clones are gone before the process ends, and the ledger says that it was broken off."""

        def interrupted(*_: Any) -> Any:
            assert stage.clones
            raise KeyboardInterrupt

        monkeypatch.setattr(stage, "reader", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stage.drill()
        (note,) = stage.drills
        assert (set(), DrillState.FAILED, ()) == (stage.clones, note.state, note.clones)

    def test_an_error_at_the_read_cleans_up(self, stage: Stage, monkeypatch):
        """The consumer is refused: the drill fails with a cluster's exit code or 1, and the clones are gone."""

        def refuse(*_: Any) -> Any:
            raise ClusterRefused("no READ on the group")

        monkeypatch.setattr(stage, "reader", refuse)
        report = stage.drill()
        assert (DrillState.FAILED, {"not-placed"}) == (report.state, set(found(report).values()))
        assert set() == stage.clones

    def test_a_clone_that_cannot_be_deleted_is_named(self, stage: Stage, monkeypatch):
        """It stays in the ledger, and the next drill deletes it."""
        real = stage.reader

        def stay(group: str, places: Any) -> Any:
            met = real(group, places)
            stage.world.clusters.target.refuse("delete_groups", group, ClusterRefused("it has members"))
            return met

        monkeypatch.setattr(stage, "reader", stay)
        report = stage.drill(groups="billing")
        (left,) = report.left
        assert (DrillState.FAILED, 1, (left,)) == (report.state, report.exit_code, stage.drills[0].clones)
        assert f"{report.run}-billing" == left
        monkeypatch.undo()
        stage.world.clusters.target.allow("delete_groups", left)
        assert DrillState.PASSED is stage.drill().state
        assert set() == stage.clones

    def test_only_names_of_the_ledger_are_deleted(self, stage: Stage):
        """Whatever a group is called: one that no drill has noted belongs to somebody else."""
        target = stage.world.clusters.target
        for name in (f"{LEFT}-billing", f"{LEFT}-mine", "billing"):
            target.commit(name, COPY, 1)
        noted = (f"{LEFT}-billing", "billing")
        write_ledger(stage.world.flow, target, [DrillRun(LEFT, DrillState.OPEN, "jo", 7, 7, clones=noted)])
        stage.drill()
        assert {f"{LEFT}-mine"} == stage.clones
        assert "billing" in {it.group for it in target.groups()}
        assert DrillState.KILLED is stage.drills[0].state

    def test_a_drill_that_may_still_run_is_left_alone(self, stage: Stage):
        """Another process was heard of a moment ago."""
        target = stage.world.clusters.target
        target.commit(f"{LEFT}-billing", COPY, 1)
        now = clock.now_ms()
        running = DrillRun(LEFT, DrillState.OPEN, "jo", 7, now, clones=(f"{LEFT}-billing",))
        write_ledger(stage.world.flow, target, [running])
        report = stage.drill()
        assert (DrillState.PASSED, {f"{LEFT}-billing"}) == (report.state, stage.clones)
        assert LEFT in report.steps[0].message

    def test_a_drill_of_a_time_to_come_is_over(self, stage: Stage):
        """Its clones would stay for ever."""
        target = stage.world.clusters.target
        target.commit(f"{LEFT}-billing", COPY, 1)
        later = clock.now_ms() + 2 * clones.SILENT_MS
        ahead = DrillRun(LEFT, DrillState.OPEN, "jo", later, later, clones=(f"{LEFT}-billing",))
        write_ledger(stage.world.flow, target, [ahead])
        stage.drill()
        assert set() == stage.clones

    @pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
    def test_the_next_try_of_a_killed_drill_leaves_nothing(
        self, make_stage: Callable[[], Stage], after: bool
    ):
        """At once, without the silence that tells of a drill of others."""
        for at in range(1, 30):
            stage = make_stage()
            target = Mortal(stage.world.clusters.target, at, after=after, stays_dead=True)
            try:
                stage.drill(Clusters(stage.world.clusters.source, target), driver="drill__A__B/monday")
            except KeyboardInterrupt:
                assert DrillState.PASSED is stage.drill(driver="drill__A__B/monday").state
                assert set() == stage.clones
                assert not any(it.clones or it.state is DrillState.OPEN for it in stage.drills)
            else:
                break
        assert 5 < at < 30

    def test_the_next_try_waits_until_a_dead_consumer_is_gone(self, stage: Stage):
        """The brokers hold it for a member of its clone until its session ends."""
        target, driver = stage.world.clusters.target, "drill__A__B/monday"
        clone = f"{LEFT}-billing"
        target.commit(clone, COPY, 1)
        target.refuse("delete_groups", clone, ClusterRefused("it has members"))
        left = DrillRun(LEFT, DrillState.OPEN, "jo", 7, clock.now_ms(), clones=(clone,), driver=driver)
        write_ledger(stage.world.flow, target, [left])
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 9:
                target.allow("delete_groups", clone)

        report = stage.drill(driver=driver, sleep=sleep)
        assert (DrillState.PASSED, set(), 9) == (report.state, stage.clones, len(slept))
        assert "1 clone of earlier drills deleted" == report.steps[0].message

    def test_the_ledger_keeps_the_last_fifty(self, stage: Stage):
        """The oldest make room."""
        runs = [
            DrillRun(f"drill-20260101T0000{it:02}Z-0000aa", DrillState.PASSED, "jo", it, it)
            for it in range(60)
        ]
        write_ledger(stage.world.flow, stage.world.clusters.target, runs)
        report = stage.drill()
        assert [*(it.run for it in runs[-49:]), report.run] == [it.run for it in stage.drills]

    def test_no_flow_passes_a_clone_on(self, stage: Stage):
        """The clone of a drill of the other direction is on the source, and gets no checkpoint."""
        stage.world.clusters.source.commit(f"{LEFT}-billing", ORDERS, 1)
        result = checkpoints.run(stage.world.flow, stage.world.clusters)
        assert {"billing", "done"} == {it.group for it in result.rows}

    def test_a_group_with_members_there_is_drilled_by_its_clone(self, stage: Stage):
        """The group itself is left alone."""
        state = stage.world.clusters.target.commit("billing", COPY, 1)
        state.state = GroupState.STABLE
        report = stage.drill(groups="billing")
        assert (DrillState.PASSED, 3) == (report.state, report.groups[0].read_offset)
        there = stage.world.clusters.target.committed_offsets(["billing"]).found["billing"]
        assert 1 == there[COPY].offset


def test_each_drill_has_a_name_of_its_own(stage: Stage) -> None:
    """Two drills are two records of the ledger, in the order of their time."""
    first, second = stage.drill().run, stage.drill().run
    assert [first, second] == [
        it.run for it in read_ledger(stage.world.flow, stage.world.clusters.target).drills
    ]
