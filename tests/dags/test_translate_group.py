"""The Dag that translates groups, as Airflow's Dag processor sees it."""

import pytest

pytestmark = pytest.mark.airflow

TWO_FLOWS = """\
clusters = A, B
A.bootstrap.servers = localhost:9092
B.bootstrap.servers = localhost:9093
A->B.enabled = true
B->A.enabled = true
"""


@pytest.fixture
def read_dags(bag_of):
    """`read_dags(text)` is the DagBag under a configuration of that text."""
    return bag_of


def test_one_task_with_a_form(read_dags) -> None:
    """Started by hand; the form offers the flows of the file and has a title for everything."""
    bag = read_dags(TWO_FLOWS)

    assert {} == bag.import_errors
    dag = bag.dags["translate_group"]
    assert ["translate"] == [task.task_id for task in dag.tasks]
    assert ["flow", "groups", "pattern", "at"] == list(dag.params)
    assert ["A->B", "B->A"] == dag.params.get_param("flow").schema["enum"]
    assert all(dag.params.get_param(name).schema["title"] for name in dag.params)
    assert "twinlog" == dag.owner
    assert dag.doc_md and all(task.doc_md for task in dag.tasks)


def test_without_a_flow_there_is_no_dag(read_dags) -> None:
    """A file that enables nothing is no error."""
    bag = read_dags("clusters = A, B\nA.bootstrap.servers = x:1\nB.bootstrap.servers = x:2\n")

    assert ({}, {}) == (bag.dags, bag.import_errors)
