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


def test_a_person_is_asked_after_the_facts_and_before_the_promotion(dags) -> None:
    """Nothing is saved or promoted on another way; the report comes whatever was done."""
    dag = dags["failback__B__C"]
    home = [
        "begin",
        "bring_home",
        "fence_producers",
        "drain",
        "groups",
        "audit",
        "gate",
        "approve",
        "promote",
    ]
    behind = ["follow", "switch_clients", "canary"]
    above = dict(zip([*home, *behind], ["preview", *home, *behind[:-1]], strict=True))
    assert {"preview", *home, *behind, "save", "rejected", "report"} == set(dag.task_ids)
    assert {name: {it} for name, it in {**above, "save": "approve"}.items()} == {
        name: dag.get_task(name).upstream_task_ids for name in [*home, *behind, "save"]
    }
    assert {"save", "promote"} == dag.get_task("rejected").upstream_task_ids
    rules = {it.task_id: str(it.trigger_rule.value) for it in dag.tasks}
    expected = {"gate": "none_failed", "rejected": "all_skipped", "report": "none_failed"}
    assert expected == {name: it for name, it in rules.items() if it != "all_success"}
    assert ["twinlog B->C failback"] == [it.name for it in dag.get_task("report").outlets]
    assert "asset `twinlog://B/failback/C`" in dag.doc_md


@pytest.mark.parametrize("conf", [{"tail": "drop"}, {"home": "yes"}])
def test_the_form_refuses_what_makes_no_sense(dags, conf) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    for name, value in conf.items():
        with pytest.raises(ParamValidationError):
            dags["failback__B__C"].params[name] = value
