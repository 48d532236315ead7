"""A group that stands further on the target than it has read skips records: it is named, and a person answers for it.

Proves `twinlog.recovery.report.skips` and what each step makes of it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from recovery_world import COPY, ORDERS, World

from twinlog.formats.ledger.accepted import Accepted
from twinlog.judge.check import Mode
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps.world import Answer
from twinlog.state.ledger import read_ledger, write_ledger

SKIPS = "group billing skips 2 records of orders-0"


@pytest.fixture
def ahead(world: World) -> World:
    """The group was used on B once: it has read 3 records on A, and stands at 5 on B."""
    world.clusters.target.commit("billing", COPY, 5)
    return world


def said(report: FailoverReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def accept(world: World, subject: str, up_to: int = 2) -> None:
    now = int(time.time() * 1000)
    write_ledger(
        world.flow,
        world.clusters.target,
        [Accepted("group-not-ahead", subject, "it may", "jo", "a login", now, now + 10**7, up_to)],
    )


@pytest.mark.parametrize("mode", list(Mode))
def test_a_dry_run_names_it(ahead: World, mode: Mode) -> None:
    """With the number and the partition, in words and in the JSON."""
    report = ahead.fail_over(mode, dry_run=True)
    assert SKIPS in said(report, "groups")
    assert [("billing", 2)] == [(it.group, it.skipped) for it in report.groups]


@pytest.mark.parametrize("mode", list(Mode))
def test_it_blocks_until_a_person_answers_for_it(ahead: World, mode: Mode) -> None:
    """Then the question, the report and the evidence name it; and it is called exact nowhere."""
    if mode is Mode.SOURCE_DEAD:
        ahead.lose_source()
    refused = ahead.fail_over(mode)
    assert (State.REFUSED, []) == (refused.state, ahead.questions)
    assert "group-not-ahead" in said(refused, "fence-producers" if mode is Mode.PLANNED else "gate")
    accept(ahead, "billing")
    report = ahead.fail_over(mode)
    assert State.PROMOTED is report.state, [(it.name, it.message) for it in report.steps]
    (question,) = ahead.questions
    assert SKIPS in question
    assert SKIPS in said(report, "groups")
    assert ("0 of them exact" if mode is Mode.PLANNED else "1 are not exact") in said(report, "groups")
    assert SKIPS in said(report, "approve")
    (run,) = read_ledger(ahead.flow, ahead.clusters.target).recoveries
    evidence = json.loads(Path(run.evidence).read_text(encoding="utf-8"))
    assert [2] == [it["skipped"] for it in evidence["payload"]["recovery"]["groups"]]


@pytest.mark.parametrize("mode", list(Mode))
def test_more_than_was_accepted_is_not_accepted(ahead: World, mode: Mode) -> None:
    """Exceeded by one it blocks, whoever says yes to the question."""
    if mode is Mode.SOURCE_DEAD:
        ahead.lose_source()
    accept(ahead, "billing", 1)
    assert (State.REFUSED, []) == (ahead.fail_over(mode).state, ahead.questions)


def test_without_the_source_it_is_looked_at_again_behind_the_question(ahead: World) -> None:
    """A group that was moved on since skips more than was accepted; the line has the command that accepts it."""
    ahead.clusters.target.commit("billing", COPY, 4)
    ahead.lose_source()
    accept(ahead, "billing", 1)

    def further() -> Answer:
        ahead.clusters.target.commit("billing", COPY, 5)
        return Answer.YES

    report = ahead.fail_over(Mode.SOURCE_DEAD, answer=further)
    assert State.WAITING is report.state
    assert (
        "group billing skips 2 records of orders-0, and nobody has accepted so many; reset the group, or accept it:"
        " twinlog accept group-not-ahead --flow 'A->B' --for billing --up-to 2 --until 8h --reason ..."
    ) == said(report, "groups")


def test_one_that_is_moved_on_while_a_person_is_asked(world: World) -> None:
    """Nothing is promoted over what was not in the question."""

    def ahead() -> Answer:
        world.clusters.target.commit("billing", COPY, 5)
        return Answer.YES

    report = world.fail_over(answer=ahead)
    assert State.REFUSED is report.state
    assert f"{SKIPS}, more than before" in said(report, "promote")


def test_one_that_read_on_on_both_sides_skips_nothing(world: World) -> None:
    """It stands on B where it stands on A."""
    world.clusters.source.commit("billing", ORDERS, 5)
    world.clusters.target.commit("billing", COPY, 5)
    report = world.fail_over()
    assert State.PROMOTED is report.state
    assert "1 of them exact" in said(report, "groups")
    assert [0] == [it.skipped for it in report.groups]
