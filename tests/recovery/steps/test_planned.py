"""Differences that an audit has found stop a planned failover, until a person takes the responsibility."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest
from recovery_world import World

from twinlog.audit.result import AuditedDifference
from twinlog.audit.verdict import AuditVerdict
from twinlog.formats.ledger.audit import DifferenceKind
from twinlog.formats.ledger.gate import Waiver
from twinlog.kafka_types import Issue
from twinlog.recovery.report import FailoverReport, State
from twinlog.recovery.steps import planned
from twinlog.state.ledger import read_ledger, write_ledger

NOW = int(time.time() * 1000)
MISSING = AuditedDifference(
    kind=DifferenceKind.MISSING,
    upstream_offset=2,
    downstream_offset=None,
    message="its copy is not there",
    topic="orders",
    remote_topic="A.orders",
    partition=0,
)


def unequal(monkeypatch: pytest.MonkeyPatch, *, elsewhere: int = 0, problems: tuple[Issue, ...] = ()) -> None:
    """Let audits find a record of `orders` missing, and differences in routed topics."""
    result = SimpleNamespace(
        equal=False,
        verdict=AuditVerdict.DIFFERENT,
        differences=(MISSING,),
        difference_count=1 + elsewhere,
        partitions=(
            SimpleNamespace(topic="orders", differences=1),
            SimpleNamespace(topic="idle", differences=0),
        ),
        problems=problems,
    )
    monkeypatch.setattr(planned.audit, "run", lambda *_: result)


def waive(world: World, subject: str, *, until_ms: int = NOW + 10**7) -> None:
    waiver = Waiver("audit-equal", subject, "it is a test record", "jo", until_ms, NOW)
    write_ledger(world.flow, world.clusters.target, [waiver])


def audited(report: FailoverReport) -> str:
    return next(it.message for it in report.steps if it.name.value == "audit")


def test_a_difference_stops_it_and_the_line_says_what_can_be_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the record: of a flow that is made for the way home no `twinlog audit` could tell."""
    unequal(monkeypatch)
    report = world.fail_over()
    assert State.REFUSED is report.state
    assert (
        "the copy is not proved equal: orders-0, upstream offset 2: missing: its copy is not there; see"
        " `twinlog audit`; or take the responsibility: twinlog waiver add audit-equal --flow 'A->B'"
        " --by NAME --until 4h --reason ..."
    ) == audited(report)


@pytest.mark.parametrize("subject", ["", "orders"])
def test_a_waiver_counts_as_it_does_at_the_gate(
    world: World, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    """The report names the person who has waived it, and so does the evidence."""
    unequal(monkeypatch)
    waive(world, subject)
    report = world.fail_over()
    assert State.PROMOTED is report.state, audited(report)
    assert "1 differences, waived by jo: orders-0, upstream offset 2: missing" in audited(report)
    assert "nothing is lost but what jo has waived (audit-equal)" in world.questions[0]
    assert read_ledger(world.flow, world.clusters.target).recoveries[0].at_risk_records is None


@pytest.mark.parametrize(
    ("subject", "until_ms", "found"),
    [
        ("payments", NOW + 10**7, {}),
        ("orders", NOW - 1, {}),
        ("orders", NOW + 10**7, {"elsewhere": 1}),
        ("", NOW + 10**7, {"problems": (Issue("no-map", "orders", "it is not read"),)}),
    ],
    ids=["of another topic", "expired", "a routed topic differs too", "something was not audited"],
)
def test_a_waiver_that_does_not_cover_all_waives_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch, subject: str, until_ms: int, found: dict
) -> None:
    """A waiver of `audit-equal` does not cover what was not looked at."""
    unequal(monkeypatch, **found)
    waive(world, subject, until_ms=until_ms)
    report = world.fail_over()
    assert State.REFUSED is report.state
    assert "the copy is not proved equal" in audited(report)
