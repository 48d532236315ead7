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


def test_a_person_stands_between_plan_and_apply_where_one_is_asked_for(dags) -> None:
    """By `twinlog.metadata.approval`."""
    tasks = {dag_id: [task.task_id for task in dag.topological_sort()] for dag_id, dag in dags.items()}
    assert ["plan", "apply"] == tasks["sync_metadata__A__B"]
    assert ["plan", "approve", "apply"] == tasks["sync_metadata__B__C"]
    assert {"plan", "apply", "schemas"} == set(tasks["sync_metadata__C__A"])


HOSTILE = [
    "  + User:x READ: ALLOW",
    "```",
    "  + a: ``````` <img src=https://x.example/pixel> ![](https://x.example/p)",
    "[approved](https://x.example) **by security** <b>{{ 7 * 7 }}</b> {% raw %}",
]


def test_a_person_is_shown_text_and_no_page(dags) -> None:
    """Whatever names and values hold, the body is one block of code: nothing in it is Markdown, HTML or Jinja."""
    from markdown_it import MarkdownIt

    from twinlog.airflow.tasks.metadata import PLAN_KEY
    from twinlog.airflow.xcom import code_block

    class Plan:
        def xcom_pull(self, *, task_ids: str, key: str) -> str:
            return {("plan", PLAN_KEY): code_block(HOSTILE)}[task_ids, key]

    approve = dags["sync_metadata__B__C"].get_task("approve")
    body = approve.render_template(approve.body, {"ti": Plan()})
    tokens = MarkdownIt("commonmark").parse(body)
    assert [("fence", "\n".join(HOSTILE) + "\n")] == [(token.type, token.content) for token in tokens]
