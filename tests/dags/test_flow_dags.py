"""The Dags of a configuration, in `dags/` and in a file of a user's own."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.airflow

THREE_FLOWS = """\
clusters = A, B, C
A.bootstrap.servers = localhost:9092
B.bootstrap.servers = localhost:9093
C.bootstrap.servers = localhost:9094
A->B.enabled = true
B->C.enabled = true
A->C.enabled = true
"""

OWN_FILE = """\
from twinlog.airflow import flow_dags

globals().update(flow_dags(prefix="dr_"))
"""


def test_three_flows_are_twenty_dags_at_most(bag_of) -> None:
    """Ways home by a flow of their own included; each Dag is found once."""
    bag = bag_of(THREE_FLOWS)
    assert ({}, 20) == (bag.import_errors, len(bag.dags))


def test_a_flow_that_is_only_observed_has_no_dag_that_changes_its_copy(bag_of) -> None:
    """It has its cycle with the same nine tasks, the gate, and what people start to look, or to fail over."""
    bag = bag_of(
        "clusters = A, B\nA.bootstrap.servers = localhost:9092\nB.bootstrap.servers = localhost:9093\n"
        "A->B.enabled = true\nA->B.twinlog.copied.by = mirrormaker2\n"
    )
    assert {} == bag.import_errors
    by_hand = {"translate_group", "drill", "failover"}
    assert {"replicate__A__B", "failover_readiness__A__B", *by_hand} == set(bag.dags)
    assert 9 == len(bag.dags["replicate__A__B"].tasks)


def test_what_hands_start_needs_no_unpausing_and_names_its_flow(bag_of) -> None:
    """On the day it is needed nobody has to remember it; with several flows none is taken for granted."""
    dags = {dag_id: dag for dag_id, dag in bag_of(THREE_FLOWS).dags.items() if "__" not in dag_id}
    assert ["drill", "failback", "failover", "rebuild", "translate_group"] == sorted(dags)
    assert {(False, False)} == {
        (it.timetable.can_be_scheduled, it.is_paused_upon_creation) for it in dags.values()
    }
    fields = [it.params.get_param("flow") for it in dags.values()]
    assert {False} == {it.has_value for it in fields}
    assert all({"A->B", "B->C", "A->C"} <= set(it.schema["enum"]) for it in fields)


@pytest.mark.parametrize("dag_id", ["failover", "failback", "drill"])
def test_every_task_is_about_the_flow_of_the_form(dag_id: str, bag_of) -> None:
    """And so is the question that a person is asked."""
    dag = bag_of(THREE_FLOWS).dags[dag_id]
    context = {"params": {"flow": "A->B", "home": True}}
    said = set()
    for it in dag.tasks:
        fields = {
            name: getattr(it, name) for name in ("flow", "op_args", "subject") if getattr(it, name, None)
        }
        assert set(fields) <= set(it.template_fields)
        said |= {word for value in fields.values() for word in it.render_template(value, context)}
        said |= {it.render_template(value, context) for value in fields.values() if isinstance(value, str)}
    questions = {
        "failover": {"A->B: promote B?"},
        "failback": {"A->B: bring clients home to A?"},
        "drill": set(),
    }
    assert {"A->B", *questions[dag_id]} <= said
    assert not any("{" in str(it) for it in said)


def test_one_flow_is_chosen_already(dags_of) -> None:
    """There is nothing to choose."""
    one = "clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:2\nA->B.enabled = true\n"
    assert "A->B" == dags_of("rebuild", configuration=one)["rebuild"].params["flow"]


def test_a_file_of_ones_own_has_the_same_with_a_prefix(bag_of, tmp_path) -> None:
    """In three lines."""
    shipped = set(bag_of(THREE_FLOWS).dags)
    (tmp_path / "own.py").write_text(OWN_FILE)
    own = type(bag_of(THREE_FLOWS))(dag_folder=tmp_path / "own.py")
    assert ({}, {f"dr_{dag_id}" for dag_id in shipped}) == (own.import_errors, set(own.dags))


def test_a_tasks_process_builds_its_own_dag_alone(bag_of, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hundred flows a task would wait for five hundred Dags."""
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "audit__A__C")  # what get_parsing_context() reads
    assert ["audit__A__C"] == list(bag_of(THREE_FLOWS).dags)


def test_without_a_configuration_there_is_one_line_and_no_dag(
    bag_of, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not Dags for clusters of this machine."""
    bag: Any = bag_of(THREE_FLOWS)
    monkeypatch.delenv("TWINLOG_CONFIG")
    empty = type(bag)(dag_folder=bag.dag_folder)
    assert {} == empty.dags
    (error,) = empty.import_errors.values()
    assert (
        "\ntwinlog.errors.ConfigError: TWINLOG_CONFIG names no file; set it to your mm2.properties" in error
    )
