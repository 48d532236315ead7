"""The gate and the alarm under a real scheduler."""

from pathlib import Path

import pytest

pytestmark = [pytest.mark.airflow, pytest.mark.integration]

GATE, SUBMITTING = "failover_readiness__west__east", "replicate__west__east"


def said(scheduler, run_id: str) -> list[dict]:
    """What the gate's task wrote into its log."""
    content = scheduler.api.get(f"dags/{GATE}/dagRuns/{run_id}/taskInstances/gate/logs/1")["content"]
    return [it for it in content if not it["event"].startswith("::")]


@pytest.fixture(scope="module")
def cycled(scheduler) -> str:
    """A cycle of west->east has run; it took longer than the flow's RPO of a second."""
    scheduler.api.pause(SUBMITTING, paused=False)
    runs = scheduler.wait(SUBMITTING, lambda: scheduler.api.runs(SUBMITTING))
    run_id = str(runs[0]["dag_run_id"])
    scheduler.finish(SUBMITTING, run_id)
    return run_id


def test_a_cycle_that_does_not_end_in_time_sounds_the_alarm(scheduler, cycled, alarms) -> None:
    """The scheduler's own deadline calls the notifier, which reaches the configured address."""
    heard = scheduler.wait("the alarm", lambda: [it for it in alarms if it["flow"] == "west->east"])
    assert "a cycle has not ended within 1 s" in heard[0]["text"]


def test_the_gate_is_asked_by_a_run(scheduler, cycled) -> None:
    """Its answer is the task's result, whatever it is; page and evidence are there; not ready fails the run.

    Its log ends with the verdict, and names no folder of a worker.
    """
    scheduler.api.pause(GATE, paused=False)
    run_id = scheduler.api.trigger(GATE)
    states = scheduler.finish(GATE, run_id)
    answer = scheduler.api.result(GATE, run_id, "gate")
    assert ("west->east", "planned", True) == (answer["flow"], answer["mode"], answer["still_writing"])
    assert {"gate": "success" if answer["ready"] else "failed"} == states
    assert Path(answer["page"]).exists()
    assert Path(answer["evidence"]).exists()
    named = {check["name"]: check["passed"] for check in answer["checks"]}
    assert (True, True) == (named["flow-has-run"], named["source-answers"])
    lines = said(scheduler, run_id)
    assert answer["ready"] or any("is not ready for a failover (planned)" in it["event"] for it in lines[-2:])
    reports = str(Path(answer["page"]).parents[2])
    assert [] == [it for it in lines if it.get("error_detail") or reports in it["event"]]
