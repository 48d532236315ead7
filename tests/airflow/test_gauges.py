"""Numbers as Airflow's gauges."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from twinlog.airflow import gauges
from twinlog.airflow.gauges import of_gate, send
from twinlog.airflow.tasks import readiness as tasks
from twinlog.airflow.tasks.readiness import Asked, asset_extra
from twinlog.config.flow.tiers import Tier
from twinlog.errors import TerminalError
from twinlog.gate.answer import GateCheck, GateResult
from twinlog.jsonable import to_json
from twinlog.judge.at_risk import TopicAtRisk
from twinlog.judge.check import Mode, Severity
from twinlog.monitoring import metrics
from twinlog.state.ledger import Ledger


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


def test_a_no_ends_its_task_with_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """With each check that forbids the failover, and without a path of the worker; what was kept is the XCom."""
    answer = answered(passed=False)
    answer = replace(answer, checks=(replace(answer.checks[0], message="3 records are lost"),))
    shown = {**to_json(answer), "evidence": "/w/e.json", "page": "/w/gate.html"}
    flow = SimpleNamespace(name="A->B", target=SimpleNamespace(alias="B"))
    pushed: dict[str, object] = {}
    ti = SimpleNamespace(xcom_push=pushed.__setitem__)
    params = {"mode": "planned", "producers_stopped": False, "canary": False}
    asked = Asked(flow, answer, shown, Ledger())  # type: ignore[arg-type]
    monkeypatch.setattr(tasks, "get_current_context", lambda: {"params": params, "ti": ti})
    monkeypatch.setattr(tasks, "ask", lambda *_, **__: asked)
    with pytest.raises(TerminalError) as no:
        tasks.ask_gate("A->B", {tasks.readiness("B"): SimpleNamespace(extra=None)})
    assert (
        "A->B is not ready for a failover (planned): no-gaps: 3 records are lost; docs/gate.md says what to do"
        == str(no.value)
    )
    assert {"return_value": shown} == pushed
