"""A failover goes on wherever it was stopped, and never does what it was not allowed to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from recovery_world import COPY, ORDERS, WRITES, Blows, Killed, World

from twinlog.cluster.admin.groups import GroupState
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FailoverSettings
from twinlog.errors import (
    ClusterRefused,
    ClusterUnreachable,
    FencedError,
    FormatError,
    TerminalError,
    TransientError,
)
from twinlog.formats.ledger.accepted import Accepted
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.recovery import RunState
from twinlog.formats.ledger.topics import DeletedTopic, Incarnation
from twinlog.formats.mm2.records import Checkpoint
from twinlog.gate.accepting import accept
from twinlog.judge.check import Mode
from twinlog.kafka_types import TopicPartition
from twinlog.lane.copy.state_records import StateRecord
from twinlog.lifecycle import sync_topics
from twinlog.metadata import sync
from twinlog.monitoring import publish
from twinlog.policy.selection import NameFilter
from twinlog.recovery import abort, history, journal
from twinlog.recovery.report import FailoverReport, State, at_risk
from twinlog.recovery.steps.world import Answer
from twinlog.state.ledger import read_ledger, write_ledger
from twinlog.topics import pauses
from twinlog.topics.snapshot import FlowSnapshot


def ledger_of(world: World):
    return read_ledger(world.flow, world.clusters.target)


def steps_of(report: FailoverReport) -> dict[str, str]:
    return {it.name.value: it.state.value for it in report.steps}


def said(report: FailoverReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def require_promoted(world: World, mode: Mode) -> None:
    """Everything that a finished failover leaves behind, whatever happened on the way."""
    ledger = ledger_of(world)
    assert FlowPhase.PROMOTED is ledger.phase
    (run,) = ledger.recoveries
    assert (RunState.PROMOTED, True) == (run.state, run.cleared)
    assert run.evidence
    source, target = world.clusters.source, world.clusters.target
    there = target.committed_offsets(["billing"]).found["billing"]
    assert 3 == there[COPY].offset
    if mode is Mode.PLANNED:
        values = [
            [(it.key, it.value) for it in side.topics[name].logs[0].records]
            for side, name in ((source, "orders"), (target, "A.orders"))
        ]
        assert values[0] == values[1]
        assert {"orders"} == {it.topic for it in run.denied}
    assert any(it.operation == "WRITE" and it.name == "A.orders" for it in target.acls)
    assert not any(it.permission == "DENY" for it in target.acls)
    assert 0 == world.copy(world.flow)


TEMP = TopicPartition("temp", 0)


def two_topics(world: World) -> None:
    """The flow copies `temp`, too, of which `reader` has read nothing yet."""
    world.clusters.source.add_topic("temp")
    world.clusters.source.commit("reader", TEMP, 0)
    world.cycle()


def delete_topic(world: World) -> None:
    """A person deletes `temp` on the source."""
    del world.clusters.source.topics["temp"]


def leave_out_topic(world: World) -> None:
    """A person takes `temp` out of the flow."""
    world.flow = replace(world.flow, topics=NameFilter(("orders",)))


class TestPlanned:
    def test_promotes_in_the_order_of_the_procedure(self, world: World):
        """Each step is done, the producers' rights are on the target, and the numbers are those of the clusters."""
        world.write(4)
        report = world.fail_over()
        assert State.PROMOTED is report.state, steps_of(report)
        assert [
            "begin",
            "fence-producers",
            "drain",
            "groups",
            "audit",
            "gate",
            "approve",
            "rights",
            "promote",
            "schemas",
            "switch-clients",
            "canary",
            "report",
        ] == list(steps_of(report))
        require_promoted(world, Mode.PLANNED)
        assert (9, 9, 0) == tuple(
            getattr(report.topics[0].partitions[0], name)
            for name in ("upstream_end", "downstream_end", "at_risk_records")
        )
        assert [("billing", 3, 3, 0)] == [
            (it.group, it.upstream_offset, it.downstream_offset, it.again) for it in report.groups
        ]
        assert (0.0, 0) == (report.rpo_seconds, report.exit_code)

    def test_places_share_groups_by_their_start_offsets(self, world: World):
        """Of what comes again no more is promised than that it is at most so much; the gate has nothing against it."""
        world.write(4)
        world.clusters.source.start_share("shared", ORDERS, 2, lag=6)
        report = world.fail_over()
        assert State.PROMOTED is report.state, steps_of(report)
        starts = world.clusters.target.share_starts(["shared"]).require()["shared"]
        assert {COPY: 2} == {it: start.offset for it, start in starts.items()}
        assert [("billing", 3, 0), ("shared", 2, 9 - 2 - 6)] == [
            (it.group, it.downstream_offset, it.again) for it in report.groups
        ]

    def test_a_flow_without_heartbeats_has_no_canary(self, world: World):
        """There is no topic to write to, and the failover ends well."""
        world.flow = replace(world.flow, emit_heartbeats=False)
        report = world.fail_over()
        assert (State.PROMOTED, 0, "skipped") == (
            report.state,
            report.exit_code,
            steps_of(report)["canary"],
        )

    @pytest.mark.parametrize("dry_run", [True, False])
    @pytest.mark.parametrize("mode", list(Mode))
    def test_a_flow_that_never_ran_is_refused(self, world: World, mode: Mode, dry_run: bool):
        """A dry run too: it would plan steps of which none can be made."""
        del world.clusters.target.topics[world.flow.ledger_topic]
        with pytest.raises(TerminalError, match="A->B has never run"):
            world.fail_over(mode, dry_run=dry_run)

    def test_a_dry_run_changes_nothing(self, world: World):
        """All steps are planned, with the numbers of now; not one change is made on either cluster."""
        world.write(4)
        world.blows = Blows()
        report = world.fail_over(dry_run=True)
        assert {"planned"} == set(steps_of(report).values())
        assert (State.FOLLOWING, 4) == (report.state, report.topics[0].partitions[0].at_risk_records)
        assert 0 == world.blows.count
        assert FlowPhase.ACTIVE is ledger_of(world).phase

    def test_a_dry_run_is_refused_as_the_command_would_be(self, world: World):
        """A flow that a person has paused is not failed over while its source lives."""
        pauses.pause(world.flow, world.clusters.target, by="ann", reason="holidays")
        for dry_run in (True, False):
            with pytest.raises(TerminalError, match="holidays"):
                world.fail_over(dry_run=dry_run)

    def test_killed_at_every_change_it_goes_on_to_the_same_end(self, make_world, nobody_busy):
        """The process dies after each change that it makes; another one ends the failover."""
        for at in range(1, 100):
            world = make_world()
            world.write(4)
            world.blows = Blows(at)
            try:
                world.fail_over()
            except Killed:
                world.blows = Blows()
                if (
                    ledger_of(world).phase is not FlowPhase.PROMOTED
                    or not ledger_of(world).recoveries[-1].cleared
                ):
                    assert State.PROMOTED is world.fail_over(by="ann").state
            else:
                assert at > len(world.blows.names)
                break
            require_promoted(world, Mode.PLANNED)
        assert at > 20

    def test_waits_for_producers_that_no_acl_stops(self, world: World):
        """Without an authorizer the ends are watched; the state stays, and the topic is named."""
        world.clusters.source.acls = None
        world.between = [lambda: world.write(1)] * 9
        report = world.fail_over()
        assert (State.WAITING, 1) == (report.state, report.exit_code)
        assert "still written to on A: orders" in said(report, "fence-producers")
        assert FlowPhase.FAILING_OVER is ledger_of(world).phase
        world.between = []
        assert State.PROMOTED is world.fail_over().state

    def test_a_cycle_copies_nothing_while_it_fails_over(self, world: World):
        """The failover alone copies, also in front of a cycle that tries to."""
        world.clusters.source.acls = None
        world.between = [lambda: world.write(1)] * 9
        world.fail_over()
        world.write(3)
        assert 0 == world.copy(world.flow)
        assert FlowSnapshot(world.flow, world.clusters).discovery.stands_by
        assert () == FlowSnapshot(world.flow, world.clusters).discovery.ready_topics
        assert sync_topics.run(world.flow, world.clusters).notes

    @pytest.mark.parametrize(
        ("answer", "state"), [(Answer.NO, State.REFUSED), (Answer.NOBODY, State.WAITING)]
    )
    def test_without_a_yes_nothing_is_promoted(self, world: World, answer: Answer, state: State):
        """No, and nobody there: the rights are as before, and the next command asks again."""
        report = world.fail_over(answer=answer)
        assert (state, 1) == (report.state, report.exit_code)
        assert not any(it.operation == "WRITE" for it in world.clusters.target.acls)
        assert FlowPhase.FAILING_OVER is ledger_of(world).phase
        assert State.PROMOTED is world.fail_over().state
        assert 2 == len(world.questions)

    def test_a_group_that_runs_on_the_target_is_not_moved(self, world: World):
        """A group active on the wrong side is named, and nothing is promoted before it has stopped."""
        group = world.clusters.target.commit("billing", COPY, 0)
        group.state = GroupState.STABLE
        report = world.fail_over()
        assert (State.WAITING, "waiting") == (report.state, steps_of(report)["groups"])
        assert "group billing on A.orders-0" in said(report, "groups")
        group.state = GroupState.EMPTY
        assert State.PROMOTED is world.fail_over().state

    def test_a_group_that_still_reads_on_the_source_is_waited_for(self, world: World):
        """Its position would move after it was placed, so it has to read to the end there, or to stop."""
        world.clusters.source.commit("billing", ORDERS, 3).state = GroupState.STABLE
        report = world.fail_over()
        assert "still reading on A: billing" in said(report, "groups")
        world.clusters.source.commit("billing", ORDERS, 5)
        assert State.PROMOTED is world.fail_over().state

    def test_a_change_between_approval_and_promotion_is_seen(self, world: World):
        """A group that commits while a person thinks is not promoted with its old position."""

        def commit() -> Answer:
            world.clusters.source.commit("billing", ORDERS, 4)
            return Answer.YES

        report = world.fail_over(answer=commit)
        assert (State.REFUSED, "failed") == (report.state, steps_of(report)["promote"])
        assert "group billing moved on" in said(report, "promote")
        assert FlowPhase.FAILING_OVER is ledger_of(world).phase
        assert State.PROMOTED is world.fail_over().state
        assert 4 == world.clusters.target.committed_offsets(["billing"]).found["billing"][COPY].offset

    def test_a_refused_right_stops_it_before_the_promotion(self, world: World):
        """A broker rejects one ACL: the change is named, the flow is failing over, and a second try ends it."""
        wanted = replace(WRITES, name="A.orders")
        world.clusters.target.deny("create_acls", wanted, ClusterRefused("no such principal"))
        report = world.fail_over()
        assert (State.FAILED, "failed") == (report.state, steps_of(report)["rights"])
        assert "no such principal" in said(report, "rights")
        assert FlowPhase.FAILING_OVER is ledger_of(world).phase
        world.clusters.target._denied.clear()
        assert State.PROMOTED is world.fail_over().state

    def test_denials_that_are_refused_leave_the_watch(self, world: World):
        """A source that lets twinlog make no ACL is watched instead."""
        denied = replace(WRITES, principal="User:*", permission="DENY")
        world.clusters.source.deny("create_acls", denied, ClusterRefused("not yours"))
        report = world.fail_over()
        assert State.PROMOTED is report.state
        assert "no ACL was made: not yours" in said(report, "fence-producers")


