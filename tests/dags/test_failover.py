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


def test_a_person_is_asked_after_the_facts_and_before_the_promotion(dags) -> None:
    """Nothing is promoted on another way; the report comes whether or not there was a promotion."""
    dag = dags["failover__B__C"]
    planned = ["fence_producers", "drain", "groups", "audit"]
    behind = ["switch_clients", "canary", "rejected"]
    tasks = {"preview", "begin", *planned, "loss", "gate", "approve", "promote", *behind, "report"}
    assert tasks == set(dag.task_ids)
    for name, above in zip(
        (*planned, "approve", "promote"), ("begin", *planned[:3], "gate", "approve"), strict=True
    ):
        assert {above} == dag.get_task(name).upstream_task_ids
    assert {"audit", "loss"} == dag.get_task("gate").upstream_task_ids
    rules = {name: str(dag.get_task(name).trigger_rule.value) for name in tasks}
    assert {
        **dict.fromkeys(tasks, "all_success"),
        "gate": "none_failed_min_one_success",
        "rejected": "all_skipped",
        "report": "none_failed",
    } == rules
    assert ["twinlog://C/failover/B"] == [it.uri for it in dag.get_task("report").outlets]


def test_the_form_refuses_a_mode_that_is_none(dags) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dags["failover__B__C"].params["mode"] = "quick"
