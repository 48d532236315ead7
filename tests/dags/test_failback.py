"""The failback Dag as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dag(dags_of):
    """The failback Dag."""
    (found,) = dags_of("failback").values()
    return found


def test_the_form_only_saves_as_it_stands(dag) -> None:
    """Flows that only bring clients home are none of its flows."""
    assert {"flow": None, "home": False, "tail": None, "dry_run": False} == dag.params.dump()
    assert ["us-east->B", "B->C"] == dag.params.get_param("flow").schema["enum"]


def test_a_person_is_asked_after_the_facts_and_before_the_promotion(dag) -> None:
    """Nothing is saved or promoted on another way; the report comes whatever was done."""
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
    assert ["twinlog failback"] == [it.name for it in dag.get_task("report").outlets]


@pytest.mark.parametrize("conf", [{"tail": "drop"}, {"home": "yes"}])
def test_the_form_refuses_what_makes_no_sense(dag, conf) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    for name, value in conf.items():
        with pytest.raises(ParamValidationError):
            dag.params[name] = value
