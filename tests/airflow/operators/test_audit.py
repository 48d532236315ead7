"""What the audit task decides, apart from running."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.audit.plan import AuditMode, AuditRequest
from twinlog.errors import TransientError, UsageError

pytestmark = pytest.mark.airflow

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
    "problems": [{"message": "no map"}],
}


@pytest.mark.parametrize(
    ("form", "expected", "words"),
    [
        ({}, AuditRequest(), ["--mode", "incremental"]),
        ({"full": True, "seed": 3}, AuditRequest(AuditMode.FULL, 1.0, 3), ["--mode", "full"]),
        (
            {"sample": 0.5, "seed": 7, "topics": ["b", "a"]},
            AuditRequest(AuditMode.SAMPLE, 0.5, 7, frozenset({"a", "b"})),
            ["--mode", "sample", "--share", "0.5", "--seed", "7", "--topics", "a,b"],
        ),
    ],
)
def test_the_form_becomes_a_job(form, expected, words) -> None:
    """What is asked for reaches the job."""
    from twinlog.airflow.operators.audit import audit_request, job_arguments

    assert expected == audit_request(form)
    assert ["--config", "c", "--flow", "A->B", *words] == job_arguments(Path("c"), "A->B", expected)


def test_two_things_at_once_are_refused() -> None:
    """All and a share of it."""
    from twinlog.airflow.operators.audit import audit_request

    with pytest.raises(UsageError, match="choose one"):
        audit_request({"full": True, "sample": 0.1})


def test_xcom_holds_no_record() -> None:
    """Only where to look."""
    from twinlog.airflow.operators.audit import without_contents

    assert "secret" not in str(without_contents(OUTCOME))
    assert 7 == without_contents(OUTCOME)["differences"][0]["upstream_offset"]


def test_a_failure_says_where() -> None:
    """Topic, partition, kind, offsets; and what could not be audited."""
    from twinlog.airflow.operators.audit import not_equal

    assert (
        "the audit does not call the copy equal, 1 differences: t-0 value at 7 -> 8; no map"
        == not_equal(OUTCOME).message
    )


def test_a_job_that_died_is_tried_again() -> None:
    """It said nothing, or what was wrong."""
    from twinlog.airflow.operators.outcome import error_of

    assert isinstance(error_of(None), TransientError)
    said = error_of({"error": {"kind": "UsageError", "code": "usage", "message": "no such topic"}})
    assert isinstance(said, UsageError)
    assert error_of(OUTCOME) is None
