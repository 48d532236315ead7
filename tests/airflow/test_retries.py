import pytest

from twinlog.errors import (
    ClusterRefused,
    ClusterUnreachable,
    ConfigError,
    FencedError,
    TerminalError,
    TransientError,
    TwinlogError,
)

pytestmark = pytest.mark.airflow


@pytest.mark.parametrize("error", [TransientError, ClusterUnreachable, FencedError])
def test_transient_error_is_tried_again(error: type[TwinlogError]) -> None:
    """What may go away by itself is worth another try, after a pause."""
    from airflow.sdk import RetryAction

    from twinlog.airflow.retries import RETRIES

    decision = RETRIES["retry_policy"].evaluate(error("no answer"), try_number=1, max_tries=2)

    assert RetryAction.RETRY == decision.action
    assert decision.retry_delay is not None


@pytest.mark.parametrize("error", [TerminalError, ClusterRefused, ConfigError])
def test_terminal_error_fails_at_once(error: type[TwinlogError]) -> None:
    """What will not go away by itself is not repeated."""
    from airflow.sdk import RetryAction

    from twinlog.airflow.retries import RETRIES

    assert RetryAction.FAIL == RETRIES["retry_policy"].evaluate(error("no"), try_number=1, max_tries=2).action


def test_policy_survives_serialization() -> None:
    """The scheduler stores Dags as JSON: the table must come back as it was."""
    from airflow.sdk import ExceptionRetryPolicy

    from twinlog.airflow.retries import RETRIES

    again = ExceptionRetryPolicy.deserialize(RETRIES["retry_policy"].serialize())

    assert RETRIES["retry_policy"].serialize() == again.serialize()


def test_other_errors_follow_the_tasks_own_retries() -> None:
    """A mistake of ours is neither transient nor terminal."""
    from airflow.sdk import RetryAction

    from twinlog.airflow.retries import RETRIES

    assert (
        RetryAction.DEFAULT
        == RETRIES["retry_policy"].evaluate(KeyError("x"), try_number=1, max_tries=2).action
    )


def test_an_error_of_ours_is_one_line_of_a_tasks_log() -> None:
    """Without frames, for its line says what to do, in Airflow's words; a mistake of twinlog's keeps them."""
    import structlog

    from twinlog.airflow.versions import errors_in_one_line

    before = structlog.get_config()
    lines: list[dict] = []

    def keep(_logger: object, _method: str, event: dict) -> dict:
        lines.append(event)
        raise structlog.DropEvent

    structlog.configure(processors=[keep])
    try:
        errors_in_one_line()
        errors_in_one_line()
        for error in (TerminalError("no topic is named", hint="`twinlog groups` lists"), ValueError("odd")):
            try:
                raise error
            except (TerminalError, ValueError):
                structlog.get_logger("task").exception("Task failed with exception")
    finally:
        structlog.configure(**before)
    ours, odd = lines
    assert ("no topic is named; the flow's page lists", False) == (ours["event"], "exc_info" in ours)
    assert ("Task failed with exception", True) == (odd["event"], odd["exc_info"])