class TestTwoOperators:
    def test_a_step_that_fails_after_another_took_over_says_that_it_was_relieved(
        self, world: World, nobody_busy
    ):
        """And not that it failed: a scheduler would try again, and take the failover back."""

        def meanwhile() -> Answer:
            assert State.PROMOTED is world.fail_over(by="ann").state
            raise ClusterUnreachable("cluster B is away", cluster="B")

        with pytest.raises(FencedError) as caught:
            world.fail_over(answer=meanwhile)
        assert "relieved" == caught.value.code

    def test_the_second_is_refused_while_the_first_is_live_and_goes_on_after(
        self, world: World, wait_a_minute
    ):
        """While one is asked for approval, another ends the failover: the first is relieved, whatever it answers."""

        def meanwhile() -> Answer:
            before = ledger_of(world)
            for mode in Mode:
                with pytest.raises(TerminalError, match=r"jo on .* is busy with") as refused:
                    world.fail_over(mode, by="ann")
                assert "live-run" == refused.value.code
            assert before == ledger_of(world)
            wait_a_minute()
            assert State.PROMOTED is world.fail_over(by="ann").state
            return Answer.YES

        with pytest.raises(FencedError) as caught:
            world.fail_over(answer=meanwhile)
        assert "relieved" == caught.value.code
        require_promoted(world, Mode.PLANNED)
        assert {"ann"} == {it.by for it in ledger_of(world).recoveries[0].journal if it.step == "promote"}

    def test_another_mode_is_told(self, world: World):
        """The question, the report and the dry run say how the run was begun, and by whom."""
        world.fail_over(answer=Answer.NO)
        world.lose_source()
        changed = "begun as planned by jo, goes on as source-dead"
        assert changed in world.fail_over(Mode.SOURCE_DEAD, by="ann", dry_run=True).next
        report = world.fail_over(Mode.SOURCE_DEAD, by="ann")
        assert State.PROMOTED is report.state
        assert changed in world.questions[-1]
        assert changed in said(report, "begin")

    def test_an_abort_meanwhile_wins(self, world: World):
        """One aborts while the other is asked: nothing is promoted."""

        def meanwhile() -> Answer:
            abort.run(world.flow, world.clusters, by="ann", reason="not today")
            return Answer.YES

        with pytest.raises(FencedError, match="aborted"):
            world.fail_over(answer=meanwhile)
        assert FlowPhase.ACTIVE is ledger_of(world).phase

    def test_a_failover_of_a_promoted_flow_says_no(self, world: World):
        """Nothing is left to do, and nothing is done."""
        world.fail_over()
        world.blows = Blows()
        with pytest.raises(TerminalError, match="failed over already") as caught:
            world.fail_over()
        assert ("promoted", 0) == (caught.value.code, world.blows.count)


