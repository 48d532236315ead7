"""The task that asks a person notes the answer by the name that Airflow has."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.airflow

EVENT = {
    "chosen_options": ["Approve"],
    "params_input": {"if_rejected": "abort"},
    "responded_at": datetime(2026, 1, 1, tzinfo=UTC),
    "responded_by_user": {"id": "1", "name": "ann"},
}


def pulled(task_ids: str, key: str = "return_value"):
    """What XComs hold; somebody has written another name into that of `approve`."""
    return {
        ("preview", "return_value"): {"last_ended": "run-1"},
        ("gate", "asked"): {"cost": "nothing is lost", "known": 2},
        ("approve", "return_value"): {**EVENT, "responded_by_user": {"id": "2", "name": "mallory"}},
    }.get((task_ids, key))


CONTEXT = {
    "params": {"flow": "A->B", "mode": "planned"},
    "dag_run": SimpleNamespace(dag_id="failover", run_id="monday", triggering_user_name="jo"),
    "ti": SimpleNamespace(xcom_pull=pulled),
}


@pytest.mark.parametrize(("option", "rejected"), [("Approve", False), ("Reject", True)])
def test_the_answer_is_noted_as_airflow_has_it(flow, monkeypatch, option: str, rejected: bool) -> None:
    """With what a yes costs by what was shown; it comes with the event that resumes the task."""
    from twinlog.airflow import recovery
    from twinlog.airflow.operators.recovery import asking
    from twinlog.airflow.tasks import failover

    noted = []
    monkeypatch.setenv("TWINLOG_CONFIG", "mm2.properties")
    monkeypatch.setattr(failover, "get_current_context", lambda: CONTEXT)
    monkeypatch.setattr(
        failover,
        "walk",
        lambda task, name, answer: noted.append((name, recovery.request_of(task, flow, CONTEXT, answer))),
    )
    asking("promote B?").execute_complete(CONTEXT, {**EVENT, "chosen_options": [option]})
    ((name, request),) = noted
    assert ("A->B", "ann", ("approve",), rejected) == (name, request.by, request.only, request.rejected)
    assert ("nothing is lost", 2, "failover/monday") == (request.cost, request.known, request.driver)


def test_the_promotion_finds_the_name_in_the_ledger(flow, monkeypatch) -> None:
    """Not in an XCom, which a user of the Dag may write."""
    from twinlog.airflow.recovery import request_of

    monkeypatch.setenv("TWINLOG_CONFIG", "mm2.properties")
    request = request_of("promote", flow, CONTEXT)
    assert ("", "", "failover/monday") == (request.by, request.cost, request.driver)
    assert "jo" == request_of("drain", flow, CONTEXT).by
