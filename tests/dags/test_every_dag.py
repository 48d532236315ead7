"""What the tasks of all of twinlog's Dags have in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from twinlog.airflow.flows import BY_HAND, OF_A_FLOW

pytestmark = pytest.mark.airflow

KINDS = sorted({*OF_A_FLOW, *BY_HAND})


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_an_unknown_field_does_nothing(dags_of, kind: str) -> None:
    """Every task looks at what the run was given, before its work."""
    from twinlog.airflow.retries import begin

    tasks = [task for dag in dags_of(kind).values() for task in dag.tasks]
    assert tasks
    assert {begin} == {task._pre_execute_hook for task in tasks}


@pytest.mark.parametrize("kind", KINDS)
def test_no_result_is_written_to_the_log_twice(dags_of, kind: str) -> None:
    """The log has it line by line; Airflow's own line would be up to 48 KiB long."""
    tasks = [task for dag in dags_of(kind).values() for task in dag.tasks]
    assert {False} >= {task.show_return_value_in_logs for task in tasks if hasattr(task, "python_callable")}


def test_parsing_imports_nothing_heavy(dags_of, repository: Path) -> None:
    """Dag files are parsed every few seconds."""
    dags_of("replicate")  # a file of two flows is configured now
    program = """
import runpy, sys
heavy = {"pyspark", "great_expectations", "pandas", "confluent_kafka", "pyarrow", "numpy"}
runpy.run_path("dags/twinlog_dags.py")
if found := heavy.intersection(sys.modules):
    sys.exit(f"found {found}")
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=repository)
    assert 0 == done.returncode, done.stderr
