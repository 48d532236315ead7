"""The Spark task of a look at copies that another engine makes: match a lane's partitions, and answer with one row.

No record passes through Spark.  A task only reads, so Spark may repeat it at will.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from twinlog.observe.lane import ObserveLaneReport, observe_lane
from twinlog.spark.lane_task import run_lanes

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import TypeAdapter


def observe_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Match lanes (ObserveLaneSpec)."""
    return run_lanes(lanes, build, batches, observe_lane)


def parse_look(text: str) -> ObserveLaneReport:
    """Parse the report of a lane from its row (driver)."""
    return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[ObserveLaneReport]:
    from pydantic import TypeAdapter

    return TypeAdapter(ObserveLaneReport)
