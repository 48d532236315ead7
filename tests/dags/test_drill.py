"""The Dag file of the drills as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dags(dags_of):
    """The Dags of this file."""
    return dags_of("drill", "us-east->B.twinlog.drill.schedule = 30 4 1 * *")


def test_a_flow_with_a_schedule_has_a_dag(dags) -> None:
    """One run at a time; any flow is drilled by hand."""
    assert {"drill__us_east__B", "drill"} == set(dags)
    dag = dags["drill__us_east__B"]
    assert "30 4 1 * *" in repr(dag.timetable)
    assert (1, False) == (dag.max_active_runs, dag.catchup)
    assert not dags["drill"].timetable.can_be_scheduled


def test_a_run_drills_and_tells_of_it(dags) -> None:
    """One task, whose failure sends an alarm, also if its worker has died; its event says that a drill passed."""
    for dag_id, flow in (("drill__us_east__B", "us-east->B"), ("drill", "{{ params.flow }}")):
        (task,) = dags[dag_id].tasks
        assert ("drill", ["twinlog drill"]) == (task.task_id, [it.name for it in task.outlets])
        assert [("DrillAlert", flow)] == [(type(it).__name__, it.flow) for it in task.on_failure_callback]


@pytest.mark.parametrize("conf", [{"groups": ""}, {"most": 0}, {"most": "all"}])
def test_the_form_refuses_what_makes_no_sense(dags, conf) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    params = dags["drill__us_east__B"].params
    assert {"groups": ".*", "most": 20, "mode": "planned"} == params.dump()
    for name, value in conf.items():
        with pytest.raises(ParamValidationError):
            params[name] = value
