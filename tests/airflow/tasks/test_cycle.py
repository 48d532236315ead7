"""What the last task of a cycle writes down."""

from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.airflow.tasks import cycle
from twinlog.errors import TerminalError

REFUSED = {"sync_topics": {"refused": [{"name": "A.orders", "message": "no CREATE"}]}}


@pytest.mark.parametrize(
    ("results", "states", "expected"),
    [({}, {"copy": "skipped"}, False), (REFUSED, {}, True), ({}, {"checkpoints": "failed"}, True)],
    ids=["idle", "refused topic", "failed task"],
)
def test_what_fails_a_run_is_in_its_report(
    monkeypatch: pytest.MonkeyPatch, results: dict[str, Any], states: dict[str, str], expected: bool
) -> None:
    """The gate reads the report, not Airflow."""
    told: list[bool] = []

    def run(*_: object, failed: bool, board: object) -> dict[str, Any]:
        told.append(failed)
        counts = ("records", "bytes", "lag_records", "undecided_records", "unseen_partitions", "rpo_seconds")
        return dict.fromkeys(counts, 0) | {
            "flow": "A->B",
            "run_id": "r",
            "topics": [],
            "undecided": [],
        }

    def pull(*, task_ids: str) -> Any:
        return results.get(task_ids)

    @contextmanager
    def opened(_: object):
        yield SimpleNamespace(target=None)

    ti = SimpleNamespace(
        get_task_states=lambda *_, run_ids: {run_ids[0]: states},
        xcom_pull=pull,
        xcom_push=lambda *_: None,
    )
    dag_run = SimpleNamespace(dag_id="d", run_id="r", start_date=datetime.now(UTC))
    drills = SimpleNamespace(drill_age_seconds=None)
    flow = SimpleNamespace(
        name="A->B", homes=None, target=SimpleNamespace(alias="B"), tiers=(), failover=drills
    )
    for name, value in {
        "get_current_context": lambda: {"dag_run": dag_run, "ti": ti, "params": {}},
        "flow_of": lambda _: flow,
        "opened": opened,
        "sound_if_over_budget": lambda *_: None,
        "_request": lambda: SimpleNamespace(dry_run=False),
    }.items():
        monkeypatch.setattr(cycle, name, value)
    monkeypatch.setattr("twinlog.monitoring.publish.run", run)
    events = {cycle.remote_cluster("B"): SimpleNamespace(extra=None)}
    if expected:
        with pytest.raises(TerminalError, match="the cycle is reported, but"):
            cycle.publish("A->B", events)
    else:
        cycle.publish("A->B", events)
    assert [expected] == told
