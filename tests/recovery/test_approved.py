"""An approval that was given beforehand holds for what the person was shown, and for nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from recovery_world import COPY, ORDERS, World

from twinlog import clock
from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError
from twinlog.fact import Total
from twinlog.formats.ledger.accepted import Accepted
from twinlog.formats.ledger.records import FlowPhase
from twinlog.gate.accepting import Person
from twinlog.gate.evidence import Seal
from twinlog.judge.check import Mode
from twinlog.monitoring import publish
from twinlog.procedure import Outcome, StepName, done
from twinlog.recovery import abort, approved, failover
from twinlog.recovery.approved import Approval, last_ended
from twinlog.recovery.procedures import names_of
from twinlog.recovery.report import FailoverReport, State, at_risk
from twinlog.recovery.steps import ending
from twinlog.recovery.steps.world import Answer, Tools
from twinlog.recovery.steps.world import World as Worked
from twinlog.state.ledger import read_ledger, write_ledger


def fail_over(
    world: World,
    mode: Mode = Mode.PLANNED,
    at_risk: int = 0,
    ended: str = "",
    by: str = "ann",
    driver: str = "failover__A__B/monday",
    cost: str = "nothing is lost",
    only: Sequence[str] = (),
    rejected: bool = False,
) -> FailoverReport:
    tools = Tools(SimpleNamespace, lambda _: Answer.NOBODY, lambda _: None, Seal("mm2.properties", "sha"))
    approval = Approval(by, ended, driver, cost, at_risk, rejected=rejected)
    return approved.run(world.flow, world.clusters, mode, approval, tools, map(StepName, only))


def instead(patch: pytest.MonkeyPatch, name: StepName, do: Callable[[Worked], Outcome]) -> None:
    """Let a step of a planned failover do something else."""
    steps = [it.on(do) if it.name is name else it for it in failover.STEPS[Mode.PLANNED]]
    patch.setitem(failover.STEPS, Mode.PLANNED, tuple(steps))


def phase(world: World) -> FlowPhase:
    return read_ledger(world.flow, world.clusters.target).phase


def test_the_person_who_approved_is_in_the_journal(world: World) -> None:
    """Nobody else is asked, and every step is theirs."""
    report = fail_over(world)
    assert (State.PROMOTED, "ann") == (report.state, report.by)
    (run,) = read_ledger(world.flow, world.clusters.target).recoveries
    assert {"ann"} == {it.by for it in run.journal}


def test_an_abort_ends_the_approval(world: World) -> None:
    """A retry after a person's abort would begin the failover again, so it does not."""
    world.clusters.source.acls = None
    world.fail_over(answer=Answer.NO)
    abort.run(world.flow, world.clusters, by="jo", reason="not today")
    with pytest.raises(TerminalError, match="taken back after ann had approved") as caught:
        fail_over(world)
    assert ("approval-expired", FlowPhase.ACTIVE) == (caught.value.code, phase(world))
    seen = last_ended(read_ledger(world.flow, world.clusters.target))
    assert State.PROMOTED is fail_over(world, ended=seen).state


def test_a_try_tells_how_an_earlier_one_has_ended_it(world: World) -> None:
    """Its process died before it could tell: nothing is done again, and what is told is what the ledger knows."""
    first = fail_over(world)
    before = read_ledger(world.flow, world.clusters.target)
    again = fail_over(world)
    assert before == read_ledger(world.flow, world.clusters.target)
    names = ("flow", "run", "mode", "state", "rto_seconds", "rpo_seconds", "evidence", "by", "next")
    assert {name: first.document[name] for name in names} == {name: again.document[name] for name in names}
    steps = [[(it.name, it.state, it.message) for it in report.steps] for report in (first, again)]
    assert steps[0] == steps[1]
    assert ((), (), 0) == (again.topics, again.groups, again.exit_code)


def test_a_failover_of_others_is_refused(world: World) -> None:
    """Of another Dag run, or by a person with the command."""
    assert State.PROMOTED is fail_over(world).state
    with pytest.raises(TerminalError) as caught:
        fail_over(world, driver="failover__A__B/tuesday")
    assert "promoted" == caught.value.code