class TestLostAnswers:
    def lose(self, monkeypatch: pytest.MonkeyPatch, at: int, times: int = 1) -> list[int]:
        """Let the answers to some writes of the journal, from one on, be lost: each is made; return their numbers."""
        taken, writes = journal.Ownership.taken, []

        @dataclass
        class Deaf:
            owned: Any

            def write(self, records: list[StateRecord]) -> None:
                self.owned.write(records)
                writes.append(len(writes) + 1)
                if at <= len(writes) < at + times:
                    raise TransientError("lane 0 stopped: no answer", code="fence-again")

        monkeypatch.setattr(journal, "Ownership", SimpleNamespace(taken=lambda *terms: Deaf(taken(*terms))))
        return writes

    @pytest.mark.parametrize("mode", list(Mode))
    def test_whichever_is_lost_the_move_counts_once(self, make_world, monkeypatch, mode: Mode):
        """The ledger tells that it was made: the failover goes on, and no step stands twice in its journal."""
        at, writes = 1, [1]
        while at <= len(writes):
            world = make_world()
            if mode is Mode.SOURCE_DEAD:
                world.lose_source()
            writes = self.lose(monkeypatch, at)
            assert State.PROMOTED is world.fail_over(mode).state
            steps = [it.step for it in ledger_of(world).recoveries[0].journal]
            assert len(set(steps)) == len(steps)
            at += 1
        assert at > 5

    def test_a_promotion_that_the_ledger_has_is_no_failure(self, world: World, monkeypatch):
        """If no try was answered: the report says promoted, and how to go on, and does not advise to abort."""
        world.fail_over(answer=Answer.NO)
        writes = self.lose(monkeypatch, 0)
        world.fail_over(answer=Answer.NO)
        behind_the_question = len(writes)  # its own entry is the last one; rights follow, then the promotion
        monkeypatch.setattr(journal, "TRIES", 1)
        self.lose(monkeypatch, behind_the_question + 2)
        report = world.fail_over()
        assert (State.PROMOTED, True) == (report.state, "no way back but a failback" in report.next)


