from pathlib import Path

import pytest

from twinlog.airflow.secrets import RememberedConnections, ask_airflow
from twinlog.config.file.providers import LookupFailedError, stand_in
from twinlog.config.flow.load import load
from twinlog.config.security.connection import HANDED_OVER, handed_over
from twinlog.errors import TransientError

KAFKA_B = (
    '{"conn_type": "kafka", "login": "repl", "password": "s3cret", "extra": {"sasl.mechanism": "PLAIN"}}'
)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_B", KAFKA_B)


@pytest.mark.airflow
@pytest.mark.usefixtures("connection")
@pytest.mark.parametrize(
    ("field", "expected"), [("password", "s3cret"), ("login", "repl"), ("sasl.mechanism", "PLAIN")]
)
def test_field_of_a_connection(field: str, expected: str) -> None:
    """Fields have Airflow's names; anything else is a key of the extra."""
    assert expected == ask_airflow("kafka_b", field)


@pytest.mark.airflow
@pytest.mark.usefixtures("connection")
def test_missing_field_is_named_and_nothing_else_is() -> None:
    """The message names connection and field, and shows no value of it."""
    with pytest.raises(LookupFailedError) as failure:
        ask_airflow("kafka_b", "token")

    assert str(failure.value) == "Airflow's connection kafka_b has no token"


@pytest.mark.airflow
def test_a_connection_that_is_not_there_may_come_back(tmp_path: Path) -> None:
    """Airflow says of a secrets back end that is away that there is no such connection: the task is tried again."""
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = A\nA.bootstrap.servers = ${airflow:kafka_away:host}:9092\n")

    with pytest.raises(TransientError, match="no connection kafka_away, or its secrets back end"):
        load(file, airflow=ask_airflow)


@pytest.mark.airflow
@pytest.mark.usefixtures("connection")
def test_job_is_handed_what_its_task_looked_up() -> None:
    """spark-submit's process cannot ask Airflow: it gets the answers in its environment."""
    connections = RememberedConnections()
    connections("kafka_b", "password")

    look_up = handed_over(connections.environment())

    assert look_up is not None
    assert look_up("kafka_b", "password") == "s3cret"
    with pytest.raises(LookupFailedError, match="did not look up kafka_b login"):
        look_up("kafka_b", "login")


def test_nothing_is_handed_over_when_nothing_was_asked() -> None:
    """Most files name no connection."""
    assert RememberedConnections().environment() == {}
    assert handed_over({}) is None
    assert handed_over({HANDED_OVER: "{}"}) is not None


def test_dag_file_asks_nobody() -> None:
    """Parsing must not ask the database for connections."""
    assert "known-in-tasks-only" == stand_in("kafka_b", "password")
