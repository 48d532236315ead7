"""What a Spark task does, called with a plain list."""

from __future__ import annotations

import json
import pickle
import re
import socket

import pyarrow as pa
import pytest

from twinlog.config.file.providers import Secret
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import TerminalError
from twinlog.jsonable import to_json
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec, RangeReport, RangeSpec, StateTopics
from twinlog.spark.build import BUILD
from twinlog.spark.lane_task import copy_lanes, doubt_about_this_task, reports
from twinlog.spark.reading_tasks import audit_lanes, parser_of

NOWHERE = ConnectionSettings("A", (("127.0.0.1", 1),), connect_timeout_ms=200)
STATE = StateTopics("o", 1, "m", 1, "l", "MirrorSourceConnector", "A")


def a_lane(lane: int) -> LaneSpec:
    """A lane whose clusters do not answer."""
    ranges = (RangeSpec("t", "id", "A.t", lane, 0, 5),)
    return LaneSpec("A->B", lane, f"x-{lane}", 1, 0, NOWHERE, NOWHERE, STATE, ranges)


def rows(lanes: list[LaneSpec], build: str = BUILD) -> list[LaneReport]:
    """Run the task function over a frame of lane numbers."""
    frame = pa.RecordBatch.from_pydict({"id": list(range(len(lanes)))})
    answers = copy_lanes(pickle.dumps(tuple(lanes)), build, iter([frame]))
    return [
        parser_of(LaneReport)(text) for text in reports(row for batch in answers for row in batch.to_pylist())
    ]


def test_one_answer_for_each_lane() -> None:
    """A cluster that does not answer is a report, not an exception."""
    reports = rows([a_lane(0), a_lane(1)])
    assert [(item.lane, item.state) for item in reports] == [(0, "fence-again"), (1, "fence-again")]
    assert "cannot be reached" in reports[0].error


def test_a_worker_with_another_twinlog_writes_nothing() -> None:
    """Driver and worker must agree on every byte: it says which it runs and where, before it unpickles anything."""
    with pytest.raises(
        TerminalError, match=rf"{socket.gethostname()} runs twinlog {re.escape(BUILD)} .* 0.0.0"
    ):
        rows([a_lane(0)], build="0.0.0")
    frame = pa.RecordBatch.from_pydict({"id": [0]})
    for task in (copy_lanes, audit_lanes):
        (batch,) = task(b"no pickle", "0.1.0+0123456789ab", iter([frame]))
        with pytest.raises(TerminalError, match=r"the driver 0\.1\.0\+0123456789ab") as caught:
            reports(batch.to_pylist())
        assert "other-build" == caught.value.code


def test_outside_spark_there_is_no_doubt() -> None:
    """No task context: a plain call."""
    assert doubt_about_this_task() == ""


def test_a_report_survives_its_row() -> None:
    """To JSON and back, quarantined offsets included."""
    report = LaneReport(
        1,
        LaneOutcome.FAILED,
        (RangeReport("t", "A.t", 0, 5, 9, 7, quarantined=(3, 4), error_code="gap"),),
        2,
        0.1,
    )
    assert parser_of(LaneReport)(json.dumps(to_json(report))) == report


def test_secrets_travel_to_the_task_and_are_not_shown() -> None:
    """Pickled with the lane, masked in every text."""
    secret = Secret("hunter2")
    assert pickle.loads(pickle.dumps(secret)).reveal() == "hunter2"
    assert "hunter2" not in repr(secret) + str(secret) + f"{secret}"
