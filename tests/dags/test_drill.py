"""The Dag file of the drills as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dags(dags_of):
    """The Dags of this file."""
    return dags_of("drill.py", "us-east->B.twinlog.drill.schedule = 30 4 1 * *")


def test_one_dag_per_enabled_flow(dags) -> None:
    """On its own schedule, one run at a time; without one it is never run by itself."""
    assert {"drill__us_east__B", "drill__B__C"} == set(dags)
    dag = dags["drill__us_east__B"]
    assert "30 4 1 * *" in repr(dag.timetable)
    assert (1, False) == (dag.max_active_runs, dag.catchup)
    assert not dags["drill__B__C"].timetable.can_be_scheduled


def test_a_run_drills_and_tells_of_it(dags) -> None:
    """One task, whose failure sends an alarm, also if its worker has died; its event says that a drill passed."""
    dag = dags["drill__B__C"]
    (task,) = dag.tasks
    assert ("drill", ["twinlog://C/drill/B"]) == (task.task_id, [it.uri for it in task.outlets])
    assert ["DrillAlert"] == [type(it).__name__ for it in task.on_failure_callback]
    assert "an event of the asset `twinlog://C/drill/B`" in dag.doc_md


@pytest.mark.parametrize("conf", [{"groups": ""}, {"most": 0}, {"most": "all"}])
def test_the_form_refuses_what_makes_no_sense(dags, conf) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    params = dags["drill__B__C"].params
    assert {"groups": ".*", "most": 20, "mode": "planned"} == params.dump()
    for name, value in conf.items():
        with pytest.raises(ParamValidationError):
            params[name] = value