class TestBadInput:
    @pytest.mark.parametrize("room_for", range(4))
    def test_a_full_disk_at_an_entry_of_the_journal(self, world: World, monkeypatch, room_for: int):
        """The target takes no record: one line, nothing half done, and with room again the run goes on."""
        taken, left = journal.Ownership.taken, iter(range(room_for))

        @dataclass
        class Full:
            owned: Any

            def write(self, records: list[StateRecord]) -> None:
                if next(left, None) is None:
                    raise TransientError("mm2-ledger.A.internal-0 took no record", code="unsettled")
                self.owned.write(records)

        with monkeypatch.context() as full:
            full.setattr(journal, "Ownership", SimpleNamespace(taken=lambda *it: Full(taken(*it))))
            try:
                told = [it.message for it in world.fail_over().steps]
            except TransientError as error:
                told = [error.message]
        assert 1 == sum("took no record" in it for it in told)
        assert FlowPhase.PROMOTED is not ledger_of(world).phase
        assert State.PROMOTED is world.fail_over().state

    def test_a_ledger_of_a_newer_release(self, world: World):
        """Which may forbid it: one line that names the record, and nothing is changed."""
        target = world.clusters.target
        at = TopicPartition(world.flow.ledger_topic, 0)
        target.append(at, key=b'["topic-pause","orders"]', value=b'{"version":9,"topic":"orders"}')
        before = world.blows.count
        with pytest.raises(FormatError, match="version 9"):
            world.fail_over()
        assert ({WRITES}, before) == (world.clusters.source.acls, world.blows.count)