def test_the_command_ends_what_the_dag_began(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the next try of the Dag has nothing to tell of: it was not its own."""

    def fail(_scene):
        raise ClusterRefused("no")

    with monkeypatch.context() as patched:
        instead(patched, StepName.CANARY, fail)
        assert (State.PROMOTED, 3) == ((found := fail_over(world)).state, found.exit_code)
    assert State.PROMOTED is world.fail_over(by="jo").state
    with pytest.raises(TerminalError) as caught:
        fail_over(world)
    assert "promoted" == caught.value.code


def test_a_larger_loss_is_not_approved(world: World) -> None:
    """What the source took with it is more than the person was shown."""
    world.write(4)
    publish.run(world.flow, world.clusters, "cycle", None, 1)
    world.lose_source()
    report = fail_over(world, Mode.SOURCE_DEAD, at_risk=3)
    (step,) = [it for it in report.steps if it.name.value == "approve"]
    assert ("failed", True) == (
        step.state.value,
        "4 records are known to be lost, ann approved 3" in step.message,
    )
    assert FlowPhase.FAILING_OVER is phase(world)
    assert State.PROMOTED is fail_over(world, Mode.SOURCE_DEAD, at_risk=4).state


def test_who_was_relieved_does_not_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch, nobody_busy: None
) -> None:
    """A retry would take the failover from the person who goes on with it."""

    gate = ending.ask_gate
    asked: list[str] = []

    def meanwhile(scene):
        asked.append(scene.journal.actor.by)
        if len(asked) > 1:
            return gate(scene)
        assert State.PROMOTED is world.fail_over(by="jo").state
        return done("ready")

    instead(monkeypatch, StepName.GATE, meanwhile)
    with pytest.raises(TerminalError) as caught:
        fail_over(world)
    assert ("relieved", ["ann", "jo"]) == (caught.value.code, asked)


@pytest.mark.parametrize(
    ("error", "transient"), [(ClusterUnreachable("away", cluster="B"), True), (ClusterRefused("no"), False)]
)
def test_the_report_says_what_a_retry_may_mend(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception, transient: bool
) -> None:
    """A cluster that did not answer may answer later; one that refused needs a person."""

    def fail(_scene):
        raise error

    instead(monkeypatch, StepName.GATE, fail)
    report = fail_over(world)
    assert (State.FAILED, transient) == (report.state, report.transient)
    assert "transient" not in report.document


def in_tasks(world: World, *tasks: str, mode: Mode = Mode.PLANNED, by: str = "jo") -> FailoverReport:
    """Walk steps each in a process of its own, as tasks of one Dag run that nobody has approved yet."""
    for steps in tasks:
        report = fail_over(world, mode, by=by, cost="", only=steps.split())
    return report


UP_TO_THE_GATE = ("begin", "fence-producers", "drain", "groups", "audit")
PROMOTE = [it.value for it in names_of(Mode.PLANNED)][:9]
PROMOTE_WITHOUT = [it.value for it in names_of(Mode.SOURCE_DEAD)][:7]


def test_tasks_walk_a_failover_step_by_step(world: World) -> None:
    """A person is asked when everything is known; nothing is promoted without the yes to that question."""
    asked = in_tasks(world, *UP_TO_THE_GATE, "gate approve")
    assert "nothing is lost" == asked.cost
    assert (State.WAITING, Total(), 1) == (asked.state, at_risk(asked.topics), len(asked.groups))
    assert [*UP_TO_THE_GATE, "gate", "approve"] == [
        it.step for it in read_ledger(world.flow, world.clusters.target).recoveries[0].journal
    ]
    assert State.WAITING is in_tasks(world, " ".join(PROMOTE)).state  # nobody has said yes
    promoted = fail_over(world, cost=asked.cost, only=PROMOTE)
    assert State.PROMOTED is promoted.state
    assert State.PROMOTED is in_tasks(world, "drain").state  # nothing is left of it
    for steps in (["schemas", "switch-clients"], ["canary"], ["report"]):
        ended = fail_over(world, cost=asked.cost, only=steps)
    (run,) = read_ledger(world.flow, world.clusters.target).recoveries
    assert (True, ended.run, 0) == (run.cleared, run.run, ended.exit_code)


def test_what_was_not_in_the_question_is_not_approved(world: World) -> None:
    """What somebody accepted after the yes is a new answer, of somebody else."""
    asked = in_tasks(world, *UP_TO_THE_GATE, "gate approve")
    now = int(time.time() * 1000)
    yes = Accepted("audit-equal", "", "known", "me", "a login", now, now + 60_000, 3)
    write_ledger(world.flow, world.clusters.target, [yes])
    report = fail_over(world, cost=asked.cost, only=PROMOTE)
    (step,) = [it for it in report.steps if it.state.value == "failed"]
    assert ("approve", True) == (
        step.name,
        "nothing is lost besides this: audit-equal up to 3, accepted by me" in step.message,
    )
    assert FlowPhase.FAILING_OVER is phase(world)


def test_what_is_missing_stands_in_the_question(world: World) -> None:
    """Another process has drained it, and a producer that nobody stopped has written since."""
    in_tasks(world, *UP_TO_THE_GATE)
    world.clusters.source.append(ORDERS, key=b"k", value=b"late", timestamp=1)
    asked = in_tasks(world, "approve")
    assert "1 records are not on B now" == asked.cost


class TestTheAnswerInTheLedger:
    """A task notes what a person has said, and by whose name; the tasks behind it ask the ledger, nobody else."""

    def asked(self, world: World, mode: Mode = Mode.PLANNED) -> FailoverReport:
        steps = (
            (*UP_TO_THE_GATE, "gate approve") if mode is Mode.PLANNED else ("begin", "loss", "gate approve")
        )
        return in_tasks(world, *steps, mode=mode, by="admin")

    def test_promotes_by_the_name_of_who_gave_it(self, world: World):
        """And none is promoted without it, or by what was said to another run of the Dag."""
        cost = self.asked(world).cost
        with pytest.raises(TerminalError, match="nobody has approved") as caught:
            fail_over(world, by="", cost="", only=PROMOTE)
        assert "not-approved" == caught.value.code
        assert State.WAITING is fail_over(world, cost=cost, only=["approve"]).state
        with pytest.raises(TerminalError, match="nobody has approved"):
            fail_over(world, by="", cost="", only=PROMOTE, driver="failover__A__B/tuesday")
        report = fail_over(world, by="", cost="", only=PROMOTE)
        assert (State.PROMOTED, "ann") == (report.state, report.by)
        (run,) = read_ledger(world.flow, world.clusters.target).recoveries
        assert ("ann", True, cost) == (run.answered.by, run.answered.yes, run.answered.cost)
        assert "by Airflow, run failover__A__B/monday" == run.answered.known_by

    def test_counts_for_nothing_once_the_question_is_another(self, world: World):
        """The record that came since is asked about anew: also a second try of the promotion is refused."""
        cost = self.asked(world).cost
        fail_over(world, cost=cost, only=["approve"])
        now = clock.now_ms()
        yes = Accepted("audit-equal", "", "known", "me", "a login", now, now + 60_000, 3)
        write_ledger(world.flow, world.clusters.target, [yes])
        report = fail_over(world, by="", cost="", only=PROMOTE)
        assert "ann has approved `nothing is lost`" in next(
            it.message for it in report.steps if it.state.value == "failed"
        )
        with pytest.raises(TerminalError, match="nobody has approved what is known now"):
            fail_over(world, by="", cost="", only=PROMOTE)

    def test_a_no_is_no_yes(self, world: World):
        """Whatever an XCom says."""
        cost = self.asked(world).cost
        assert State.REFUSED is fail_over(world, cost=cost, only=["approve"], rejected=True).state
        (run,) = read_ledger(world.flow, world.clusters.target).recoveries
        assert ("ann", False) == (run.answered.by, run.answered.yes)
        with pytest.raises(TerminalError, match="nobody has approved"):
            fail_over(world, by="", cost="", only=PROMOTE)

    def test_without_the_source_it_covers_the_loss_that_was_shown(self, world: World):
        """Its number is in the ledger, too."""
        world.write(4)
        publish.run(world.flow, world.clusters, "cycle", None, 1)
        world.lose_source()
        asked = self.asked(world, Mode.SOURCE_DEAD)
        fail_over(world, Mode.SOURCE_DEAD, 4, cost=asked.cost, only=["approve"])
        (run,) = read_ledger(world.flow, world.clusters.target).recoveries
        assert 4 == run.answered.known
        report = fail_over(world, Mode.SOURCE_DEAD, by="", cost="", only=PROMOTE_WITHOUT)
        assert (State.PROMOTED, "ann") == (report.state, report.by)

    def test_two_have_to_give_it_where_two_are_required(self, world: World):
        """One who says it twice is one, also for the task that promotes."""
        two = replace(world.flow.failover, approvals_required=2)
        world.flow = replace(world.flow, failover=two)
        cost = self.asked(world).cost
        for _ in range(2):
            report = fail_over(world, cost=cost, only=["approve"])
            told = next(it.message for it in report.steps if it.state.value == "waiting")
            assert "twinlog.approvals.required asks for 1 more, by others" in told
            assert State.WAITING is fail_over(world, by="", cost="", only=PROMOTE).state
        in_tasks(world, "approve", by="admin")  # nobody answers: ann's yes stays
        fail_over(world, by="jo", cost=cost, only=["approve"])
        report = fail_over(world, by="", cost="", only=PROMOTE)
        assert (State.PROMOTED, "jo") == (report.state, report.by)
        (run,) = read_ledger(world.flow, world.clusters.target).recoveries
        assert ("jo", "ann") == run.answered.yes_of

    def test_a_second_yes_is_to_the_same_cost(self, world: World):
        """What the first one said to another cost counts for nothing."""
        two = replace(world.flow.failover, approvals_required=2)
        world.flow = replace(world.flow, failover=two)
        cost = self.asked(world).cost
        fail_over(world, cost=cost, only=["approve"])
        now = clock.now_ms()
        yes = Accepted("audit-equal", "", "known", "me", "a login", now, now + 60_000, 3)
        write_ledger(world.flow, world.clusters.target, [yes])
        dearer = in_tasks(world, "gate approve", by="admin").cost
        assert State.WAITING is fail_over(world, by="jo", cost=dearer, only=["approve"]).state
        (run,) = read_ledger(world.flow, world.clusters.target).recoveries
        assert ("jo",) == run.answered.yes_of

    def test_an_approver_has_to_give_it(self, world: World):
        """Others are told who may, and nothing is noted."""
        cost = self.asked(world).cost
        world.flow = replace(world.flow, failover=replace(world.flow.failover, approvers=("eve",)))
        report = fail_over(world, cost=cost, only=["approve"])
        assert "ann may not say yes" in next(it.message for it in report.steps if it.state.value == "failed")
        (run,) = read_ledger(world.flow, world.clusters.target).recoveries
        assert run.answered is None


class TestWhatADryRunShowed:
    """It is accepted by its name, each check with its number, and the loss with it; what is larger since refuses."""

    ME = Person("ann", "login on b, not authenticated")

    def dry_run(self, world: World) -> FailoverReport:
        world.lose_source()
        found = world.fail_over(Mode.SOURCE_DEAD, dry_run=True)
        return approved.kept(world.flow, world.clusters.target, found)

    def fail_over(self, world: World, seen: str, mode: Mode = Mode.SOURCE_DEAD) -> FailoverReport:
        approval = approved.accepting(world.flow, world.clusters.target, mode, seen, self.ME, "A is gone")
        tools = Tools(SimpleNamespace, lambda _: Answer.NOBODY, lambda _: None, Seal("mm2.properties", "sha"))
        return approved.run(world.flow, world.clusters, mode, approval, tools)

    @pytest.fixture
    def ahead(self, world: World) -> World:
        """The group stands on B where it skips one record."""
        world.clusters.target.commit("billing", COPY, 4)
        return world

    def test_it_is_accepted_and_named(self, ahead: World) -> None:
        """The report and the evidence say who accepted what, how much of it, and how the person is known."""
        dry = self.dry_run(ahead)
        assert [("group-not-ahead", "billing", 1, 0)] == [
            (it.check, it.subject, it.short, it.unknown) for it in dry.accept
        ]
        report = self.fail_over(ahead, dry.seen)
        assert State.PROMOTED is report.state, [(it.name, it.message) for it in report.steps]
        told = next(it.message for it in report.steps if it.name is StepName.GATE)
        assert "accepted: group-not-ahead of billing up to 1, by ann (login on b, not authenticated)" in told
        yes = next(it.message for it in report.steps if it.name is StepName.APPROVE)
        assert "yes, by ann (login on " in yes and "no twinlog.approvers: whoever may run it" in yes
        (run,) = read_ledger(ahead.flow, ahead.clusters.target).recoveries
        assert "accepted: group-not-ahead of billing up to 1" in Path(run.evidence).read_text()

    def test_what_is_larger_since_refuses(self, ahead: World) -> None:
        """By one record."""
        dry = self.dry_run(ahead)
        ahead.clusters.target.commit("billing", COPY, 5)
        report = self.fail_over(ahead, dry.seen)
        assert State.REFUSED is report.state
        told = next(it.message for it in report.steps if it.name is StepName.GATE)
        assert "billing up to 1; now it is 2" in told and "twinlog accept --seen " in told

    def test_what_nobody_has_shown_is_not_accepted(self, ahead: World) -> None:
        """Nor what was shown of the other mode; nothing has begun."""
        dry = self.dry_run(ahead)
        for seen, mode in (("nosuch", Mode.SOURCE_DEAD), (dry.seen, Mode.PLANNED)):
            with pytest.raises(TerminalError) as caught:
                self.fail_over(ahead, seen, mode)
            assert ("not-seen", FlowPhase.ACTIVE) == (caught.value.code, phase(ahead))

    def test_who_is_no_approver_begins_nothing(self, ahead: World) -> None:
        """Neither so nor with a yes to the question; the line names who may."""
        dry = self.dry_run(ahead)
        only = replace(ahead.flow.failover, approvers=("jo",))
        ahead.flow = replace(ahead.flow, failover=only)
        for way in (
            lambda: self.fail_over(ahead, dry.seen),
            lambda: ahead.fail_over(Mode.SOURCE_DEAD, by="ann"),
        ):
            with pytest.raises(TerminalError, match="ann may not say yes") as caught:
                way()
            assert ("no-approver", FlowPhase.ACTIVE) == (caught.value.code, phase(ahead))
        assert () == read_ledger(ahead.flow, ahead.clusters.target).accepted
        assert "one of these has to: jo" in str(caught.value.hint)
