"""The one row in which the task of a lane answers: its number, and its report as JSON."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa

from twinlog.spark.build import refuse_build

SCHEMA: Final = "lane int, report string"
_ARROW_SCHEMA: Final = pa.schema([("lane", pa.int32()), ("report", pa.string())])


NOT_ITS_LANE: Final = -1
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


def decline(difference: str) -> pa.RecordBatch:
    """Make the row of a worker that runs a twinlog other than the driver's."""
    return answer(NOT_ITS_LANE, difference)


def reports(rows: Iterable[Any]) -> list[str]:
    """Return the reports of a job's rows, as JSON (driver).  Raises TerminalError if a worker declined."""
    given = [(row["lane"], row["report"]) for row in rows]
    for lane, report in given:
        if lane == NOT_ITS_LANE:
            raise refuse_build(json.loads(report))
    return [report for _, report in given]
