"""Whether this user may write: asked with requests that write nothing.

InitProducerId answers for idempotent and transactional writing.  AddPartitionsToTxn answers for topics that
do not exist yet: the broker checks WRITE on each first, and adds nothing once one of them is refused or
unknown (KafkaApis.handleAddPartitionsToTxnRequest, request versions before 4).  The transactional id is one
that no lane ever uses, since to init a lane's own id would fence a copy that runs; the broker forgets it
after a week.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from twinlog.cluster.permissions import Kind, Resource, Rights
from twinlog.config.connection import ConnectionSettings
from twinlog.errors import ClusterRefused
from twinlog.relay import kafka_python
from twinlog.relay.brokers import Brokers
from twinlog.relay.connection import Connection
from twinlog.relay.error_codes import AUTHORIZATION, Code

PROBE_TRANSACTION_MS = 1_000
"""Should a topic appear in this very moment, the broker ends our empty transaction by itself."""

WRITE = frozenset({"WRITE"})
BOTH = frozenset({"WRITE", "DESCRIBE"})
IDEMPOTENT_WRITE = frozenset({"IDEMPOTENT_WRITE"})


@dataclass(frozen=True, slots=True)
class WriteProbe:
    """What to ask: unused transactional ids, and topics that do not exist (or hide from this user)."""

    transactional_ids: tuple[str, ...]
    missing_topics: tuple[str, ...]


def may_write(settings: ConnectionSettings, probe: WriteProbe) -> dict[Resource, Rights]:
    """Ask one cluster.  Raises ClusterUnreachable and ClusterRefused when it cannot be asked."""
    with Brokers(settings) as brokers:
        answers = {Resource(Kind.CLUSTER): _idempotent(brokers)}
        for transactional_id in probe.transactional_ids:
            answers.update(_transactional(brokers, transactional_id, probe.missing_topics))
        return answers


def _idempotent(brokers: Brokers) -> Rights:
    answer = _init(brokers.any_broker(), None)
    denied = answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
    return Rights(denied=IDEMPOTENT_WRITE) if denied else Rights(granted=IDEMPOTENT_WRITE)


def _transactional(
    brokers: Brokers, transactional_id: str, topics: tuple[str, ...]
) -> dict[Resource, Rights]:
    resource = Resource(Kind.TRANSACTIONAL_ID, transactional_id)
    try:
        coordinator = brokers.coordinator(transactional_id)
    except ClusterRefused as error:
        if error.data.get("kafka_code") in AUTHORIZATION:
            return {resource: Rights(denied=BOTH)}
        raise
    producer = _init(coordinator, transactional_id)
    if producer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return {resource: Rights(frozenset({"DESCRIBE"}), WRITE)}
    answers = {resource: Rights(granted=BOTH)}
    if topics and not producer.error_code:
        answers.update(_topics(coordinator, transactional_id, producer, topics))
    return answers


def _init(connection: Connection, transactional_id: str | None) -> Any:
    return connection.call(
        kafka_python.INIT_PRODUCER_ID,
        transactional_id=transactional_id,
        transaction_timeout_ms=PROBE_TRANSACTION_MS,
        producer_id=-1,
        producer_epoch=-1,
    )


def _topics(
    coordinator: Connection, transactional_id: str, producer: Any, topics: tuple[str, ...]
) -> Iterator[tuple[Resource, Rights]]:
    request = kafka_python.ADD_PARTITIONS.request
    wanted = [request.AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in topics]
    answer = coordinator.call(
        kafka_python.ADD_PARTITIONS,
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=wanted,
    )
    for topic in answer.results_by_topic_v3_and_below:
        codes = {item.partition_error_code for item in topic.results_by_partition}
        denied = Code.TOPIC_AUTHORIZATION_FAILED in codes
        yield Resource(Kind.TOPIC, topic.name), Rights(denied=WRITE) if denied else Rights(granted=WRITE)
