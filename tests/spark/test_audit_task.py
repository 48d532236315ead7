"""What a Spark task of an audit does, called with plain values."""

from __future__ import annotations

import pickle

import pyarrow as pa

from twinlog.audit.comparison.values import Scope
from twinlog.audit.lane import AuditLaneReport, AuditLaneSpec, AuditSpec
from twinlog.config.security.connection import ConnectionSettings
from twinlog.logs.reading_lanes import Reading
from twinlog.offsets.offset_map import OffsetMap
from twinlog.offsets.segments import Extent, MapSegment
from twinlog.spark.build import BUILD
from twinlog.spark.reading_tasks import audit_lanes, parser_of

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
    parse = parser_of(AuditLaneReport)
    reports = [parse(text) for batch in answers for text in batch.column(1).to_pylist()]
    assert [0, 1] == [it.lane for it in reports]
    for number, report in enumerate(reports):
        (scope,) = report.partitions
        assert isinstance(scope, Reading)
        assert (number, None, "unreachable") == (scope.partition, scope.found, scope.error_code)
