"""What spark-submit is started with."""

import pytest

pytestmark = pytest.mark.airflow


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)


@pytest.mark.parametrize(
    ("connection", "master", "address"),
    [
        (None, "local[2]", "127.0.0.1"),
        (None, "spark://spark:7077", None),
        ("spark://spark:7077", "local[2]", None),
    ],
)
def test_a_local_job_listens_to_this_machine_alone(
    monkeypatch: pytest.MonkeyPatch, connection: str | None, master: str, address: str | None
) -> None:
    """As one of the command line does; the master is that of Airflow's connection, if there is one."""
    from twinlog.airflow.operators.submit import StepSubmitHook

    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_TWINLOG_SPARK", connection)
    hook = StepSubmitHook(master=master, name="twinlog", arguments=[])
    hook._build_spark_submit_command("job.py")

    assert address == hook._env.get("SPARK_LOCAL_IP")
