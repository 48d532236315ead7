"""The rebuild Dag as Airflow's Dag processor sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.airflow

ONE_FLOW = """\
clusters = A, B
A.bootstrap.servers = localhost:9092
B.bootstrap.servers = localhost:9093
A->B.enabled = true
"""


def test_a_flow_has_a_rebuild_that_nobody_schedules(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand only, planned before it is done, and a dry run unless the form says otherwise."""
    from airflow.dag_processing.dagbag import DagBag

    config = tmp_path / "mm2.properties"
    config.write_text(ONE_FLOW)
    monkeypatch.setenv("TWINLOG_CONFIG", str(config))
    bag = DagBag(dag_folder=repository / "dags" / "rebuild.py")
    assert {} == bag.import_errors
    dag = bag.dags["rebuild__A__B"]
    assert (False, ["plan", "do"], True) == (
        dag.timetable.can_be_scheduled,
        [task.task_id for task in dag.topological_sort()],
        dag.params["dry_run"],
    )
