"""What a Spark task of an audit, and one that samples, do, called with plain values."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from twinlog.audit.comparison.record_fields import RawRecord
from twinlog.audit.comparison.values import Scope
from twinlog.audit.lane import AuditLaneSpec, AuditSpec, ScopeReport
from twinlog.batches.record import record_rest
from twinlog.config.security.connection import ConnectionSettings
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.spark.audit_task import audit_lanes, parse_audit
from twinlog.spark.build import BUILD
from twinlog.spark.sample_task import is_json, row

NOWHERE = ConnectionSettings("A", (("127.0.0.1", 1),), connect_timeout_ms=200)
MAP = OffsetMap.of([MapSegment(0, 5, (Extent(0, 0, 5),))])


def test_a_cluster_that_does_not_answer_is_a_report() -> None:
    """For each scope of each lane; it survives the way there and back."""
    specs = tuple(AuditSpec("t", "id", "A.t", number, Scope(MAP, 0, 5, 0, 5), 5, 5) for number in range(2))
    lanes = (
        AuditLaneSpec(0, NOWHERE, NOWHERE, specs[:1], True, 1 << 20),
        AuditLaneSpec(1, NOWHERE, NOWHERE, specs[1:], True, 1 << 20),
    )
    frame = pa.RecordBatch.from_pydict({"id": [0, 1]})
    answers = audit_lanes(pickle.dumps(lanes), BUILD, iter([frame]))
    reports = [parse_audit(text) for batch in answers for text in batch.column(1).to_pylist()]
    assert [0, 1] == [it.lane for it in reports]
    for number, report in enumerate(reports):
        (scope,) = report.scopes
        assert isinstance(scope, ScopeReport)
        assert (number, None, "unreachable") == (scope.partition, scope.comparison, scope.error_code)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"a": 1}', True),
        (b"7", True),
        (b"", False),
        (b"{", False),
        (b"NaN", False),
        (b"\xff", False),
        (b"[" * 100_000, False),
    ],
)
def test_what_is_json(content: bytes, expected: bool) -> None:
    """One whole document, and nothing that makes a task fail."""
    assert expected == is_json(content)


def test_a_row_of_a_sample() -> None:
    """Null is not empty; sizes are of the bytes, not of the text."""
    rest = bytes(record_rest(None, b"\xffabc", [("h", None), ("h", b"")]))
    assert row("t", 1, RawRecord(7, 1000, rest)) == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 1000,
        "key": None,
        "value": "\ufffdabc",
        "key_size": None,
        "value_size": 4,
        "headers": 2,
        "value_is_json": False,
    }
