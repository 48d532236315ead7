"""The metadata Dags as Airflow's Dag processor sees them."""

import datetime as dt

import pytest

pytestmark = pytest.mark.airflow

CONFIGURATION = """\
clusters = A, B, C
A.bootstrap.servers = localhost:9092
B.bootstrap.servers = localhost:9093
C.bootstrap.servers = localhost:9094
A->B.enabled = true
A->B.sync.topic.acls.interval.seconds = 120
B->C.enabled = true
B->C.twinlog.metadata.approval = true
C->A.enabled = true
C->A.sync.topic.acls.enabled = false
C->A.sync.topic.configs.enabled = false
A.schema.registry.url = http://localhost:8081
C.schema.registry.url = http://localhost:8082
C->A.twinlog.schemas.subjects = orders-.*
"""


@pytest.fixture
def dags(dags_of):
    """The metadata Dags, by their ids."""
    return dags_of("sync_metadata", configuration=CONFIGURATION)


def test_one_dag_per_enabled_flow(dags) -> None:
    """A flow that syncs nothing has one to be triggered by hand."""
    assert ["sync_metadata__A__B", "sync_metadata__B__C", "sync_metadata__C__A"] == sorted(dags)


def test_schedules_are_mm2s_intervals(dags) -> None:
    """The shorter of the two; where both are off, that of configs if schemas are copied."""
    every = [getattr(dags[dag_id].timetable, "delta", None) for dag_id in sorted(dags)]
    assert [dt.timedelta(minutes=2), dt.timedelta(minutes=10), dt.timedelta(minutes=10)] == every


def test_a_dag_only_plans_where_a_person_applies(dags) -> None:
    """By `twinlog.metadata.approval`."""
    tasks = {dag_id: [task.task_id for task in dag.topological_sort()] for dag_id, dag in dags.items()}
    assert ["plan", "apply"] == tasks["sync_metadata__A__B"]
    assert ["plan"] == tasks["sync_metadata__B__C"]
    assert {"plan", "apply", "schemas"} == set(tasks["sync_metadata__C__A"])
