"""What Kafka's error codes become."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from twinlog.cluster.refusals import Asked, refusal, refused_by
from twinlog.errors import ClusterRefused, ClusterUnreachable, ExitCode
from twinlog.protocol.errors import Code

ASKED = Asked("B", "create", "topic A.orders", "CREATE on topic A.orders")


def test_a_missing_permission_names_the_resource_and_the_acl():
    """Who reads the line knows what to grant on what."""
    error = refusal(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), ASKED)
    assert isinstance(error, ClusterRefused)
    assert "unauthorised" == error.code
    assert "B does not allow this user to create topic A.orders; grant CREATE on topic A.orders" == str(error)


@pytest.mark.parametrize("code", [KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT])
def test_silence_may_go_away_by_itself(code):
    """A cluster that does not answer is worth another try."""
    error = refusal(KafkaError(code), ASKED)
    assert isinstance(error, ClusterUnreachable)
    assert "B.bootstrap.servers" in error.hint


def test_retriable_errors_are_transient_and_others_terminal():
    """The protocol's own word for retriable decides what we did not name."""
    assert isinstance(
        refusal(KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, retriable=True), ASKED), ClusterUnreachable
    )
    assert isinstance(refusal(KafkaError(KafkaError.INVALID_CONFIG), ASKED), ClusterRefused)


def test_every_refusal_exits_with_3_and_says_whose_it_is():
    """Both kinds are about a cluster (exit code 3), and name it."""
    for code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TIMED_OUT, KafkaError.INVALID_CONFIG):
        error = refusal(KafkaError(code), ASKED)
        assert (ExitCode.CLUSTER, "B") == (error.exit_code, error.data["cluster"])


def test_a_missing_topic_has_its_own_code():
    """Steps tell "not there yet" from "not allowed" by the code."""
    assert "unknown-topic" == refusal(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), ASKED).code


@pytest.mark.parametrize("code", [KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION])
def test_a_request_that_a_cluster_does_not_have_is_no_missing_right(code):
    """Granting something would not help: the code and the line say that it is not offered."""
    error = refusal(KafkaError(code), ASKED)
    assert ("not-offered", "B does not offer the request to create topic A.orders") == (
        error.code,
        error.message,
    )


@pytest.mark.parametrize(
    "code", [Code.NOT_CONTROLLER, Code.THROTTLING_QUOTA_EXCEEDED, Code.LEADER_NOT_AVAILABLE]
)
def test_a_change_that_may_be_made_in_a_while_is_worth_another_try(code):
    """A controller is elected, and a quota of changes is used up for seconds (KIP-599)."""
    assert isinstance(refused_by(SimpleNamespace(error_code=code), ASKED), ClusterUnreachable)