class TestBeside:
    """Others change the state between a failover's reading and its writing."""

    def test_an_acceptance_and_a_pause_of_a_topic_stay(self, world: World):
        """The failover decides again, behind them, and promotes."""
        target = world.clusters.target
        target.meanwhile += [
            lambda: pauses.pause(world.flow, target, topics=["users"], by="eve", reason="load"),
            lambda: accept(world.flow, target, [yes()]),
        ]
        assert State.PROMOTED is world.fail_over().state
        ledger = ledger_of(world)
        assert ({"users"}, ("no-gaps",)) == ({*ledger.pauses}, tuple(it.check for it in ledger.accepted))

    def test_a_pause_of_the_flow_before_its_first_move_forbids_it(self, world: World):
        """What is left could not be copied: nothing is begun, and the pause stays."""
        target = world.clusters.target
        target.meanwhile.append(lambda: pauses.pause(world.flow, target, by="eve", reason="load"))
        with pytest.raises(TerminalError, match="paused by eve: load"):
            world.fail_over()
        assert (FlowPhase.PAUSED, ()) == (ledger_of(world).phase, ledger_of(world).recoveries)


def yes() -> Accepted:
    return Accepted("no-gaps", "users", "known", "eve", "login on host x", 1, None, 5)


class TestAbort:
    def test_takes_everything_back(self, world: World):
        """Producers may write again, the target's rights are those of a standby, and cycles copy."""
        world.fail_over(answer=Answer.NO)
        result = abort.run(world.flow, world.clusters, by="jo", reason="not today")
        assert ((), "aborted", 0) == (result.left, result.state, result.exit_code)
        assert {WRITES} == world.clusters.source.acls
        world.write(3)
        assert 3 == world.copy(world.flow)
        assert FlowPhase.ACTIVE is ledger_of(world).phase
        assert [RunState.ABORTED] == [it.state for it in ledger_of(world).recoveries]

    def test_a_paused_flow_stays_paused(self, world: World):
        """By the same person, for the same reason; nothing is copied, and the target is left alone."""
        pauses.pause(world.flow, world.clusters.target, by="ann", reason="brokers are moved")
        before = ledger_of(world).flow_state
        world.fail_over(Mode.SOURCE_DEAD)
        world.blows = Blows()
        result = abort.run(world.flow, world.watched, by="jo", reason="it answers")
        assert ((), "paused by ann: brokers are moved") == (result.left, result.suspended)
        assert before == ledger_of(world).flow_state
        assert ["fence"] == world.blows.names
        world.write(3)
        assert 0 == world.copy(world.flow)

    def test_rights_given_already_are_taken_back(self, world: World):
        """A failover that was stopped after it gave WRITE on the target leaves none after the abort."""
        world.clusters.source.commit("billing", ORDERS, 3)

        def commit() -> Answer:
            world.clusters.source.commit("billing", ORDERS, 4)
            return Answer.YES

        world.fail_over(answer=commit)
        assert any(it.operation == "WRITE" for it in world.clusters.target.acls)
        abort.run(world.flow, world.clusters, by="jo", reason="not today")
        assert not any(it.operation == "WRITE" for it in world.clusters.target.acls)

    def test_killed_at_every_change_the_next_one_ends_it(self, make_world):
        """No ACL of ours is left on the source, at whichever change the abort was killed."""
        for at in range(1, 30):
            world = make_world()
            world.fail_over(answer=Answer.NO)
            world.blows = Blows(at)
            try:
                abort.run(world.flow, world.watched, by="jo", reason="not today")
            except Killed:
                world.blows = Blows()
                if ledger_of(world).recoveries[0].denied or ledger_of(world).phase is not FlowPhase.ACTIVE:
                    abort.run(world.flow, world.watched, by="jo", reason="not today")
            else:
                break
            assert {WRITES} == world.clusters.source.acls
            assert FlowPhase.ACTIVE is ledger_of(world).phase
        assert at > 2

    def test_after_the_promotion_it_says_what_must_be_done(self, world: World, fenced: list):
        """There is no way back any more, and who does the last steps is not relieved."""
        world.fail_over()
        fenced.append(lambda: pytest.fail("it has taken the fence"))
        with pytest.raises(TerminalError, match="nothing is taken back") as caught:
            abort.run(world.flow, world.clusters, by="jo", reason="too late")
        assert "docs/failback.md" in caught.value.hint

    def test_without_a_failover_there_is_nothing_to_abort(self, world: World):
        """And the state stays."""
        with pytest.raises(TerminalError) as caught:
            abort.run(world.flow, world.clusters, by="jo", reason="just so")
        assert "no-failover" == caught.value.code

    def test_rights_that_forbid_it_can_be_applied_after_it(self, world: World):
        """`metadata apply` refuses while it fails over, and its hint names what helps."""
        world.fail_over(answer=Answer.NO)
        with pytest.raises(TerminalError, match="is failing-over") as caught:
            sync.run(world.flow, world.clusters)
        assert caught.value.hint.startswith("`twinlog recovery abort --flow 'A->B' --reason ...` first")
        abort.run(world.flow, world.clusters, by="jo", reason="rights are pending")
        assert sync.run(world.flow, world.clusters).complete

    def test_a_source_that_is_away_leaves_its_denials_to_the_next_abort(self, world: World):
        """The flow follows again; what could not be removed is named, with exit code 1."""
        world.fail_over(answer=Answer.NO)
        kept = dict(vars(world.clusters.source))
        world.lose_source()
        world.clusters.source.delete_acls = world.clusters.source.cluster_id
        result = abort.run(world.flow, world.clusters, by="jo", reason="not today")
        assert 1 == result.exit_code
        assert "still deny WRITE" in result.left[0]
        vars(world.clusters.source).clear()
        vars(world.clusters.source).update(kept)
        assert () == abort.run(world.flow, world.clusters, by="jo", reason="not today").left
        assert {WRITES} == world.clusters.source.acls


