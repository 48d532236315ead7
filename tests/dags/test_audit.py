"""The Dag file of the audit as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dags(dags_of):
    """The Dags of this file."""
    return dags_of("audit", "us-east->B.twinlog.audit.schedule = 5 */2 * * *")


def test_one_dag_per_enabled_flow(dags) -> None:
    """On its own schedule, one run at a time."""
    assert {"audit__us_east__B", "audit__B__C"} == set(dags)
    dag = dags["audit__us_east__B"]
    assert "5 */2 * * *" in repr(dag.timetable)
    assert (1, False) == (dag.max_active_runs, dag.catchup)


@pytest.mark.parametrize("conf", [{"topics": "orders"}, {"full": "yes"}])
def test_the_form_refuses_what_makes_no_sense(dags, conf) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    params = dags["audit__B__C"].params
    for name, value in conf.items():
        with pytest.raises(ParamValidationError):
            params[name] = value
