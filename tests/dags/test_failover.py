"""The failover Dag as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def dag(dags_of):
    """The failover Dag."""
    (found,) = dags_of("failover").values()
    return found


def test_the_form_names_flow_and_mode(dag) -> None:
    """Flows that only bring clients home can be failed over, too."""
    assert {"flow": None, "mode": "planned", "dry_run": False, "reason": "", "seen": ""} == dag.params.dump()
    flows = ["us-east->B", "B->C", "B.home->us-east", "C.home->B"]
    assert flows == dag.params.get_param("flow").schema["enum"]


def test_reason_and_seen_may_stay_empty(dag) -> None:
    """The form stars as required what may not be null."""
    kinds = [dag.params.get_param(name).schema["type"] for name in ("reason", "seen")]
    assert [["string", "null"]] * 2 == kinds


def test_a_person_is_asked_after_the_facts_and_before_the_promotion(dag) -> None:
    """Nothing is promoted on another way; the report comes whether or not there was a promotion."""
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
    assert ["twinlog failover"] == [it.name for it in dag.get_task("report").outlets]


def test_the_form_refuses_a_mode_that_is_none(dag) -> None:
    """The REST API answers 400 for the same reason."""
    from airflow.sdk.exceptions import ParamValidationError

    with pytest.raises(ParamValidationError):
        dag.params["mode"] = "quick"
