"""The Spark task of an audit: compare the partitions of one lane and answer with one row.

No record passes through Spark.  A task only reads, so Spark may repeat it at will.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from twinlog.audit.lane import AuditLaneReport, AuditLaneSpec, audit_lane
from twinlog.jsonable import to_json
from twinlog.spark.build import other_build
from twinlog.spark.lane_task import answer, decline

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import TypeAdapter


def audit_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Audit the lane whose number stands in each row (task, once per lane).

    `lanes` are pickled AuditLaneSpecs, `build` is the driver's twinlog: a worker with another one declines.
    """
    if difference := other_build(build):
        yield decline(difference)
        return
    specs: dict[int, AuditLaneSpec] = dict(enumerate(pickle.loads(lanes)))
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield answer(number, to_json(audit_lane(specs[number])))


def parse_audit(text: str) -> AuditLaneReport:
    """Parse the report of a lane from its row (driver)."""
    return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[AuditLaneReport]:
    from pydantic import TypeAdapter

    return TypeAdapter(AuditLaneReport)
