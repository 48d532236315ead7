"""Writing few records, without brokers."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from twinlog.cluster import records
from twinlog.cluster.values import Answers, InternalRecord
from twinlog.errors import TransientError


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
    monkeypatch.setattr(records.topics, "describe_topics", lambda *_: Answers({}))
    writer = records.RecordWriter(SimpleNamespace(alias="B"), {})
    with pytest.raises(TransientError, match="B"):
        writer.write("t", [InternalRecord(b"k", b"v")])
