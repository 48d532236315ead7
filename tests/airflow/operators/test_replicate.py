"""The operators of users' own Dags: what they ask for, how they retry, and which errors they end with."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from twinlog.errors import TerminalError, TransientError, UsageError

pytestmark = pytest.mark.airflow


def passed(name: str, severity: str) -> SimpleNamespace:
    return SimpleNamespace(name=name, severity=severity, message=f"{name} failed")


def concluded(*checks: SimpleNamespace, error: str = "", transient: bool = False) -> SimpleNamespace:
    return SimpleNamespace(failed_checks=checks, groups=SimpleNamespace(error=error, transient=transient))


class TestWanting:
    def test_warnings_fail_no_task(self) -> None:
        """They are in the log and in the report."""
        from twinlog.airflow.operators.replicate import wanting

        assert None is wanting(concluded(passed("heartbeat-age", "warning")))

    def test_a_critical_check_needs_a_person(self) -> None:
        """It comes before what became of the groups."""
        from twinlog.airflow.operators.replicate import wanting

        error = wanting(concluded(passed("counts", "critical"), error="a map"))
        assert isinstance(error, TerminalError)
        assert ("validation", "counts: counts failed") == (error.code, error.message)

    @pytest.mark.parametrize(("transient", "kind"), [(True, TransientError), (False, TerminalError)])
    def test_groups_are_tried_again_if_that_may_help(self, transient, kind) -> None:
        """The kind of error is that of the step."""
        from twinlog.airflow.operators.replicate import wanting

        assert kind is type(wanting(concluded(error="away", transient=transient)))


def test_a_topic_without_a_place_fails_the_task() -> None:
    """By name, with the reason."""
    from twinlog.airflow.operators.replicate import not_placed

    refusal = SimpleNamespace(code="refused", name="B.orders", message="no CREATE", hint="")
    synced = SimpleNamespace(problems=(), refused=(refusal,))
    error = not_placed(SimpleNamespace(synced=synced))
    assert "1 topics are not copied: B.orders: no CREATE" == error.message
    assert None is not_placed(SimpleNamespace(synced=SimpleNamespace(problems=(), refused=())))


class TestArguments:
    def test_errors_decide_about_retries(self) -> None:
        """Unless the Dag or the task says otherwise."""
        from airflow.sdk import DAG

        from twinlog.airflow.operators import AuditOperator, ReplicateOperator
        from twinlog.airflow.retries import RETRIES

        with DAG("own", schedule=None, default_args={"retries": 7}):
            by_dag = ReplicateOperator(task_id="a", flow="A->B")
            by_task = AuditOperator(task_id="b", flow="A->B", retries=0)
        alone = ReplicateOperator(task_id="c", flow="A->B")
        assert [7, 0, 2] == [it.retries for it in (by_dag, by_task, alone)]
        assert [RETRIES["retry_policy"]] * 3 == [it.retry_policy for it in (by_dag, by_task, alone)]

    def test_the_asset_of_the_target_is_an_outlet(self) -> None:
        """Beside those of the user; Airflow cannot know it of a template."""
        from airflow.sdk import Asset

        from twinlog.airflow.operators import ReplicateOperator
        from twinlog.airflow.sensors import FailoverReadinessSensor

        own = Asset("mine")
        tasks = (
            ReplicateOperator(task_id="a", flow="A->B", outlets=[own]),
            ReplicateOperator(task_id="b", flow="{{ params.flow }}"),
            FailoverReadinessSensor(task_id="c", flow="A->B"),
        )
        assert [["mine", "twinlog B"], [], ["twinlog B readiness"]] == [
            [it.name for it in task.outlets] for task in tasks
        ]

    def test_arguments_may_be_results_of_other_tasks(self) -> None:
        """They are known when the task runs."""
        from airflow.sdk import DAG, task

        from twinlog.airflow.operators import AuditOperator, ReplicateOperator
        from twinlog.airflow.sensors import FailoverReadinessSensor

        with DAG("own", schedule=None) as dag:

            @task
            def choose() -> str:
                return "A->B"

            chosen = choose()
            ReplicateOperator(task_id="a", flow=chosen, topics=chosen)
            AuditOperator(task_id="b", flow=chosen, topics=chosen)
            FailoverReadinessSensor(task_id="c", flow=chosen)
        assert {"a", "b", "c"} == dag.get_task("choose").downstream_task_ids

    def test_topics_are_a_list(self) -> None:
        """A text would be taken for its letters, and an empty list for every topic."""
        from airflow.sdk.exceptions import AirflowSkipException

        from twinlog.airflow.cycle import source_topics

        assert (None, ("a", "b")) == (source_topics(None), source_topics(["a", "b"]))
        with pytest.raises(UsageError, match="is a text"):
            source_topics("orders")
        with pytest.raises(AirflowSkipException, match="empty list"):
            source_topics([])


def test_a_try_has_a_name_of_its_own_for_the_fence() -> None:
    """Two tasks of one run are two drivers, and so are two tries."""
    from twinlog.airflow.operators.replicate import _driver

    ti = {"dag_id": "own", "run_id": "r", "task_id": "t", "try_number": 2}
    assert ["own/t/r/2", "own/t[3]/r/2"] == [
        _driver(SimpleNamespace(**ti, map_index=index)) for index in (-1, 3)
    ]


def test_an_unknown_flow_is_one_line(tmp_path, monkeypatch) -> None:
    """With the flows that there are."""
    from twinlog.airflow.flows import CONFIG_VARIABLE
    from twinlog.airflow.operators import ReplicateOperator

    file = tmp_path / "mm2.properties"
    file.write_text("clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n")
    monkeypatch.setenv(CONFIG_VARIABLE, str(file))
    with pytest.raises(UsageError) as error:
        ReplicateOperator(task_id="a", flow="A->C").settings()
    assert f"{file} has no flow A->C; its enabled flows are: A->B" == str(error.value)
    with pytest.raises(UsageError, match=r"flow B->A of .* is not enabled"):
        ReplicateOperator(task_id="a", flow="B->A").settings()
