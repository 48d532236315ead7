"""Spark's error of a worker that cannot run twinlog becomes one clear line that ends the run."""

from __future__ import annotations

import pytest

from twinlog.spark.runner import refusal

NO_TWINLOG = """\
Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times: org.apache.spark.SparkException:
Error from python worker:
  python3.11: Error while finding module specification for 'twinlog.spark.daemon' (ModuleNotFoundError: No module\
 named 'twinlog')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from twinlog.spark.daemon's stdout
"""
OTHER_PYTHON = """\
Error from python worker:
  twinlog: this worker has Python 3.12 on linux (/bin/python3.12), its archive is for Python 3.11 on linux
PYTHONPATH was:
"""
MISMATCH = """\
PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11,\
 PySpark cannot run with different minor versions.
Please check environment variables.
"""
NO_PYTHON = 'java.io.IOException: Cannot run program "python3.11": error=2, No such file or directory'


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (NO_TWINLOG, "the executors' Python has no module twinlog"),
        (
            OTHER_PYTHON,
            "this worker has Python 3.12 on linux (/bin/python3.12), its archive is for Python 3.11 on linux",
        ),
        (MISMATCH, "Python in worker has different version: 3.12 than that in driver: 3.11"),
        (NO_PYTHON, "the executors' machines have no python3.11"),
    ],
)
def test_a_python_that_cannot_is_named(error, message):
    """With what to do, and a code of its own."""
    found = refusal(error)
    assert found is not None
    assert (message, "executor-python") == (found.message, found.code)
    assert found.hint


@pytest.mark.parametrize(
    "error",
    [
        "",
        "Job 0 cancelled",
        "No module named 'numpy'",
        "No module named 'twinlog.newer'",
        "ExecutorLostFailure",
        'java.io.IOException: Cannot run program "python3.11": error=12, Cannot allocate memory',
    ],
)
def test_other_errors_are_not_refusals(error):
    """They may go away: the driver fences again."""
    assert refusal(error) is None