class TestHook:
    def hooked(self, world: World, **settings) -> None:
        world.flow = replace(
            world.flow, failover=FailoverSettings(wait_seconds=0, hook_seconds=1, hook_attempts=2, **settings)
        )

    def test_one_that_fails_leaves_the_flow_promoted_and_is_tried_again(self, world: World, tmp_path):
        """Only the hook and what follows it is done by the next command."""
        flag = tmp_path / "mended"
        self.hooked(world, hook_command=f"test -e {flag}")
        report = world.fail_over()
        assert (State.PROMOTED, 1) == (report.state, report.exit_code)
        assert "failed" == steps_of(report)["switch-clients"]
        assert "command ended with 1, 2 times" in said(report, "switch-clients")
        assert ("switch-clients", "canary", "report") == history.status(world.flow, world.clusters).left
        flag.touch()
        again = world.fail_over()
        assert (State.PROMOTED, 0) == (again.state, again.exit_code)
        assert 1 == len(world.questions)
        require_promoted(world, Mode.PLANNED)

    def test_one_that_hangs_is_killed(self, world: World):
        """It has a limit."""
        self.hooked(world, hook_command="sleep 60")
        assert "did not end within 1 s" in said(world.fail_over(), "switch-clients")


class TestSourceDead:
    def test_promotes_from_the_target_alone(self, world: World):
        """Rights are those that the last cycle planned; a group that was never synced begins at its checkpoint."""
        assert {} == world.clusters.target.committed_offsets(["billing"]).found["billing"]
        world.write(4)
        publish_lag(world)
        world.lose_source()
        report = world.fail_over(Mode.SOURCE_DEAD)
        assert State.PROMOTED is report.state, [(it.name, it.message) for it in report.steps]
        (orders,) = report.topics[0].partitions
        assert (4, None) == (orders.known, orders.at_risk_records)
        assert (9, 5) == (
            report.topics[0].partitions[0].upstream_end,
            report.topics[0].partitions[0].downstream_end,
        )
        require_promoted(world, Mode.SOURCE_DEAD)
        (run,) = ledger_of(world).recoveries
        assert (4, None) == (run.known, run.at_risk_records)

    def test_a_source_that_is_back_tells_what_it_alone_has_and_what_nobody_can_compare(self, world: World):
        """A topic that was created again is not counted as if it had nothing."""
        two_topics(world)
        verbs = vars(world.clusters.source).copy()
        world.lose_source()
        assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD).state
        for verb in vars(world.clusters.source).keys() - verbs.keys():
            delattr(world.clusters.source, verb)
        world.write(4)
        delete_topic(world)
        world.clusters.source.add_topic("temp")
        found = history.status(world.flow, world.clusters)
        left = at_risk(found.left_on_source)
        assert (4, True, 1) == (left.least, left.doubt != "", found.unseen_on_source)

    def test_killed_at_every_change_it_goes_on_to_the_same_end(self, make_world):
        """As a planned one."""
        for at in range(1, 60):
            world = make_world()
            world.lose_source()
            world.blows = Blows(at)
            try:
                world.fail_over(Mode.SOURCE_DEAD)
            except Killed:
                world.blows = Blows()
                if not ledger_of(world).recoveries or not ledger_of(world).recoveries[-1].cleared:
                    assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD).state
            else:
                break
            require_promoted(world, Mode.SOURCE_DEAD)
        assert at > 10

    @pytest.mark.parametrize("over", [delete_topic, leave_out_topic])
    def test_a_copy_that_nobody_needs_any_more_holds_no_group_back(
        self, world: World, over: Callable[[World], None]
    ):
        """Checkpoints on it are kept for 30 days; its positions are named, and all others placed."""
        two_topics(world)
        over(world)
        world.cycle()
        del world.clusters.target.topics["A.temp"]
        world.lose_source()
        dry = world.fail_over(Mode.SOURCE_DEAD, dry_run=True)
        report = world.fail_over(Mode.SOURCE_DEAD)
        assert State.PROMOTED is report.state, said(report, "groups")
        why = "1 have no place: A.temp, which nothing is copied into any more, is gone"
        assert why in said(dry, "groups")
        assert why in said(report, "groups")
        assert [("billing", 3), ("reader", None)] == [
            (it.group, it.downstream_offset) for it in report.groups
        ]

    def test_a_copy_that_is_gone_and_still_copied_into_stops_it(self, world: World):
        """Its groups have unread records that are nowhere: a person has to decide."""
        two_topics(world)
        del world.clusters.target.topics["A.temp"]
        world.lose_source()
        report = world.fail_over(Mode.SOURCE_DEAD, dry_run=True)
        assert "group reader: its copy is gone" in said(report, "groups")

    def test_a_source_that_answers_is_not_given_up(self, world: World):
        """The gate says no: its records can still be copied."""
        report = world.fail_over(Mode.SOURCE_DEAD)
        assert (State.REFUSED, 1) == (report.state, report.exit_code)
        assert "source-silent" in said(report, "gate")

    def test_a_source_that_comes_back_while_a_person_thinks_stops_it(self, world: World):
        """Nothing is promoted; a planned failover can go on with the same run."""
        kept = dict(vars(world.clusters.source))
        world.lose_source()

        def back() -> Answer:
            vars(world.clusters.source).clear()
            vars(world.clusters.source).update(kept)
            return Answer.YES

        report = world.fail_over(Mode.SOURCE_DEAD, answer=back)
        assert (State.REFUSED, "A answers again") == (report.state, said(report, "promote").partition(":")[0])
        assert State.PROMOTED is world.fail_over(Mode.PLANNED).state
        require_promoted(world, Mode.PLANNED)

    def test_a_planned_failover_whose_source_dies_can_go_on_without_it(self, world: World):
        """The run changes its mode; what was denied on the source stays known."""
        world.fail_over(answer=Answer.NO)
        world.lose_source()
        with pytest.raises(ClusterUnreachable, match="--mode source-dead"):
            world.fail_over(Mode.PLANNED)
        assert State.PROMOTED is world.fail_over(Mode.SOURCE_DEAD).state
        assert "source-dead" == ledger_of(world).recoveries[0].mode

    @pytest.mark.parametrize(
        ("topic", "state"),
        [
            ("deleted", State.PROMOTED),
            ("forgotten", State.PROMOTED),
            ("left-out", State.PROMOTED),
            ("kept", State.REFUSED),
        ],
    )
    def test_a_lost_copy_stops_it_only_while_the_flow_has_its_topic(self, world, topic, state):
        """Checkpoints outlive a topic that both sides have lost, or that a filter leaves out."""
        target, noted = world.clusters.target, Checkpoint("billing", f"A.{topic}", 0, 1, 1)
        world.flow = replace(world.flow, topics=NameFilter(("orders", "deleted", "forgotten", "kept")))
        at = TopicPartition("A.checkpoints.internal", 0)
        target.append(at, key=noted.key(), value=noted.value(), timestamp=1)
        life = Incarnation(topic, "id", 1, f"A.{topic}")
        known = {"deleted": [life, DeletedTopic(topic, "id", f"A.{topic}", 1)], "forgotten": []}
        write_ledger(world.flow, target, known.get(topic, [life]))
        world.lose_source()
        assert state is world.fail_over(Mode.SOURCE_DEAD).state

    def test_the_other_direction_stands_by(self, world: World):
        """What the lost source holds alone is looked at before anything is appended behind it."""
        world.lose_source()
        world.fail_over(Mode.SOURCE_DEAD)
        ledger = ledger_of(world)
        assert "failed over without its source" in pauses.why_reverse_holds("A->B", ledger, None)
        before = FlowState(FlowPhase.ACTIVE, 1, "jo", "before it")
        assert pauses.why_reverse_holds("A->B", ledger, before)
        after = replace(before, since_ms=ledger.flow_state.since_ms + 1)
        assert "" == pauses.why_reverse_holds("A->B", ledger, after)


