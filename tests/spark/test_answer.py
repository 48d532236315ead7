"""The row a task answers with."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from twinlog.spark.lane_task import answer


@pytest.mark.parametrize("report", [{}, {"error": "größer"}, {"ranges": [1, 2], "text": "x" * 100_000}])
def test_a_row_holds_the_lane_and_its_report(report: object) -> None:
    """As pyarrow makes it of Python lists."""
    expected = pa.RecordBatch.from_pydict(
        {"lane": [7], "report": [json.dumps(report)]},
        schema=pa.schema([("lane", pa.int32()), ("report", pa.string())]),
    )
    made = answer(7, report)
    made.validate(full=True)
    assert expected.equals(made)


def test_a_worker_needs_no_pandas_to_answer() -> None:
    """Importing it would cost more than most cycles."""
    code = (
        "import sys, twinlog.spark.lane_task; from twinlog.spark.lane_task import answer;"
        "answer(1, {}).column(0).to_pylist(); print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False" == done.stdout.strip()
