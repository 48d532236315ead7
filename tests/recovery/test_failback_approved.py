"""An approval of the way home holds for the failover that the person was shown, and for nothing else."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from home_world import BothWays, new_world, replace_what_needs_brokers
from recovery_world import Blows, Killed

from twinlog.errors import FencedError, TerminalError
from twinlog.formats.ledger.records import FlowPhase
from twinlog.procedure import StepName, done
from twinlog.recovery.failback import export, home
from twinlog.recovery.failback.home import Approval, last_turned_back
from twinlog.recovery.procedure import Tail
from twinlog.recovery.report import FailbackReport, State
from twinlog.recovery.reverse import Way
from twinlog.recovery.steps import ending
from twinlog.recovery.steps.world import Answer

MONDAY = "failback__A__B/monday"
NOTHING = "nothing is lost"


@pytest.fixture
def world(flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BothWays:
    """A flow that was failed over; clients have written four records to B."""
    monkeypatch.setattr(export, "PAUSE_SECONDS", 0)
    made = new_world(flow, tmp_path)
    replace_what_needs_brokers(made, monkeypatch)
    for it in (made.there, made.back):
        made.cycle(it)
    assert State.PROMOTED is made.fail_over().state
    made.write(made.b, 4)
    return made


def approval_of(world: BothWays, driver: str = MONDAY) -> Approval:
    """What a person approves who looks now."""
    ledger = world.ledger(world.there)
    assert ledger.present_failover is not None
    return Approval("ann", last_turned_back(ledger), driver, NOTHING, failover=ledger.present_failover.run)


def go_home(world: BothWays, approval: Approval, *only: StepName, tail: Tail | None = None) -> FailbackReport:
    there, back = (Way(it, world.clusters(it, watched=True)) for it in (world.there, world.back))
    tools, read = world.tools(Answer.NOBODY), partial(world.read, world.there)
    return home.run_approved(there, back, approval, tools, read, only, tail=tail)


def phase(world: BothWays) -> FlowPhase:
    return world.ledger(world.there).phase


def test_the_person_who_approved_is_in_the_journal(world: BothWays) -> None:
    """Nobody else is asked, and every step is theirs."""
    world.questions.clear()
    report = go_home(world, approval_of(world))
    assert (State.FOLLOWING, "ann", []) == (report.state, report.by, world.questions)
    assert {"ann"} == {it.by for it in world.ledger(world.there).recoveries[-1].journal}


def test_a_try_tells_how_an_earlier_one_has_ended_it(world: BothWays) -> None:
    """Its process died before it could tell: nothing is done again, and what is told is what the ledger knows."""
    approval = approval_of(world)
    first = go_home(world, approval)
    world.blows = Blows()
    again = go_home(world, approval)
    assert 0 == world.blows.count
    names = (
        "flow",
        "run",
        "mode",
        "state",
        "rto_seconds",
        "rpo_seconds",
        "evidence",
        "by",
        "next",
        "failover",
    )
    assert {name: first.document[name] for name in names} == {name: again.document[name] for name in names}
    assert [it.name for it in first.steps] == [it.name for it in again.steps]


def test_killed_at_a_change_the_next_try_ends_it(flow, tmp_path, monkeypatch) -> None:
    """Whatever it had done, the same approval brings it to the same end, and the report comes: every fifth change."""
    monkeypatch.setattr(export, "PAUSE_SECONDS", 0)
    for at in range(1, 120, 5):
        world = new_world(flow, tmp_path)
        replace_what_needs_brokers(world, monkeypatch)
        for it in (world.there, world.back):
            world.cycle(it)
        assert State.PROMOTED is world.fail_over().state
        world.write(world.b, 4)
        approval = approval_of(world)
        world.blows = Blows(at)
        try:
            go_home(world, approval)
        except Killed:
            world.blows = Blows()
            report = go_home(world, approval)
            assert State.FOLLOWING is report.state, (at, report.steps)
        else:
            break
        assert (FlowPhase.ACTIVE, FlowPhase.ACTIVE) == (phase(world), world.ledger(world.back).phase)
        assert list(range(9)) == world.values(world.a) == world.values(world.b)
    assert at > 25


def test_a_way_home_of_others_is_none_of_this_run(world: BothWays) -> None:
    """Another Dag run's, or of a person with the command: there is nothing left to do."""
    approval = approval_of(world)
    assert State.FOLLOWING is world.home().state
    with pytest.raises(TerminalError) as caught:
        go_home(world, approval)
    assert ("not-promoted", FlowPhase.ACTIVE) == (caught.value.code, phase(world))


