"""Write few records to our own small topics.

The copy itself does not use this module (twinlog.lane does the copy).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from twinlog.cluster.refusals import Asked, refusal
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ClusterSettings
from twinlog.config.security.librdkafka import Role, connection_of, librdkafka, security
from twinlog.protocol.errors import unreachable
from twinlog.protocol.socket import login

REQUEST_SECONDS = 25.0

BATCH_BYTES = 512 * 1024
"""Bytes of records in one batch before compression: half of what brokers accept by default."""

_QUEUE_FULL_SECONDS = 0.1

_NO_REASON = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})
"""Codes that the client library gives each record after a fatal error; `flush` raises that error, the reason."""


class RecordWriter:
    """Writes few records now and then: with one producer for all of them, until one fails. Single-threaded.

    A new producer for each heartbeat, one a second, would cost more than the copy of an idle flow.
    """

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._producer: Producer | None = None

    def write(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records with acks=all and idempotence.

        Raises the first refusal, or ClusterUnreachable.
        """
        alias = self._cluster.alias
        producer, self._producer = self._producer, None
        if producer is None:
            producer = Producer(_producer_properties(self._cluster))
            # With metadata the producer gets its id at once; otherwise it looks again only after 0.5 s.
            try:
                producer.list_topics(topic, timeout=REQUEST_SECONDS)
            except KafkaException as failure:
                raise refusal(failure.args[0], _asked(alias, topic)) from failure
        _write(alias, producer, topic, records)
        self._producer = producer


def _write(alias: str, producer: Producer, topic: str, records: Sequence[InternalRecord]) -> None:
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
        told = next((failure for failure in failures if failure.code() not in _NO_REASON), failures[0])
        raise refusal(told, _asked(alias, topic))
    if unsent:
        raise unreachable(alias, f"{unsent} records to topic {topic} were not acknowledged")


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


def _producer_properties(cluster: ClusterSettings) -> dict[str, Any]:
    return {
        **client_properties(cluster, "producer"),
        "acks": "all",
        "enable.idempotence": True,
        "compression.type": "zstd",
        "linger.ms": 1,
        "batch.size": BATCH_BYTES,
        "message.timeout.ms": int(REQUEST_SECONDS * 1000),
        "log_level": 0,
    }


def _asked(alias: str, topic: str) -> Asked:
    return Asked.about(alias, "write to", f"topic {topic}", "WRITE")


def client_properties(cluster: ClusterSettings, role: Role) -> dict[str, Any]:
    """Build the properties that a confluent-kafka client of this role starts from.

    Settings made by hand may have a connection and no Java properties: then the connection is used alone.
    """
    java, connection = getattr(cluster, role), connection_of(cluster, role)
    result: dict[str, Any] = dict(librdkafka(cluster, role, connection) if java else security(connection))
    if (sasl := connection.sasl) is not None and sasl.by_callback:
        result["oauth_cb"] = functools.partial(login.for_client, sasl)
    return result
