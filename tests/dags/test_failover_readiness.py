"""The Dag file of the readiness gate as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dags(dags_of):
    """The Dags of this file."""
    return dags_of("failover_readiness", "us-east->B.twinlog.gate.schedule = 30 */4 * * *")


def test_one_dag_per_enabled_flow(dags) -> None:
    """On its own schedule, one run at a time, with a form."""
    assert {"failover_readiness__us_east__B", "failover_readiness__B__C"} == set(dags)
    dag = dags["failover_readiness__us_east__B"]
    assert "30 */4 * * *" in repr(dag.timetable)
    assert (1, False) == (dag.max_active_runs, dag.catchup)
    assert {"mode": "planned", "producers_stopped": False, "canary": False} == dag.params.dump()


def test_a_run_asks_the_gate_and_tells_of_it(dags) -> None:
    """One task; its asset event says that the target is ready, and the Dag's page that there is none otherwise."""
    dag = dags["failover_readiness__B__C"]
    (task,) = dag.tasks
    assert "a yes sends an event of the asset\n`twinlog://C/readiness`" in dag.doc_md
    assert ("gate", ["twinlog://C/readiness"]) == (task.task_id, [it.uri for it in task.outlets])
