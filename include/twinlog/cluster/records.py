"""Write and read few records: our own small topics, and single records of others.

The copy itself does not use this module (twinlog.lane does the copy).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as ClientPartition

from twinlog.cluster.admin import topics
from twinlog.cluster.session import REQUEST_SECONDS, Asked, Session, refusal
from twinlog.cluster.values import InternalRecord
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.protocol.errors import unreachable

Properties = Mapping[str, Any]

# Few records of each partition are wanted; a batch larger than this is still answered whole.
FETCH_BYTES = 65_536

BATCH_BYTES = 512 * 1024
"""Bytes of records in one batch before compression: half of what brokers accept by default."""

_QUEUE_FULL_SECONDS = 0.1

_NO_REASON = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Codes that the client library gives each record after a fatal error; `flush` raises that error, the reason."""


class RecordWriter:
    """Writes few records now and then: with one producer for all of them, until one fails. Single-threaded.

    A new producer for each heartbeat, one a second, would cost more than the copy of an idle flow.
    """

    def __init__(self, session: Session, properties: Properties) -> None:
        self._session = session
        self._properties = properties
        self._producer: Producer | None = None

    def write(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records with acks=all and idempotence.

        Raises the first refusal, or ClusterUnreachable.
        """
        # The client library would wait for a missing topic, or create it if brokers allow that.
        topics.describe_topics(self._session, [topic]).require()
        producer, self._producer = self._producer, None
        if producer is None:
            producer = Producer(_producer_properties(self._properties))
            # With metadata the producer gets its id at once; otherwise it looks again only after 0.5 s.
            try:
                producer.list_topics(topic, timeout=REQUEST_SECONDS)
            except KafkaException as failure:
                raise refusal(failure.args[0], _asked(self._session, "write to", topic, "WRITE")) from failure
        _write(self._session, producer, topic, records)
        self._producer = producer


def _write(session: Session, producer: Producer, topic: str, records: Sequence[InternalRecord]) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    try:
        for record in records:
            if not failures:
                _enqueue(producer, topic, record, delivered)
    except (KafkaException, SystemError) as error:
        failures.append(_reason(error))
    unsent = 0
    try:
        unsent = producer.flush(REQUEST_SECONDS + 1)
    except (KafkaException, SystemError) as error:  # fatal: such as a broker that gives no producer id
        failures.append(_reason(error))
    if failures:
        told = next((it for it in failures if it.code() not in _NO_REASON), failures[0])
        raise refusal(told, _asked(session, "write to", topic, "WRITE"))
    if unsent:
        raise unreachable(session.alias, f"{unsent} records to topic {topic} were not acknowledged")


def _reason(error: KafkaException | SystemError) -> KafkaError:
    """Return the error that the client library raised.

    It raises a fatal error inside a callback.  If delivery reports follow in the same call, they run with that
    exception set, and Python makes a SystemError of it, with the exception as its cause.
    """
    raised = error if isinstance(error, KafkaException) else error.__cause__
    if not isinstance(raised, KafkaException):
        raise error
    return raised.args[0]


def _enqueue(producer: Producer, topic: str, record: InternalRecord, delivered: Callable[..., None]) -> None:
    """Hand a record to the client library; wait while its queue of a hundred thousand records is full."""
    when = {} if record.timestamp is None else {"timestamp": record.timestamp}
    key, value, partition = record.key, record.value, record.partition
    while True:
        try:
            producer.produce(topic, key=key, value=value, partition=partition, on_delivery=delivered, **when)
        except BufferError:
            producer.poll(_QUEUE_FULL_SECONDS)
        else:
            return


def _producer_properties(properties: Properties) -> dict[str, Any]:
    return {
        **properties,
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "zstd",
        "linger.ms": 1,
        "batch.size": BATCH_BYTES,
        "message.timeout.ms": int(REQUEST_SECONDS * 1000),
        "log_level": 0,
    }


def read_records(
    session: Session,
    properties: Properties,
    starts: Mapping[TopicPartition, int],
    limit: int,
    *,
    read_committed: bool = True,
) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
    """Read up to `limit` records of each partition, from the given offset to the end of that isolation level.

    A start below the log start reads from the log start. Raises ClusterUnreachable if the partitions were not read in
    time.
    """
    if not starts:
        return {}
    topics.describe_topics(session, {it.topic for it in starts}).require()
    read: dict[TopicPartition, list[ReadRecord]] = {it: [] for it in starts}
    consumer = Consumer(_consumer_properties(properties, read_committed=read_committed))
    try:
        consumer.assign([ClientPartition(it.topic, it.partition, start) for it, start in starts.items()])
        _fill(session, consumer, read, limit)
    finally:
        consumer.close()
    return {it: tuple(records) for it, records in read.items()}


def _fill(
    session: Session, consumer: Consumer, read: dict[TopicPartition, list[ReadRecord]], limit: int
) -> None:
    waiting = set(read)
    deadline = time.monotonic() + REQUEST_SECONDS
    while waiting:
        for message in consumer.consume(num_messages=500, timeout=0.2):
            it = _position(message)
            if it not in waiting:
                continue
            if message.error() is None:
                read[it].append(_record(message))
            elif message.error().code() != KafkaError._PARTITION_EOF:
                raise refusal(message.error(), _asked(session, "read", it.topic, "READ"))
            if message.error() is not None or len(read[it]) >= limit:
                waiting.discard(it)
                consumer.incremental_unassign([ClientPartition(*it)])
        if waiting and time.monotonic() > deadline:
            late = min(waiting)
            raise unreachable(
                session.alias, f"topic {late.topic} partition {late.partition} was not read in time"
            )


def _position(message: Message) -> TopicPartition:
    return TopicPartition(
        message.topic() or "", message.partition() if message.partition() is not None else -1
    )


def _record(message: Message) -> ReadRecord:
    kind, milliseconds = message.timestamp()
    return ReadRecord(
        offset=message.offset() if message.offset() is not None else OFFSET_INVALID,
        timestamp=milliseconds if kind else -1,
        key=message.key(),
        value=message.value(),
    )


def _consumer_properties(properties: Properties, *, read_committed: bool) -> dict[str, Any]:
    return {
        **properties,
        # A group id must be given although partitions are assigned by hand and no offset is committed.
        "group.id": "twinlog-peek",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        "auto.offset.reset": "earliest",
        "fetch.message.max.bytes": FETCH_BYTES,
        "fetch.wait.max.ms": 10,
        "log_level": 0,
    }


def _asked(session: Session, deed: str, topic: str, operation: str) -> Asked:
    return Asked.about(session.alias, deed, f"topic {topic}", operation)
