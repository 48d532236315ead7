"""The failback Dags as Airflow's Dag processor sees them."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dags(dags_of):
    """The failback Dags, by their ids."""
    return dags_of("failback.py")


def test_one_dag_per_enabled_flow(dags) -> None:
    """Nothing starts it but a person, one run at a time, with a form; as it stands the form only saves."""
    assert {"failback__us_east__B", "failback__B__C"} == set(dags)
    dag = dags["failback__us_east__B"]
    assert (1, "NullTimetable") == (dag.max_active_runs, type(dag.timetable).__name__)
    assert {"home": False, "tail": None, "dry_run": False} == dag.params.dump()


def test_a_person_stands_between_preview_and_all_else(dags) -> None:
    """Nothing is exported or promoted on another way; the report comes whatever was done."""
    dag = dags["failback__B__C"]
    assert {"preview": set(), "approve": {"preview"}, "save": {"approve"}, "home": {"approve"}} == {
        name: dag.get_task(name).upstream_task_ids for name in ("preview", "approve", "save", "home")
    }
    report = dag.get_task("report")
    assert ({"save", "home"}, "none_failed") == (report.upstream_task_ids, str(report.trigger_rule.value))
    assert ["twinlog B->C failback"] == [it.name for it in report.outlets]
    assert "asset `twinlog://B/failback/C`" in dag.doc_md


@pytest.mark.parametrize("conf", [{"tail": "drop"}, {"home": "yes"}])
def test_the_form_refuses_what_makes_no_sense(dags, conf) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    for name, value in conf.items():
        with pytest.raises(ParamValidationError):
            dags["failback__B__C"].params[name] = value
