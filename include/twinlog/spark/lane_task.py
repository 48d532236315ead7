"""The Spark task of a copy: copy one lane and answer with one row.

No record passes through Spark: ranges go in, reports come out.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from twinlog.jsonable import to_json
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec, RangeReport
from twinlog.spark.answer import answer, decline
from twinlog.spark.build import other_build

if TYPE_CHECKING:
    import pyarrow as pa


def copy_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy the lane whose number stands in each row (task, once per lane).

    `lanes` is the pickled tuple of LaneSpec, `build` the driver's twinlog.  A worker with another build does not
    unpickle or write anything; it declines.  An attempt other than the first writes nothing and answers "fence-again".
    """
    if difference := other_build(build):
        yield decline(difference)
        return
    specs: dict[int, LaneSpec] = dict(enumerate(pickle.loads(lanes)))
    for batch in batches:
        for number in batch.column(0).to_pylist():
            spec = specs[number]
            doubt = doubt_about_this_task()
            report = (
                LaneReport(spec.lane, LaneOutcome.FENCE_AGAIN, (), error=doubt) if doubt else copy_lane(spec)
            )
            yield answer(spec.lane, to_json(report))


def start_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do nothing (task): its worker has then imported the relay and is ready for the next task."""
    for _ in batches:
        yield from ()


def doubt_about_this_task() -> str:
    """Return why this task may not write, or "".  Also works without Spark, where there is no reason."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        return f"Spark tried the task again (attempt {context.attemptNumber()})"
    return ""


def parse_report(text: str) -> LaneReport:
    """Parse the report of a lane from its row (driver)."""
    fields: dict[str, Any] = json.loads(text)
    ranges = tuple(
        RangeReport(**{**item, "quarantined": tuple(item["quarantined"])}) for item in fields.pop("ranges")
    )
    return LaneReport(state=LaneOutcome(fields.pop("state")), ranges=ranges, **fields)