def test_to_turn_back_ends_the_approval(world: BothWays) -> None:
    """A retry after a person's abort would set out again, so it does not; a new approval does."""
    approval = approval_of(world)
    world.home(Answer.NO)
    assert world.turn_back() is not None
    with pytest.raises(TerminalError, match="a way home was given up after ann had approved") as caught:
        go_home(world, approval)
    assert ("approval-expired", FlowPhase.PROMOTED) == (caught.value.code, phase(world))
    assert State.FOLLOWING is go_home(world, approval_of(world)).state


def test_a_new_failover_ends_the_approval(world: BothWays) -> None:
    """Also that of a run that went home itself: clients are not there any more."""
    approval = approval_of(world)
    assert State.FOLLOWING is go_home(world, approval).state
    world.cycle(world.there)
    assert State.PROMOTED is world.fail_over().state
    with pytest.raises(TerminalError, match="its state has changed after ann had approved") as caught:
        go_home(world, approval)
    assert ("approval-expired", FlowPhase.PROMOTED) == (caught.value.code, phase(world))


def test_who_was_relieved_does_not_come_back(
    world: BothWays, monkeypatch: pytest.MonkeyPatch, nobody_busy: None
) -> None:
    """A retry would take the way home from the person who goes on with it."""
    asked: list[str] = []

    def meanwhile(there):
        asked.append(there.journal.actor.by)
        if len(asked) > 1:
            return ending.ask_gate(there.back)
        assert State.FOLLOWING is world.home().state
        return done("ready")

    steps = tuple(it.on(meanwhile) if it.name is StepName.GATE else it for it in home.HOME)
    monkeypatch.setattr(home, "HOME", steps)
    with pytest.raises(TerminalError) as caught:
        go_home(world, approval_of(world))
    assert ("relieved", False, ["ann", "jo"]) == (
        caught.value.code,
        isinstance(caught.value, FencedError),
        asked,
    )


def test_what_was_chosen_for_the_tail_is_done(world: BothWays) -> None:
    """Without a choice it waits; the next approval may have one."""
    kept, world.a.acls = world.a.acls, set()
    world.write(world.a, 2)
    world.a.acls = kept
    report = go_home(world, approval_of(world))
    assert (State.WAITING, FlowPhase.FAILING_BACK) == (report.state, phase(world))
    chosen = approval_of(world, "failback__A__B/tuesday")
    assert State.FOLLOWING is go_home(world, chosen, tail=Tail.KEEP).state


def test_the_answer_in_the_ledger_brings_clients_home(world: BothWays) -> None:
    """It is noted by a task of its own, before the source is promoted by it."""
    given = approval_of(world)
    names = [it.name for it in home.HOME]
    go_home(world, replace(given, by="admin", cost=""), *names[: names.index(StepName.APPROVE)])
    nameless = replace(given, by="", cost="")
    with pytest.raises(TerminalError, match="nobody has approved"):
        go_home(world, nameless)
    assert State.WAITING is go_home(world, given, StepName.APPROVE).state
    report = go_home(world, nameless)
    assert (State.FOLLOWING, "ann") == (report.state, report.by)


def test_tasks_walk_the_way_home_step_by_step(world: BothWays) -> None:
    """Each in a process of its own; a person is asked when everything is known, and promotes by a yes to that."""
    names = [it.name for it in home.HOME]
    before, behind = names[: names.index(StepName.APPROVE)], names[names.index(StepName.PROMOTE) + 1 :]
    saving = before[1:5]
    nobody_yet = replace(approval_of(world), cost="")
    for only in ([before[0]], saving, *([it] for it in before[5:-1])):
        report = go_home(world, nobody_yet, *only)
        assert (State.WAITING, ()) == (
            report.state,
            tuple(it.message for it in report.steps if it.state in {"failed", "waiting"}),
        )
    asked = go_home(world, nobody_yet, StepName.GATE, StepName.APPROVE)
    assert (State.WAITING, NOTHING, 1) == (asked.state, asked.cost, len(asked.groups))
    everything = names[: names.index(StepName.PROMOTE) + 1]
    assert State.WAITING is go_home(world, nobody_yet, *everything).state  # nobody has said yes
    assert State.FAILED is go_home(world, replace(nobody_yet, cost="less"), *everything).state
    approval = replace(nobody_yet, cost=asked.cost)
    assert State.FOLLOWING is go_home(world, approval, *everything).state
    for step in behind:
        ended = go_home(world, approval, step)
    assert (State.FOLLOWING, 0, FlowPhase.ACTIVE) == (ended.state, ended.exit_code, phase(world))
    assert world.ledger(world.there).recoveries[-1].cleared
