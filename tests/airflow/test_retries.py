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