class TestOtherDirection:
    def test_copies_nothing_while_its_source_is_being_promoted(self, world: World):
        """B->A stands by until A->B is promoted; then A is its standby."""
        back = replace(world.flow, source=world.flow.target, target=world.flow.source)
        clusters = Clusters(world.clusters.target, world.clusters.source)
        world.clusters.target.add_topic("written-on-B")
        assert "" == FlowSnapshot(back, clusters).discovery.stands_by
        world.fail_over(answer=Answer.NO)
        found = FlowSnapshot(back, clusters).discovery
        assert ("A->B is failing over" in found.stands_by, ()) == (True, found.ready_topics)
        assert State.PROMOTED is world.fail_over().state
        assert "" == FlowSnapshot(back, clusters).discovery.stands_by


class TestFollow:
    def test_a_promoted_flow_follows_again(self, world: World):
        """Denials and rights are taken back, and cycles copy: the way home of a failback by hand."""
        world.fail_over()
        result = abort.follow(world.flow, world.clusters, by="jo", reason="clients are back")
        assert ((), "returned") == (result.left, result.state)
        assert {WRITES} == world.clusters.source.acls
        assert not any(it.operation == "WRITE" for it in world.clusters.target.acls)
        world.write(3)
        assert 3 == world.copy(world.flow)
        assert State.PROMOTED is world.fail_over().state

    def test_one_that_is_not_promoted_says_no(self, world: World):
        """And changes nothing."""
        with pytest.raises(TerminalError) as caught:
            abort.follow(world.flow, world.clusters, by="jo", reason="just so")
        assert "not-promoted" == caught.value.code


def publish_lag(world: World) -> None:
    """A cycle that only reports."""
    publish.run(world.flow, world.clusters, "late", None, 0)
