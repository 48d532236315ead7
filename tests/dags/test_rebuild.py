"""The rebuild Dag as Airflow's Dag processor sees it."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.airflow


def test_nobody_schedules_a_rebuild(dags_of) -> None:
    """By hand only, planned before it is done, and a dry run unless the form says otherwise."""
    dag = dags_of("rebuild")["rebuild"]
    assert (False, ["plan", "do"], True) == (
        dag.timetable.can_be_scheduled,
        [task.task_id for task in dag.topological_sort()],
        dag.params["dry_run"],
    )
