"""The sensor's waiting: what it waits for, how long, and what it says of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twinlog.errors import ClusterUnreachable, TerminalError, UsageError
from twinlog.judge.check import Mode

pytestmark = pytest.mark.airflow

EVENT = {"seen": "READY"}


def check(name: str, blocks: bool) -> SimpleNamespace:
    return SimpleNamespace(name=name, message=f"{name}\nis bad", blocks=blocks)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch):
    """`gate(*answers)` lets the gate answer True, False, or raise; it returns the sensor, made with `arguments`."""

    def answers(*said, **arguments):
        from twinlog.airflow.sensors import FailoverReadinessSensor, readiness

        left = list(said)

        def ask(flow, request, keeps):
            answer = left.pop(0)
            if isinstance(answer, Exception):
                raise answer
            result = SimpleNamespace(
                flow="A->B",
                mode=Mode.PLANNED,
                ready=answer,
                checks=(check("lag", not answer), check("drift", False)),
                headline="READY",
            )
            assert answer is keeps(result)
            names = ("flow", "mode", "ready", "still_writing", "state_age_seconds", "evidence", "page")
            document = dict.fromkeys(names, "x")
            target = SimpleNamespace(target=SimpleNamespace(alias="B"))
            return SimpleNamespace(flow=target, result=result, document=document)

        monkeypatch.setattr(readiness, "ask", ask)
        return FailoverReadinessSensor(task_id="ready", flow="A->B", **arguments)

    return answers


@pytest.fixture
def context() -> dict:
    from airflow.sdk.execution_time.context import OutletEventAccessors

    return {"outlet_events": OutletEventAccessors()}


def test_a_yes_is_the_result_and_an_event(gate, context) -> None:
    """The answer of the gate, with page and evidence."""
    from twinlog.airflow.assets import readiness

    result = gate(True, deferrable=True).execute(context)
    assert "x" == result["evidence"]
    assert "x" == context["outlet_events"][readiness("B")].extra["page"]


def test_a_worker_waits_by_itself(gate, context) -> None:
    """Through a no, and a cluster that does not answer."""
    away = ClusterUnreachable("B does not answer")
    assert gate(False, away, True, poke_interval=0, deferrable=False).execute(context)


def test_each_check_that_forbids_it_is_one_line(gate, context, capsys) -> None:
    """Other checks are not told, and no check's text makes a second line."""
    assert not gate(False).poke(context)
    told = [line for line in capsys.readouterr().out.splitlines() if "is bad" in line]
    assert [True] == ["lag: lag\\x0ais bad" in line for line in told]


def test_what_will_not_go_away_is_raised(gate, context) -> None:
    """It is not waited for."""
    with pytest.raises(TerminalError, match="refused"):
        gate(TerminalError("refused")).poke(context)


def test_a_no_is_left_to_the_triggerer(gate, context) -> None:
    """For no longer than the time that is left, from the first look on."""
    from airflow.sdk.exceptions import TaskDeferred

    sensor = gate(False, False, deferrable=True, timeout=100, poke_interval=7, producers_stopped=True)
    with pytest.raises(TaskDeferred) as first:
        sensor.execute(context)
    until = first.value.kwargs["until"]
    with pytest.raises(TaskDeferred) as again:
        sensor.looked(context, EVENT, until - 60)
    assert ("looked", until - 60) == (again.value.method_name, again.value.kwargs["until"])
    assert (True, True) == (
        99 < first.value.timeout.total_seconds() <= 100,
        39 < again.value.timeout.total_seconds() <= 40,
    )
    _, arguments = again.value.trigger.serialize()
    assert ("A->B", "planned", True, False, 7.0) == tuple(arguments.values())


def test_time_is_up(gate, context) -> None:
    """Also if the triggerer saw a yes that holds no longer; `soft_fail` skips."""
    from airflow.sdk.exceptions import AirflowSensorTimeout, AirflowSkipException

    with pytest.raises(AirflowSensorTimeout, match="was not ready within 5 s"):
        gate(False, deferrable=True, timeout=5).looked(context, EVENT, 0.0)
    with pytest.raises(AirflowSkipException):
        gate(False, deferrable=True, timeout=5, soft_fail=True).resume_execution(
            "looked", {"event": EVENT, "until": 0.0}, context
        )


def test_the_gates_mode_has_another_name(gate, context) -> None:
    """A sensor's `mode` is Airflow's."""
    with pytest.raises(UsageError, match="write failover_mode='source-dead'"):
        gate(mode="source-dead")
    with pytest.raises(UsageError, match="the gate has no mode 'dead'"):
        gate(True, failover_mode="dead").poke(context)
