"""Write few records by requests of our own, as `twinlog.cluster.records` does by confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from confluent_kafka import KafkaError

from twinlog.batches.codec import ZSTD
from twinlog.batches.record import Record, build_batch, record_rest
from twinlog.cluster.admin import topics
from twinlog.cluster.records import BATCH_BYTES
from twinlog.cluster.session import REQUEST_SECONDS, Asked, Session, refusal
from twinlog.cluster.session import requests as cut
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ConnectionSettings
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol.brokers import Brokers, KeptBrokers
from twinlog.protocol.errors import LEADER_MOVED, NOT_APPENDED, unreachable
from twinlog.protocol.retry import until
from twinlog.protocol.socket.connection import fresh_buffer
from twinlog.protocol.wire import (
    PRODUCE,
    PRODUCE_VERSION,
    Produced,
    produce_request,
    produce_response,
    produce_throttle_ms,
)

_TIMEOUT_MS = 25_000


class RequestWriter:
    """Writes few records now and then, each batch until the cluster has answered for it.

    A batch whose answer was lost is not sent again: the caller hears of it, and writes anew in its next turn.
    """

    def __init__(self, session: Session, settings: ConnectionSettings) -> None:
        self._session = session
        self._kept = KeptBrokers(settings)

    def write(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records with acks=all.  Raises the first refusal, or ClusterUnreachable."""
        topics.describe_topics(self._session, [topic]).require()
        by_partition = grouped((record.partition, record) for record in records)
        with self._kept.lent() as brokers:
            for partition, its in by_partition.items():
                for batch in _batches(its):
                    self._send(brokers, TopicPartition(topic, partition), batch)

    def _send(self, brokers: Brokers, at: TopicPartition, batch: memoryview) -> None:
        """Send a batch, and again as long as the cluster says that it has not taken it."""

        def attempt() -> bool | None:
            answer = _sent(brokers, at, batch)
            if answer.error in LEADER_MOVED | NOT_APPENDED:
                brokers.forget_leader(*at)
                return None
            if answer.error:
                asked = Asked.about(self._session.alias, "write to", f"topic {at.topic}", "WRITE")
                raise refusal(KafkaError(answer.error, answer.message or None), asked)
            return True

        lost = f"{at.topic}-{at.partition} takes no records"
        until(attempt, lambda: unreachable(self._session.alias, lost), seconds=REQUEST_SECONDS)


def _batches(records: Iterable[InternalRecord]) -> Iterator[memoryview]:
    now = int(time.time() * 1000)
    whole = (
        Record(
            0, now if record.timestamp is None else record.timestamp, record_rest(record.key, record.value)
        )
        for record in records
    )
    for part in cut(whole, lambda it: len(it.rest), most=BATCH_BYTES):
        yield build_batch(part, ZSTD)


def _sent(brokers: Brokers, at: TopicPartition, batch: memoryview) -> Produced:
    connection = brokers.node(brokers.leader(*at), "coordinate")
    body = produce_request({at.topic: [(at.partition, batch)]}, transactional_id=None, timeout_ms=_TIMEOUT_MS)
    connection.send(PRODUCE, PRODUCE_VERSION, body)
    payload = connection.receive(fresh_buffer)
    connection.mute(produce_throttle_ms(payload))
    return produce_response(payload)[0]
