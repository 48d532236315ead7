"""Find out what this user may do on one cluster, without changing anything there.

Brokers list the allowed operations of topics, groups and the cluster in their describe answers (KIP-430), but only of
existing ones.  For a topic that is still to be created, requests are sent that can change nothing: brokers check the
permission first, and only then notice that there is no such topic, or nothing to do (KafkaApis, ControllerApis).

- CreateTopics and others that only validate.
- Fetch of such a topic, for READ (KafkaApis.handleFetchRequest).
- InitProducerId: its answer tells about idempotent and transactional writing.
- AddPartitionsToTxn, for WRITE: no partition is added once one topic is refused or unknown
  (KafkaApis.handleAddPartitionsToTxnRequest, versions before 4).

The transactional id is one that no lane ever uses, since to initialise a lane's own id would fence a running copy. The
broker forgets the id after a week.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from twinlog.cluster.admin import configs, group_members, topics
from twinlog.cluster.permissions.needs import Kind, Need, Resource, Rights
from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, NewTopic
from twinlog.errors import ClusterRefused
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import AUTHORIZATION, COORDINATOR_MOVED, Code
from twinlog.protocol.socket.connection import Connection, fresh_buffer
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


def _may_read(brokers: Brokers, missing_topics: Sequence[str]) -> Found:
    """Find out which of these topics the user may read."""
    if not missing_topics:
        return {}
    positions = [FetchPosition(name, 0, 0, 1) for name in missing_topics]
    connection = brokers.any_broker()
    version = min(FETCH_VERSION, connection.offers(FETCH))
    how: Any = {"max_bytes": 1, "max_wait_ms": 0, "read_committed": False, "version": version}
    connection.send(FETCH, version, [fetch_request(positions, **how)])
    *_, answers = fetch_response(connection.receive(fresh_buffer), version)
    return {
        Resource(Kind.TOPIC, answer.topic): _answer(
            READ, denied=answer.error == Code.TOPIC_AUTHORIZATION_FAILED
        )
        for answer in answers
    }


def _may_write(brokers: Brokers, transactional_ids: Iterable[str], missing_topics: Sequence[str]) -> Found:
    """Find out what the user may write; what brokers do not offer counts as denied.

    The ids are unused ones, the topics do not exist, or are hidden.
    """
    connection = brokers.any_broker()
    if connection.offers(kafka_python.INIT_PRODUCER_ID.request.API_KEY) < 0:
        return {Resource(Kind.CLUSTER): Rights(denied=IDEMPOTENT_WRITE)}
    code = _init(connection, None).error_code
    denied = code == Code.CLUSTER_AUTHORIZATION_FAILED
    answers = {Resource(Kind.CLUSTER): _answer(IDEMPOTENT_WRITE, denied=denied)}
    for transactional_id in transactional_ids:
        answers.update(_transactional(brokers, transactional_id, missing_topics))
    return answers


def _answer(operations: frozenset[str], *, denied: bool) -> Rights:
    return Rights(denied=operations) if denied else Rights(granted=operations)


def _transactional(brokers: Brokers, transactional_id: str, topics: Sequence[str]) -> Found:
    resource = Resource(Kind.TRANSACTIONAL_ID, transactional_id)
    try:
        coordinator, producer = _producer(brokers, transactional_id)
    except ClusterRefused as error:
        if error.data.get("kafka_code") in AUTHORIZATION or error.code == kafka_python.NOT_OFFERED:
            return {resource: Rights(denied=BOTH)}
        raise
    if producer.error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return {resource: Rights(frozenset({"DESCRIBE"}), WRITE)}
    answers = {resource: Rights(granted=BOTH)}
    adds = coordinator.offers(kafka_python.ADD_PARTITIONS.request.API_KEY) >= 0
    if topics and adds and not producer.error_code:
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


Asking = Callable[[Brokers, Sequence[str]], Answers[Any, Any]]
CLUSTER_OPERATIONS = frozenset({"DESCRIBE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"})
TOPIC_OPERATIONS = CLUSTER_OPERATIONS | {"READ", "WRITE", "CREATE", "DELETE"}

_LISTS_OPERATIONS = 8
_DESCRIBED = Rights(granted=frozenset({"DESCRIBE"}))

IMPLYING_DESCRIBE = frozenset({"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"})
"""A user who may not DESCRIBE has none of these (org.apache.kafka.server.authorizer, implied operations)."""


def find_rights(
    admins: Brokers, brokers: Brokers, needs: Iterable[Need]
) -> dict[tuple[str, Resource], Rights]:
    """Find out the user's rights on every resource that `needs` of this cluster names.

    `admins` are connections of who administers, `brokers` of who reads and writes.  Raises ClusterUnreachable and
    ClusterRefused if the cluster cannot be asked at all.
    """
    ours = [need for need in needs if need.cluster == brokers.settings.alias]
    wanted = {need.resource for need in ours}
    # Brokers before 2.3 do not list what the user may do (KIP-430).
    told = brokers.any_broker().offers(kafka_python.METADATA.request.API_KEY) >= _LISTS_OPERATIONS
    rights, missing = _described_topics(admins, _names(wanted, Kind.TOPIC), told=told)
    rights |= _groups(admins, _names(wanted, Kind.GROUP), told=told)
    if Resource(Kind.CLUSTER) in wanted and told:
        rights[Resource(Kind.CLUSTER)] = _cluster(admins)
    operations = {operation for need in ours for operation in need.operations}
    read = {need.resource.name for need in ours if "READ" in need.operations}
    unread = [name for name in missing if name in read]
    parts = [_missing_topics(admins, missing, operations), _may_read(brokers, unread)]
    if "IDEMPOTENT_WRITE" in operations:
        parts.append(_may_write(brokers, _names(wanted, Kind.TRANSACTIONAL_ID), missing))
    for resource, more in (item for part in parts for item in part.items()):
        rights[resource] = _both(rights.get(resource, Rights()), more)
    return {
        (brokers.settings.alias, resource): right for resource, right in rights.items() if resource in wanted
    }


def _names(wanted: Iterable[Resource], kind: Kind) -> tuple[str, ...]:
    return tuple(sorted(resource.name for resource in wanted if resource.kind is kind))


def _both(one: Rights, other: Rights) -> Rights:
    denied = one.denied | other.denied
    return Rights((one.granted | other.granted) - denied, denied)


def _described_topics(
    admins: Brokers, names: Sequence[str], *, told: bool
) -> tuple[dict[Resource, Rights], tuple[str, ...]]:
    """Return the rights on topics, and the topics whose description did not tell everything."""
    answers = topics.describe_topics(admins, names)
    rights = {
        Resource(Kind.TOPIC, name): (
            Rights(found.operations, TOPIC_OPERATIONS - found.operations) if told else _DESCRIBED
        )
        for name, found in answers.found.items()
    }
    for name, error in answers.refused.items():
        if error.code == "unauthorised":
            rights[Resource(Kind.TOPIC, name)] = Rights(denied=IMPLYING_DESCRIBE)
        elif error.code == NO_SUCH_TOPIC:
            rights[Resource(Kind.TOPIC, name)] = _DESCRIBED
        else:
            raise error
    return rights, tuple(names if not told else answers.refused)


def _missing_topics(admins: Brokers, names: Sequence[str], wanted: Collection[str]) -> dict[Resource, Rights]:
    """Send a request that needs each of the `wanted` operations on each topic; every request only validates."""
    rights: dict[Resource, Rights] = {}
    for operation, ask in ASKING.items():
        if operation not in wanted or not names:
            continue
        for name, denied in _denied(admins, ask, names).items():
            resource, more = Resource(Kind.TOPIC, name), _answer(frozenset({operation}), denied=denied)
            rights[resource] = _both(rights.get(resource, Rights()), more)
    return rights


ASKING: Mapping[str, Asking] = {
    "CREATE": lambda admins, names: topics.create(
        admins, [NewTopic(name, 1, 1) for name in names], validate_only=True
    ),
    "ALTER": lambda admins, names: topics.grow(admins, [(name, 1) for name in names], validate_only=True),
    "DESCRIBE_CONFIGS": configs.topic_configs,
    "ALTER_CONFIGS": lambda admins, names: configs.alter(
        admins, {name: {"cleanup.policy": "delete"} for name in names}, validate_only=True
    ),
}


def _groups(admins: Brokers, names: Sequence[str], *, told: bool) -> dict[Resource, Rights]:
    if not names:
        return {}
    answers = group_members.with_rights(admins, names)
    both, rights = frozenset({"READ", "DESCRIBE"}), {}
    for name, (_, allowed) in answers.found.items():
        rights[Resource(Kind.GROUP, name)] = Rights(allowed, both - allowed) if told else _DESCRIBED
    for name, error in answers.refused.items():
        # Any other refusal, such as of a group that does not exist, comes after the permission was checked.
        denied = error.code == "unauthorised"
        rights[Resource(Kind.GROUP, name)] = Rights(denied=both) if denied else _DESCRIBED
    return rights


def _cluster(admins: Brokers) -> Rights:
    allowed = topics.describe_cluster(admins).operations
    return Rights(allowed, CLUSTER_OPERATIONS - allowed)


def _denied(admins: Brokers, ask: Asking, names: Sequence[str]) -> dict[str, bool]:
    """Return whether each topic's request was refused for want of a permission; any other answer means it was not."""
    answers = ask(admins, names)
    refused = {_name(item): error.code == "unauthorised" for item, error in answers.refused.items()}
    return {_name(item): False for item in answers.found} | refused


def _name(item: Any) -> str:
    """Return the topic that an answer is about: the key is its name, or the topic and a config of it."""
    return item if isinstance(item, str) else str(item[0])
