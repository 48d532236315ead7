"""The failover Dags as Airflow's Dag processor sees them."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dags(dags_of):
    """The failover Dags, by their ids."""
    return dags_of("failover.py")


def test_one_dag_per_enabled_flow(dags) -> None:
    """Nothing starts it but a person, one run at a time, with a form."""
    homeward = {"failover__B_home__us_east", "failover__C_home__B"}
    assert {"failover__us_east__B", "failover__B__C", *homeward} == set(dags)
    dag = dags["failover__us_east__B"]
    assert (1, "NullTimetable") == (dag.max_active_runs, type(dag.timetable).__name__)
    assert {"mode": "planned", "dry_run": False} == dag.params.dump()


def test_a_flow_home_is_failed_over_without_its_source_alone(dags) -> None:
    """A planned failover of it is the way home, which has its own Dag."""
    modes = dags["failover__C_home__B"].params.get_param("mode")
    assert ("source-dead", ["source-dead"]) == (modes.value, modes.schema["enum"])


def test_a_person_stands_between_preview_and_failover(dags) -> None:
    """Nothing is promoted on another way; the report comes whether or not there was a promotion."""
    dag = dags["failover__B__C"]
    assert ["preview", "approve", "failover", "report"] == [it.task_id for it in dag.topological_sort()]
    assert {"approve"} == dag.get_task("failover").upstream_task_ids
    assert ("all_success", "none_failed") == tuple(
        str(dag.get_task(name).trigger_rule.value) for name in ("failover", "report")
    )
    assert ["twinlog://C/failover/B"] == [it.uri for it in dag.get_task("report").outlets]


def test_the_form_refuses_a_mode_that_is_none(dags) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dags["failover__B__C"].params["mode"] = "quick"
