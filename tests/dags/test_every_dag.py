"""What the tasks of all of twinlog's Dags have in common."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

FILES = sorted(path.name for path in (Path(__file__).parents[2] / "dags").glob("*.py"))


@pytest.mark.parametrize("script", FILES)
def test_a_run_with_an_unknown_field_does_nothing(dags_of, script: str) -> None:
    """Every task looks at what the run was given, before its work."""
    from twinlog.airflow.form import refuse_unknown_fields

    tasks = [task for dag in dags_of(script).values() for task in dag.tasks]
    assert tasks
    assert {refuse_unknown_fields} == {task._pre_execute_hook for task in tasks}


@pytest.mark.parametrize("script", FILES)
def test_no_result_is_written_to_the_log_twice(dags_of, script: str) -> None:
    """The log has it line by line; Airflow's own line would be up to 48 KiB long."""
    tasks = [task for dag in dags_of(script).values() for task in dag.tasks]
    assert {False} >= {task.show_return_value_in_logs for task in tasks if hasattr(task, "python_callable")}


def test_parsing_imports_nothing_heavy(dags_of, repository: Path) -> None:
    """Dag files are parsed every few seconds."""
    dags_of("replicate.py")  # a file of two flows is configured now
    program = """
import runpy, sys
heavy = {"pyspark", "great_expectations", "pandas", "confluent_kafka", "pyarrow", "numpy"}
for file in sys.argv[1:]:
    runpy.run_path(f"dags/{file}")
    if found := heavy.intersection(sys.modules):
        sys.exit(f"{file} imports {found}")
"""
    command = [sys.executable, "-c", program, *FILES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=repository)
    assert 0 == done.returncode, done.stderr
