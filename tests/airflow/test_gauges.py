"""Checks as metrics."""

import pytest

from twinlog.airflow import gauges
from twinlog.airflow.gauges import failed_by_severity, gauge_gate
from twinlog.airflow.tasks.readiness import asset_extra
from twinlog.checks.check import CheckResult, Severity
from twinlog.checks.risk import TopicAtRisk
from twinlog.config.flow.tiers import Tier
from twinlog.gate.answer import GateCheck, GateResult
from twinlog.gate.suites.suites import Mode
from twinlog.jsonable import to_json


def test_failed_checks_are_counted_by_severity() -> None:
    """A severity without any is 0, so that an alarm goes off again."""
    checks = [
        CheckResult(name, severity, passed, "", "", "")
        for name, severity, passed in (
            ("a", Severity.CRITICAL, True),
            ("b", Severity.WARNING, False),
            ("c", Severity.WARNING, False),
        )
    ]
    assert {"critical": 0, "warning": 2} == failed_by_severity(checks)


def answered(*, passed: bool, ages: tuple[float | None, ...] = (3.0, 7.0)) -> GateResult:
    """A gate of one critical check, with two topics at risk."""
    check = GateCheck("no-gaps", Severity.CRITICAL, passed, "", "", "", 0.0)
    risks = tuple(TopicAtRisk(name, "", 1, 1, seconds, 300) for name, seconds in zip("ab", ages, strict=True))
    return GateResult("A->B", Mode.PLANNED, passed, 0, False, (check,), (), risks)


@pytest.mark.parametrize("passed", [True, False])
def test_the_gates_answer_is_three_numbers(monkeypatch: pytest.MonkeyPatch, passed: bool) -> None:
    """Ready, by how many checks not, and the oldest record at risk; the flow stands in the names."""
    told: dict[str, float] = {}
    monkeypatch.setattr(gauges.Stats, "gauge", lambda name, value: told.update({name: value}))

    class Flow:
        name = "A->B"
        tiers = (Tier(),)

    gauge_gate(Flow(), answered(passed=passed))  # type: ignore[arg-type]
    assert {
        "twinlog.A__B.gate.ready": int(passed),
        "twinlog.A__B.gate.blocking_checks": int(not passed),
        "twinlog.A__B.gate.at_risk_seconds": 7.0,
    } == told


def test_an_age_that_nobody_knows_is_no_gauge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another one is over the RPO already."""

    class Flow:
        name = "A->B"
        tiers = (Tier(rpo_seconds=300),)

    for ages, expected in (((None, 7.0), None), ((None, 301.0), 301.0)):
        told: dict[str, float] = {}
        monkeypatch.setattr(gauges.Stats, "gauge", lambda name, value, told=told: told.update({name: value}))
        gauge_gate(Flow(), answered(passed=True, ages=ages))  # type: ignore[arg-type]
        assert expected == told.get("twinlog.A__B.gate.at_risk_seconds")


def test_the_readiness_asset_tells_the_next_dag() -> None:
    """The answer, and where page and evidence are."""
    shown = {**to_json(answered(passed=False)), "evidence": "e.json", "page": "gate.html"}
    assert {
        "flow": "A->B",
        "mode": "planned",
        "ready": False,
        "evidence": "e.json",
        "page": "gate.html",
    }.items() <= (asset_extra(shown).items())
