"""A task of a Spark job that is told to end."""

import signal
from threading import Event

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch):
    from twinlog.airflow.operators import spark_job

    monkeypatch.setattr(spark_job, "CANCEL_SECONDS", 0.1)
    return spark_job.JobOperator(task_id="copy", flow="A->B")


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
