"""jobs/run_step.py: what it takes, what it prints (which whoever submits it keeps in a log), and how it ends."""

from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.audit.comparison.values import Excerpt
from twinlog.audit.request import AuditMode, AuditRequest
from twinlog.audit.result import AuditedDifference, AuditResult
from twinlog.copying.result import CopyResult
from twinlog.errors import ExitCode
from twinlog.formats.ledger.audit import DifferenceKind
from twinlog.jsonable import to_json
from twinlog.judge.check import Mode
from twinlog.recovery.report import FailoverReport, State
from twinlog.spark.request import (
    MARK,
    AuditStepRequest,
    CopyRequest,
    FailbackRequest,
    FailoverRequest,
    as_json,
    read_request,
)

JOB = Path(__file__).parents[1] / "jobs" / "run_step.py"
SECRET = Excerpt("secret key", "secret value", (("secret", "header"),), 1)
DIFFERS = AuditedDifference(
    DifferenceKind.VALUE,
    5,
    6,
    "value",
    ("value",),
    SECRET,
    SECRET,
    topic="t",
    remote_topic="A.t",
    partition=0,
)
RESULT = AuditResult("A->B", AuditMode.FULL, False, 9, 0.5, 1, (DIFFERS,), (), (), 7, 1.0, 1.0)


COPIED = CopyResult("A->B", "r", "done", 1, 2, 0.5, ())
PROMOTED = FailoverReport("A->B", "r", Mode.PLANNED, State.PROMOTED, False, ())
REQUEST = {"config": "x", "flow": "A->B"}


@pytest.fixture
def ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, Any]]:
    """Run the job with a request and a result, or without one; return its exit code and what it printed."""

    def run_job(request: Any, result: Any = None) -> tuple[int, Any]:
        if result is not None:
            monkeypatch.setattr("twinlog.spark.application.run", lambda request: result)
        monkeypatch.setattr("twinlog.garbage.collect_rarely", lambda: None)
        words = [] if request is None else [request if isinstance(request, str) else json.dumps(request)]
        monkeypatch.setattr(sys, "argv", ["run_step.py", *words])
        with pytest.raises(SystemExit) as caught:
            runpy.run_path(str(JOB), run_name="__main__")
        return int(str(caught.value.code)), json.loads(capsys.readouterr().out)["twinlog"]

    return run_job


def test_the_result_bears_the_mark_of_who_submitted_it(ended: Any, monkeypatch, capsys) -> None:
    """So that no line of the log can be taken for it."""
    monkeypatch.setenv(MARK, "twinlog-c0ffee")
    with pytest.raises(KeyError, match="twinlog"):
        ended({"step": "copy", **REQUEST}, COPIED)
    monkeypatch.delenv(MARK)
    assert 0 == ended({"step": "copy", **REQUEST}, COPIED)[0]


def test_an_audit_says_where_a_record_differs_and_not_what_it_holds(ended: Any) -> None:
    """All else of the result is there."""
    expected = to_json(RESULT)
    expected["differences"][0] |= {"source": None, "target": None}
    assert (1, expected) == ended({"step": "audit", **REQUEST}, RESULT)


def test_a_failover_says_whether_a_retry_may_mend_it(ended: Any) -> None:
    """Beside the document of the command, for a scheduler that decides whether to try again."""
    failed = replace(PROMOTED, state=State.FAILED, exit_code=ExitCode.CLUSTER, transient=True)
    assert (3, {**failed.document, "transient": True}) == ended({"step": "copy", **REQUEST}, failed)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (COPIED, 0),
        (replace(COPIED, state="failed"), 1),
        (replace(COPIED, state="failed", error="no", transient=True), 3),
        (replace(RESULT, equal=True), 0),
        (PROMOTED, 0),
        (replace(PROMOTED, state=State.REFUSED, exit_code=ExitCode.SAYS_NO), 1),
        (replace(PROMOTED, state=State.FAILED, exit_code=ExitCode.CLUSTER), 3),
    ],
)
def test_it_ends_as_its_step_did(result: Any, code: int, ended: Any) -> None:
    """The exit codes are those of the command line."""
    assert code == ended({"step": "copy", **REQUEST}, result)[0]


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (None, "takes one argument"),
        ("{", "Invalid JSON"),
        ({"step": "copy", "config": "x"}, "copy.flow: Field required"),
        ({"step": "copy", **REQUEST, "lanes": 3}, "copy.lanes: Unexpected keyword argument"),
        ({"step": "drop", **REQUEST}, "Input tag 'drop' found"),
        ({"step": "copy", "config": "/no/such/file", "flow": "A->B"}, "/no/such/file does not exist"),
    ],
)
def test_a_wrong_request_is_an_error_in_one_line(request_: Any, said: str, ended: Any) -> None:
    """A request is not half understood; nothing is copied for longer, or more, than was meant."""
    code, told = ended(request_)
    assert (2, True) == (code, said in told["error"]["message"]), told


requests = st.one_of(
    st.builds(
        CopyRequest,
        config=st.just(Path("f")),
        flow=st.text(),
        run_id=st.text(),
        until_ms=st.none() | st.integers(0, 2**53),
        topics=st.lists(st.text()).map(tuple),
        follow_seconds=st.none() | st.floats(0, 1e6),
        gives_way_to=st.text(),
    ),
    st.builds(
        AuditStepRequest,
        config=st.just(Path("f")),
        flow=st.text(),
        audit=st.builds(AuditRequest, topics=st.none() | st.frozensets(st.text())),
    ),
    st.builds(
        FailoverRequest,
        config=st.just(Path("f")),
        flow=st.text(),
        mode=st.sampled_from([mode.value for mode in Mode]),
        by=st.text(),
        only=st.lists(st.text()).map(tuple),
        cost=st.text(),
        known=st.integers(0, 2**53),
        last_ended=st.text(),
        driver=st.text(),
    ),
    st.builds(
        FailbackRequest,
        config=st.just(Path("f")),
        flow=st.text(),
        by=st.text(),
        failover=st.text(),
        last_turned_back=st.text(),
        only=st.lists(st.text()).map(tuple),
        cost=st.text(),
        tail=st.none() | st.just("keep"),
        driver=st.text(),
    ),
)


@given(requests)
def test_a_request_arrives_as_it_was_sent(request_: Any) -> None:
    """On a command line."""
    assert request_ == read_request(as_json(request_))
