"""Writing few records, without brokers."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from twinlog.cluster import records
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.errors import ClusterRefused, TransientError

CLUSTER = ClusterSettings("B", "", ConnectionSettings("B", ()))


class Unanswered:
    """A producer whose brokers are gone before they told it anything."""

    def __init__(self, _properties: object) -> None: ...

    def list_topics(self, _topic: str, timeout: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT, "Failed to get metadata"))


def test_brokers_that_do_not_answer_a_new_producer_are_an_error_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever may try again knows our errors, and no others."""
    monkeypatch.setattr(records, "Producer", Unanswered)
    writer = records.RecordWriter(CLUSTER)
    with pytest.raises(TransientError, match="B"):
        writer.write("t", [InternalRecord(b"k", b"v")])


NO_ID = KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no id"))


class WithoutId:
    """A producer to which the broker gives no id: the client library says so at the end, and by an exception."""

    raised: Exception = NO_ID

    def __init__(self, _properties: object) -> None: ...

    def list_topics(self, _topic: str, timeout: float) -> None: ...

    def produce(self, _topic: str, *, on_delivery: Any, **_record: object) -> None:
        self.on_delivery = on_delivery

    def flush(self, _seconds: float) -> int:
        for code in (KafkaError._FATAL, KafkaError._PURGE_QUEUE):
            self.on_delivery(KafkaError(code), None)
        raise self.raised


class WithoutIdAndReportsBehind(WithoutId):
    """The same where a delivery report runs in the same call, behind the error: as Python then puts it."""

    raised = SystemError("returned a result with an exception set")
    raised.__cause__ = NO_ID


@pytest.mark.parametrize("without_id", [WithoutId, WithoutIdAndReportsBehind])
def test_a_refused_producer_id_is_a_refusal_of_the_cluster(
    monkeypatch: pytest.MonkeyPatch, without_id: type[WithoutId]
) -> None:
    """A person can give the right; nobody can do anything with a stack trace."""
    monkeypatch.setattr(records, "Producer", without_id)
    writer = records.RecordWriter(CLUSTER)
    with pytest.raises(ClusterRefused, match="B does not allow this user"):
        writer.write("t", [InternalRecord(b"k", b"v")])
