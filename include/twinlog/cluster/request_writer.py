"""Write few records by requests of our own, as `twinlog.cluster.records` does by confluent-kafka."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError

from twinlog.batches.codec import ZSTD
from twinlog.batches.header import BatchHeader, rewrite
from twinlog.batches.record import Record, build_batch, record_rest
from twinlog.cluster.portions import requests
from twinlog.cluster.records import BATCH_BYTES, REQUEST_SECONDS
from twinlog.cluster.refusals import Asked, refusal, refused_by
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterUnreachable
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code, ErrorAction, Request, code_name, error_action, repeats, unreachable
from twinlog.protocol.kept_brokers import KeptBrokers
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
    """Writes few records now and then, with one producer id until a write fails.  Single-threaded.

    A batch whose answer was lost is sent again with its sequence: the leader takes it once.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._alias = settings.alias
        self._kept = KeptBrokers(settings)
        self._producer: Any = None
        self._sequences: Counter[TopicPartition] = Counter()

    def write(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records with acks=all and idempotence.

        Raises the first refusal, or ClusterUnreachable.
        """
        by_partition = grouped((record.partition, record) for record in records)
        producer, self._producer = self._producer, None
        with self._kept.lent() as brokers:
            if producer is None:
                producer = self._begun(brokers)
            for partition, its in by_partition.items():
                at = TopicPartition(topic, partition)
                for batch in _batches(its):
                    rewrite(
                        batch,
                        producer_id=producer.producer_id,
                        producer_epoch=producer.producer_epoch,
                        base_sequence=self._sequences[at],
                    )
                    self._send(brokers, at, batch)
                    self._sequences[at] += BatchHeader.read(batch).record_count
        self._producer = producer

    def _begun(self, brokers: Brokers) -> Any:
        """Get a producer id, with which every sequence begins at 0; a broker that has just started gives none yet."""
        self._sequences.clear()

        def attempt() -> Any:
            answer = brokers.ask_any(
                kafka_python.INIT_PRODUCER_ID,
                transactional_id=None,
                transaction_timeout_ms=_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )
            if repeats(Request.INIT_PRODUCER, answer.error_code):
                return None
            if answer.error_code:
                asked = Asked.about(self._alias, "write to", "the cluster", "IDEMPOTENT_WRITE")
                raise refused_by(answer, asked)
            return answer

        none = "its brokers give no producer id"
        return until(attempt, lambda: unreachable(self._alias, none), seconds=REQUEST_SECONDS)

    def _send(self, brokers: Brokers, at: TopicPartition, batch: memoryview) -> None:
        """Send a batch, and again until its leader has answered for it."""
        lost = f"{at.topic}-{at.partition} takes no records"

        def attempt() -> bool | None:
            try:
                answer = _sent(brokers, at, batch)
            except ClusterUnreachable:
                brokers.forget_leaders()
                return None
            if answer.error in {Code.NONE, Code.DUPLICATE_SEQUENCE_NUMBER}:
                return True
            action = error_action(Request.PRODUCE, answer.error)
            if action is ErrorAction.RESEND:
                brokers.forget_leader(*at)
                return None
            if action in {
                ErrorAction.FENCE_AGAIN,
                ErrorAction.FENCED,
            }:  # the next write gets a new producer id
                raise unreachable(self._alias, f"{lost}: {code_name(answer.error)}")
            asked = Asked.about(self._alias, "write to", f"topic {at.topic}", "WRITE")
            raise refusal(KafkaError(answer.error, answer.message or None), asked)

        until(attempt, lambda: unreachable(self._alias, lost), seconds=REQUEST_SECONDS)


def _batches(records: Iterable[InternalRecord]) -> Iterator[memoryview]:
    now = int(time.time() * 1000)
    whole = (
        Record(
            0, now if record.timestamp is None else record.timestamp, record_rest(record.key, record.value)
        )
        for record in records
    )
    for part in requests(whole, lambda it: len(it.rest), most=BATCH_BYTES):
        yield build_batch(part, ZSTD)


def _sent(brokers: Brokers, at: TopicPartition, batch: memoryview) -> Produced:
    connection = brokers.node(brokers.leader(*at), "coordinate")
    connection.keep_login()
    if connection.offers(PRODUCE) < PRODUCE_VERSION:
        raise kafka_python.not_offered(
            f"Produce v{PRODUCE_VERSION}", brokers.settings.alias, connection.address
        )
    body = produce_request({at.topic: [(at.partition, batch)]}, transactional_id=None, timeout_ms=_TIMEOUT_MS)
    connection.send(PRODUCE, PRODUCE_VERSION, body)
    payload = connection.receive(fresh_buffer)
    connection.mute(produce_throttle_ms(payload))
    return produce_response(payload)[0]
