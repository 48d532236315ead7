"""What the audit task decides, apart from running."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from fake_cluster import FakeCluster

from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.cluster.api import Clusters
from twinlog.errors import TransientError, UsageError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.state.ledger import write_ledger

pytestmark = pytest.mark.airflow


def run_of(kind: str) -> SimpleNamespace:
    """A run of a Dag, as far as the task looks at it."""
    return SimpleNamespace(run_type=SimpleNamespace(value=kind))


OUTCOME = {
    "equal": False,
    "difference_count": 1,
    "differences": [
        {
            "topic": "t",
            "partition": 0,
            "upstream_offset": 7,
            "downstream_offset": 8,
            "kind": "value",
            "source": {"value": "secret"},
            "target": None,
        }
    ],
    "problems": [{"message": "no map", "hint": "audit"}],
}


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({}, AuditRequest()),
        ({"full": True}, AuditRequest(AuditMode.FULL)),
        ({"topics": ["b", "a"]}, AuditRequest(topics=frozenset({"a", "b"}))),
    ],
)
def test_the_form_becomes_a_request(form, expected) -> None:
    """What is asked for reaches the job."""
    from twinlog.airflow.operators.audit import AUDIT, audit_request

    assert expected == audit_request(form)
    request = AUDIT.request(SimpleNamespace(name="A->B"), {"params": form, "dag_run": run_of("manual")})
    assert ("audit", "A->B", expected) == (request.step, request.flow, request.audit)


@pytest.mark.parametrize("phase", [FlowPhase.FAILING_OVER, FlowPhase.PROMOTED, FlowPhase.FAILING_BACK])
def test_a_scheduled_run_skips_a_flow_that_was_failed_over(monkeypatch, flow, phase) -> None:
    """A person's run looks all the same; so does a scheduled one of a flow that follows."""
    from airflow.sdk.exceptions import AirflowSkipException

    from twinlog.airflow.operators import audit

    clusters = Clusters(FakeCluster("A"), FakeCluster("B"))
    monkeypatch.setattr(audit, "opened", lambda _flow: nullcontext(clusters))
    scheduled = {"params": {}, "dag_run": run_of("scheduled")}
    clusters.target.add_topic(flow.ledger_topic)
    write_ledger(flow, clusters.target, [FlowState(FlowPhase.ACTIVE, 1, "jo", "why")])
    assert "audit" == audit.AUDIT.request(flow, scheduled).step
    write_ledger(flow, clusters.target, [FlowState(phase, 2, "jo", "why")])
    assert "audit" == audit.AUDIT.request(flow, scheduled | {"dag_run": run_of("manual")}).step
    with pytest.raises(AirflowSkipException, match=f"A->B is {phase.value}: nothing is copied"):
        audit.AUDIT.request(flow, scheduled)


def test_a_failure_says_where() -> None:
    """Topic, partition, kind, offsets; and what could not be audited."""
    from twinlog.airflow.operators.audit import not_equal

    assert (
        "the audit does not call the copy equal, 1 differences: t-0 value at 7 -> 8; no map"
        == not_equal(OUTCOME).message
    )
    nothing = {
        **OUTCOME,
        "differences": [],
        "problems": [{"message": "no record", "hint": "run a cycle first"}],
    }
    assert "run a cycle first" == not_equal(nothing).hint


def test_a_job_that_died_is_tried_again() -> None:
    """It said nothing, or what was wrong."""
    from twinlog.airflow.operators.spark_job import error_of

    assert isinstance(error_of(None), TransientError)
    said = error_of({"error": {"kind": "UsageError", "code": "usage", "message": "no such topic"}})
    assert isinstance(said, UsageError)
    assert error_of(OUTCOME) is None
