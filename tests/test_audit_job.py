"""What jobs/audit_partitions.py prints, which whoever submits it keeps in a log."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from twinlog.audit.comparison.values import Excerpt
from twinlog.audit.plan import AuditMode
from twinlog.audit.result import AuditedDifference, AuditResult
from twinlog.formats.ledger.audit import DifferenceKind
from twinlog.jsonable import to_json

JOB = Path(__file__).parents[1] / "jobs" / "audit_partitions.py"
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


def test_it_says_where_a_record_differs_and_not_what_it_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All else of the result is there."""

    def audit(*given: Any) -> AuditResult:
        return RESULT

    monkeypatch.setattr("twinlog.spark.application.audit", audit)
    monkeypatch.setattr("twinlog.garbage.collect_rarely", lambda: None)
    monkeypatch.setattr(sys, "argv", ["audit_partitions.py", "--config", "x", "--flow", "A->B"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(JOB), run_name="__main__")
    printed = capsys.readouterr().out
    assert 1 == ended.value.code
    assert "secret" not in printed
    expected = to_json(RESULT)
    expected["differences"][0] |= {"source": None, "target": None}
    assert expected == json.loads(printed)["twinlog"]
