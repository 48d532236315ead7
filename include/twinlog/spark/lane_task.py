"""The Spark task of a copy: copy one lane and answer with one row, its number and its report as JSON.

No record passes through Spark: ranges go in, reports come out.
"""

from __future__ import annotations

import json
import logging
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from twinlog.jsonable import to_json
from twinlog.lane.copy.copy_lane import copy_lane
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec
from twinlog.spark.build import other_build, refuse_build

SCHEMA = "lane int, report string"
_ARROW_SCHEMA = pa.schema([("lane", pa.int32()), ("report", pa.string())])

NOT_ITS_LANE = -1
"""The lane number in the answer of a worker that can work for no lane: its report is the reason, as text."""


def answer(lane: int, report: Any) -> pa.RecordBatch:
    """Make the row of a lane; `report` is any value that JSON can hold.

    The row is made from buffers: pyarrow imports pandas before it converts any Python list, which costs each worker
    more than a second of CPU and 35 MB (pyarrow 26; seen with py-spy).
    """
    text = json.dumps(report).encode()
    number = pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(struct.pack("=i", lane))])
    ends = pa.py_buffer(struct.pack("=ii", 0, len(text)))
    column = pa.Array.from_buffers(pa.string(), 1, [None, ends, pa.py_buffer(text)])
    return pa.RecordBatch.from_arrays([number, column], schema=_ARROW_SCHEMA)


def reports(rows: Iterable[Any]) -> list[str]:
    """Return the reports of a job's rows, as JSON (driver).  Raises TerminalError if a worker declined."""
    given = [(row["lane"], row["report"]) for row in rows]
    for lane, report in given:
        if lane == NOT_ITS_LANE:
            raise refuse_build(json.loads(report))
    return [report for _, report in given]


def run_lanes(
    lanes: bytes, build: str, batches: Iterable[pa.RecordBatch], work: Callable[[Any], Any]
) -> Iterator[pa.RecordBatch]:
    """Do the work of the lane whose number stands in each row, and answer with its report (task, once per lane).

    `lanes` is the pickled tuple of what the lanes are to do, `build` the driver's twinlog.  A worker with another build
    does not unpickle or write anything; it declines.
    """
    if difference := other_build(build):
        yield answer(NOT_ITS_LANE, difference)
        return
    specs = dict(enumerate(pickle.loads(lanes)))
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield answer(number, to_json(work(specs[number])))


def copy_lanes(lanes: bytes, build: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy lanes (LaneSpec).  An attempt other than the first writes nothing and answers "fence-again"."""
    return run_lanes(lanes, build, batches, _copy)


def _copy(spec: LaneSpec) -> LaneReport:
    logging.basicConfig()
    logging.getLogger("twinlog").setLevel(spec.log_level)  # a worker is used again
    doubt = doubt_about_this_task()
    return LaneReport(spec.lane, LaneOutcome.FENCE_AGAIN, (), error=doubt) if doubt else copy_lane(spec)


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
