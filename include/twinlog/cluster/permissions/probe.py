"""Find out whether this user may read and write topics that do not exist, with requests that do neither.

- Fetch of such a topic: the broker checks READ first (KafkaApis.handleFetchRequest).
- InitProducerId: its answer tells about idempotent and transactional writing.
- AddPartitionsToTxn: the broker checks WRITE on each topic first, and adds no partition once one topic is refused or
  unknown (KafkaApis.handleAddPartitionsToTxnRequest, versions before 4).

The transactional id is one that no lane ever uses, since to initialise a lane's own id would fence a running copy. The
broker forgets the id after a week.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twinlog.cluster.permissions.needs import Kind, Resource, Rights
from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterRefused
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.error_codes import AUTHORIZATION, COORDINATOR_MOVED, Code
from twinlog.protocol.socket.connection import Connection
from twinlog.protocol.wire import FETCH, FETCH_VERSION, FetchPosition, fetch_request, fetch_response

PROBE_TRANSACTION_MS = 1_000
"""If a topic appears in this very moment, the broker soon ends our empty transaction by itself."""
PATIENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.2

READ = frozenset({"READ"})
WRITE = frozenset({"WRITE"})
BOTH = frozenset({"WRITE", "DESCRIBE"})
IDEMPOTENT_WRITE = frozenset({"IDEMPOTENT_WRITE"})

Found = dict[Resource, Rights]


@dataclass(frozen=True, slots=True)
class WriteProbe:
    """The subjects of the probe: unused transactional ids, and topics that do not exist, or are hidden."""

    transactional_ids: tuple[str, ...]
    missing_topics: tuple[str, ...]


def may_read(settings: ConnectionSettings, missing_topics: Sequence[str]) -> Found:
    """Find out which of these topics the user may read.

    Raises ClusterUnreachable and ClusterRefused if the cluster cannot be asked.
    """
    if not missing_topics:
        return {}
    positions = [FetchPosition(name, 0, 0, 1) for name in missing_topics]
    with Brokers(settings) as brokers:
        connection = brokers.any_broker()
        body = fetch_request(positions, max_bytes=1, max_wait_ms=0, read_committed=False)
        connection.send(FETCH, FETCH_VERSION, [body])
        _, _, answers = fetch_response(connection.receive(lambda size: memoryview(bytearray(size))))
    return {
        Resource(Kind.TOPIC, it.topic): _answer(READ, denied=it.error == Code.TOPIC_AUTHORIZATION_FAILED)
        for it in answers
    }


def may_write(settings: ConnectionSettings, probe: WriteProbe) -> Found:
    """Find out what the user may write.

    Raises ClusterUnreachable and ClusterRefused if the cluster cannot be asked.
    """
    with Brokers(settings) as brokers:
        code = _init(brokers.any_broker(), None).error_code
        denied = code == Code.CLUSTER_AUTHORIZATION_FAILED
        answers = {Resource(Kind.CLUSTER): _answer(IDEMPOTENT_WRITE, denied=denied)}
        for transactional_id in probe.transactional_ids:
            answers.update(_transactional(brokers, transactional_id, probe.missing_topics))
        return answers


def _answer(operations: frozenset[str], *, denied: bool) -> Rights:
    return Rights(denied=operations) if denied else Rights(granted=operations)


def _transactional(brokers: Brokers, transactional_id: str, topics: Sequence[str]) -> Found:
    resource = Resource(Kind.TRANSACTIONAL_ID, transactional_id)
    try:
        coordinator, producer = _producer(brokers, transactional_id)
    except ClusterRefused as error:
        if error.data.get("kafka_code") in AUTHORIZATION:
            return {resource: Rights(denied=BOTH)}
        raise
    if producer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return {resource: Rights(frozenset({"DESCRIBE"}), WRITE)}
    answers = {resource: Rights(granted=BOTH)}
    if topics and not producer.error_code:
        answers.update(_topics(coordinator, transactional_id, producer, topics))
    return answers


def _producer(brokers: Brokers, transactional_id: str) -> tuple[Connection, Any]:
    """Initialise the id; a fresh cluster first has to create the coordinator's topic, which takes a moment."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        coordinator = brokers.coordinator(transactional_id)
        producer = _init(coordinator, transactional_id)
        settling = producer.error_code in COORDINATOR_MOVED | {Code.CONCURRENT_TRANSACTIONS}
        if not settling or time.monotonic() > deadline:
            return coordinator, producer
        time.sleep(PAUSE_SECONDS)


def _init(connection: Connection, transactional_id: str | None) -> Any:
    return connection.call(
        kafka_python.INIT_PRODUCER_ID,
        transactional_id=transactional_id,
        transaction_timeout_ms=PROBE_TRANSACTION_MS,
        producer_id=-1,
        producer_epoch=-1,
    )


def _topics(
    coordinator: Connection, transactional_id: str, producer: Any, topics: Sequence[str]
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
        yield Resource(Kind.TOPIC, topic.name), _answer(WRITE, denied=denied)
