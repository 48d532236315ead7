"""The Spark task of an audit: compare the partitions of one lane and answer with one row.

No record passes through Spark.  A task only reads, so Spark may repeat it at will.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from twinlog.audit.lane import AuditLaneReport, audit_lane
from twinlog.spark.lane_task import run_lanes

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import TypeAdapter


def audit_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Audit lanes (AuditLaneSpec)."""
    return run_lanes(lanes, build, batches, audit_lane)


def parse_audit(text: str) -> AuditLaneReport:
    """Parse the report of a lane from its row (driver)."""
    return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[AuditLaneReport]:
    from pydantic import TypeAdapter

    return TypeAdapter(AuditLaneReport)
