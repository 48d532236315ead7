"""A step of a flow as a task: what it leaves in XCom, and how it ends when it is told to."""

import re
import signal
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.errors import TerminalError, TransientError, TwinlogError
from twinlog.spark.request import CopyRequest

pytestmark = pytest.mark.airflow


REQUEST = SimpleNamespace(step="copy")


def failure(outcome: dict[str, Any]) -> TerminalError | None:
    return TerminalError("no") if outcome["n"] < 0 else None


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch):
    from twinlog.airflow.operators import spark_job

    monkeypatch.setattr(spark_job, "CANCEL_SECONDS", 0.1)
    step = spark_job.Step(lambda flow, context: REQUEST, lambda outcome: {"cut": outcome["n"]}, failure)
    return spark_job.SparkStepOperator(task_id="copy", step=step, flow="A->B")


class Server:
    """Jobs on a Connect server; one that is `stuck` does not say that it has cancelled them."""

    def __init__(self, *, stuck: bool = False) -> None:
        self.cancelled = Event()
        self._stuck = stuck

    def cancel(self) -> None:
        self.cancelled.set()
        if self._stuck:
            Event().wait(20)


@pytest.mark.parametrize("stuck", [False, True])
def test_a_job_on_a_connect_server_ends_with_its_task(job, stuck: bool) -> None:
    """It would write on by itself; and no driver is left that could fence and begin anew."""
    server = Server(stuck=stuck)
    job.started(server)

    with pytest.raises(SystemExit) as ended:
        job.on_kill()

    assert (128 + signal.SIGTERM, True) == (ended.value.code, server.cancelled.is_set())


def test_a_task_without_a_job_yet_ends(job) -> None:
    """Nothing is begun after it was told to end."""
    with pytest.raises(SystemExit):
        job.on_kill()


def test_spark_submit_ends_with_its_task(job) -> None:
    """Its end is seen by who waits for it."""

    class Hook:
        killed = False

        def on_kill(self) -> None:
            self.killed = True

    job._hook = Hook()
    job.on_kill()

    assert job._hook.killed


class TestExecute:
    """`outcome` is what the job printed."""

    @staticmethod
    def executed(job, monkeypatch, outcome: Any) -> tuple[Any, dict[str, Any], TwinlogError | None]:
        """Return the task's result, its pushed XCom, and its error."""
        pushed: dict[str, Any] = {}
        flow = SimpleNamespace(copy=SimpleNamespace(spark_master="local[1]"))
        monkeypatch.setattr(job, "settings", lambda: flow)
        monkeypatch.setattr(job, "_submit", lambda request, master: outcome)
        context = {"ti": SimpleNamespace(xcom_push=pushed.__setitem__)}
        try:
            return job.execute(context), pushed, None
        except TwinlogError as error:
            return None, pushed, error

    def test_a_result_is_cut_and_returned(self, job, monkeypatch) -> None:
        """Airflow puts it into XCom."""
        assert ({"cut": 1}, {}, None) == self.executed(job, monkeypatch, {"n": 1})

    def test_a_result_is_in_the_log(self, job, monkeypatch, capsys) -> None:
        """The log says what the task did, also if it failed."""
        self.executed(job, monkeypatch, {"n": 1})
        self.executed(job, monkeypatch, {"n": -1})
        assert ["cut=1", "cut=-1"] == re.findall("cut=-?1", capsys.readouterr().out)

    def test_a_result_that_is_a_failure_is_in_xcom_too(self, job, monkeypatch) -> None:
        """Tasks that report the run read it."""
        result, pushed, error = self.executed(job, monkeypatch, {"n": -1})
        assert (None, {"return_value": {"cut": -1}}, TerminalError) == (result, pushed, type(error))

    def test_an_error_of_the_job_is_in_xcom_as_it_is(self, job, monkeypatch) -> None:
        """There is no result to be cut."""
        told = {"error": {"kind": "TransientError", "code": "c", "message": "m"}}
        _, pushed, error = self.executed(job, monkeypatch, told)
        assert ({"return_value": told}, TransientError, "c") == (pushed, type(error), error.code)

    def test_a_job_that_died_leaves_nothing(self, job, monkeypatch) -> None:
        """Its output is in the task's log."""
        _, pushed, error = self.executed(job, monkeypatch, None)
        assert ({}, TransientError) == (pushed, type(error))


def test_spark_without_java_is_no_error_that_goes_away(job, monkeypatch, tmp_path) -> None:
    """Airflow would try it twice more, and say that a job ended without a result."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(TerminalError, match=f"Spark finds no Java: JAVA_HOME is {tmp_path}") as refused:
        job._submit(CopyRequest(config=tmp_path / "mm2.properties", flow="A->B", run_id="r"), "local[1]")
    assert "java" == refused.value.code
