"""What the tasks of all of twinlog's Dags have in common."""

from __future__ import annotations

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
