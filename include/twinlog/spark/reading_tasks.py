"""The Spark tasks of lanes that only read, of an audit and of a look at copies of others: each answers with one row.

No record passes through Spark.  A task only reads, so Spark may repeat it at will.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from twinlog.audit.lane import audit_lane
from twinlog.observe.lane import observe_lane
from twinlog.spark.lane_task import run_lanes

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import TypeAdapter

Report = TypeVar("Report")


def audit_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Audit lanes (AuditLaneSpec)."""
    return run_lanes(lanes, build, batches, audit_lane)


def observe_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Match lanes (ObserveLaneSpec)."""
    return run_lanes(lanes, build, batches, observe_lane)


def parser_of(kind: type[Report]) -> Callable[[str], Report]:
    """Return what parses the reports of lanes from their rows (driver)."""

    @cache
    def adapter() -> TypeAdapter[Report]:
        from pydantic import TypeAdapter

        return TypeAdapter(kind)

    return lambda text: adapter().validate_json(text)
