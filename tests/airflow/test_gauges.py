"""Numbers as Airflow's gauges."""

import pytest

from twinlog.airflow import gauges
from twinlog.airflow.gauges import of_gate, send
from twinlog.airflow.tasks.readiness import asset_extra
from twinlog.config.flow.tiers import Tier
from twinlog.gate.answer import GateCheck, GateResult
from twinlog.jsonable import to_json
from twinlog.judge.at_risk import TopicAtRisk
from twinlog.judge.check import Mode, Severity
from twinlog.monitoring import metrics


class Flow:
    """A flow of one tier."""

    name = "A->B"
    tiers = (Tier(rpo_seconds=300),)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Return what Airflow was told."""
    found: dict[str, float] = {}
    monkeypatch.setattr(gauges.Stats, "gauge", lambda name, value: found.update({name: value}))
    return found


def answered(*, passed: bool, ages: tuple[float | None, ...] = (3.0, 7.0)) -> GateResult:
    """A gate of one critical check, with two topics at risk."""
    check = GateCheck("no-gaps", Severity.CRITICAL, passed, "", "", "", 0.0)
    risks = tuple(TopicAtRisk(name, "", 1, 1, seconds, 300) for name, seconds in zip("ab", ages, strict=True))
    return GateResult("A->B", Mode.PLANNED, passed, 0, False, (check,), (), risks)


@pytest.mark.parametrize("passed", [True, False])
def test_the_gates_answer_is_three_numbers(told: dict[str, float], passed: bool) -> None:
    """Ready, by how many checks not, and the oldest record at risk; the flow stands in the names."""
    send(Flow(), of_gate(Flow(), answered(passed=passed)))  # type: ignore[arg-type]
    assert {
        "twinlog.A__B.gate_ready": int(passed),
        "twinlog.A__B.gate_blocking_checks": int(not passed),
        "twinlog.A__B.gate_at_risk_seconds": 7.0,
    } == told


def test_an_age_that_nobody_knows_is_no_gauge(told: dict[str, float]) -> None:
    """Unless another one is over the RPO already."""
    for ages, expected in (((None, 7.0), None), ((None, 301.0), 301.0)):
        told.clear()
        send(Flow(), of_gate(Flow(), answered(passed=True, ages=ages)))  # type: ignore[arg-type]
        assert expected == told.get("twinlog.A__B.gate_at_risk_seconds")


def test_labels_stand_in_the_name_and_topics_are_left_out(told: dict[str, float]) -> None:
    """Plain StatsD drops tags; thousands of names would not be bounded."""
    samples = [metrics.FAILED_CHECKS.of(2, "warning"), metrics.LAG_RECORDS.of(5, "orders")]
    send(Flow(), samples)  # type: ignore[arg-type]
    assert {"twinlog.A__B.failed_checks.warning": 2} == told


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
