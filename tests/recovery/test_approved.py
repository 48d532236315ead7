"""An approval that was given beforehand holds for what the person was shown, and for nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from recovery_world import World

from twinlog.errors import ClusterRefused, ClusterUnreachable, TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.gate.evidence import Seal
from twinlog.gate.suites.suites import Mode
from twinlog.monitoring import publish
from twinlog.recovery import abort, approved, failover
from twinlog.recovery.approved import Approval, last_ended
from twinlog.recovery.procedure import StepName
from twinlog.recovery.report import FailoverReport, State, done
from twinlog.recovery.steps.scene import Answer, Tools
from twinlog.state.ledger import read_ledger


def fail_over(
    world: World,
    mode: Mode = Mode.PLANNED,
    at_risk: int = 0,
    ended: str = "",
    by: str = "ann",
    driver: str = "failover__A__B/monday",
) -> FailoverReport:
    tools = Tools(SimpleNamespace, lambda _: Answer.NOBODY, lambda _: None, Seal("mm2.properties", "sha"))
    return approved.run(world.flow, world.clusters, mode, Approval(by, at_risk, ended, driver), tools)


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
        patched.setattr(failover, "_DEEDS", {**failover._DEEDS, (Mode.PLANNED, StepName.CANARY): fail})
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

    gate = failover._DEEDS[Mode.PLANNED, StepName.GATE]
    asked: list[str] = []

    def meanwhile(scene):
        asked.append(scene.journal.actor.by)
        if len(asked) > 1:
            return gate(scene)
        assert State.PROMOTED is world.fail_over(by="jo").state
        return done("ready")

    monkeypatch.setattr(failover, "_DEEDS", {**failover._DEEDS, (Mode.PLANNED, StepName.GATE): meanwhile})
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

    monkeypatch.setattr(failover, "_DEEDS", {**failover._DEEDS, (Mode.PLANNED, StepName.GATE): fail})
    report = fail_over(world)
    assert (State.FAILED, transient) == (report.state, report.transient)
    assert "transient" not in report.document
