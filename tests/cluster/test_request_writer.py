"""Few records by requests of our own, on a real broker that takes any login."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab import create_topic, read_with_offsets
from twinlog.cluster import request_writer
from twinlog.cluster.request_writer import RequestWriter
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterRefused, ClusterUnreachable, TwinlogError
from twinlog.lab.kafka.broker import EmbeddedKafka
from twinlog.protocol.errors import Code
from twinlog.protocol.wire import Produced

pytestmark = pytest.mark.integration


@pytest.fixture
def writer(cluster_a: EmbeddedKafka) -> RequestWriter:
    host, port = cluster_a.bootstrap_servers.split(":")
    return RequestWriter(ConnectionSettings("A", ((host, int(port)),)))


def numbered(*numbers: int, partition: int = 0) -> list[InternalRecord]:
    return [InternalRecord(b"k", b"%d" % number, partition) for number in numbers]


def test_a_batch_whose_answer_is_lost_is_written_once(
    writer: RequestWriter,
    cluster_a: EmbeddedKafka,
    unique_topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is sent again with its sequence, and the next ones follow it."""
    topic, sent, lost = create_topic(cluster_a, unique_topic("lost"), 2), request_writer._sent, [1, 2]

    def losing(*arguments: object) -> Produced:
        answer = sent(*arguments)  # type: ignore[arg-type]
        if lost:
            lost.pop()
            raise ClusterUnreachable("the answer is lost")
        return answer

    writer.write(topic, numbered(0, 1))
    monkeypatch.setattr(request_writer, "_sent", losing)
    writer.write(topic, numbered(2, 3))
    writer.write(topic, numbered(4) + numbered(5, partition=1))
    assert [] == lost
    assert [(n, b"%d" % n) for n in range(5)] == [
        (offset, it.value) for offset, it in read_with_offsets(cluster_a, topic)
    ]
    assert [b"5"] == [it.value for _, it in read_with_offsets(cluster_a, topic, 1)]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, ClusterUnreachable),
        (Code.UNKNOWN_PRODUCER_ID, ClusterUnreachable),
        (Code.POLICY_VIOLATION, ClusterRefused),
    ],
)
def test_after_a_refusal_a_new_producer_writes(
    code: Code,
    expected: type[TwinlogError],
    writer: RequestWriter,
    cluster_a: EmbeddedKafka,
    unique_topic: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether the refused batch used its sequence nobody has to know; an election's mischief is worth another try."""
    topic = create_topic(cluster_a, unique_topic("refused"))
    writer.write(topic, numbered(0))
    with monkeypatch.context() as patch:
        refusal = Produced(topic, 0, code, -1)
        patch.setattr(request_writer, "_sent", lambda *_: refusal)
        with pytest.raises(expected, match=topic):
            writer.write(topic, numbered(1))
    writer.write(topic, numbered(2))
    assert [b"0", b"2"] == [it.value for _, it in read_with_offsets(cluster_a, topic)]
