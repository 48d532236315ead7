"""A group that stands further on the target than it has read skips records: it is named, and a person answers for it.

Proves `twinlog.recovery.report.skips` and what each step makes of it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from recovery_world import COPY, ORDERS, World

from twinlog.formats.ledger.gate import Waiver
from twinlog.gate.suites.suites import Mode
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps.scene import Answer
from twinlog.state.ledger import read_ledger, write_ledger

SKIPS = "group billing skips 2 records of orders-0"


@pytest.fixture
def ahead(world: World) -> World:
    """The group was used on B once: it has read 3 records on A, and stands at 5 on B."""
    world.clusters.target.commit("billing", COPY, 5)
    return world


def said(report: FailoverReport, step: str) -> str:
    return next(it.message for it in report.steps if it.name.value == step)


def waive(world: World, subject: str) -> None:
    now = int(time.time() * 1000)
    write_ledger(
        world.flow,
        world.clusters.target,
        [Waiver("group-not-ahead", subject, "it may", "jo", now + 10**7, now)],
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
    waive(ahead, "billing")
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
