"""Read, create, grow and delete topics; read how large their logs are and how much disk is left (KIP-113, KIP-827)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from twinlog.cluster.session import REQUEST_SECONDS, Asked, Session, describe_cluster, refusal, requests
from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, NewTopic, PartitionDescription, TopicDescription
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import error_for

SHOWN_SECONDS = 30.0
SHOWN_POLL_SECONDS = 0.1

CREATED_AT_ONCE = 1000
"""Partitions that are created, and waited for, at a time: a broker that is busy makes a hundred a second."""


def topic_names(session: Session) -> tuple[str, ...]:
    """Return all topics this user may see.

    The client library has only a blocking form of this request. `describe_cluster` goes first, because it notices
    early that a cluster is down.
    """
    describe_cluster(session)
    try:
        metadata = session.admin.list_topics(timeout=REQUEST_SECONDS)
    except KafkaException as failure:
        raise refusal(
            failure.args[0], Asked(session.alias, "list", "topics", "DESCRIBE on the topics")
        ) from failure
    return tuple(sorted(metadata.topics))


def describe_topics(session: Session, names: Iterable[str]) -> Answers[str, TopicDescription]:
    """Describe topics, with their ids and what this user may do on them."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return Answers({})
    answers = session.answers(
        lambda admin: admin.describe_topics(
            TopicCollection(wanted), include_authorized_operations=True, request_timeout=REQUEST_SECONDS
        ),
        lambda name: _asked(session, "describe", name, "DESCRIBE"),
    )
    return Answers({name: parse_description(it) for name, it in answers.found.items()}, answers.refused)


def parse_description(answer: kafka_admin.TopicDescription) -> TopicDescription:
    """Turn the client library's description into ours."""
    return TopicDescription(
        name=answer.name,
        topic_id=topic_id(str(answer.topic_id)),
        partitions=tuple(
            sorted(
                (
                    PartitionDescription(
                        partition=partition.id,
                        leader=partition.leader.id if partition.leader is not None else -1,
                        replicas=tuple(node.id for node in partition.replicas),
                        in_sync=tuple(node.id for node in partition.isr),
                    )
                    for partition in answer.partitions
                ),
                key=lambda it: it.partition,
            )
        ),
        operations=frozenset(operation.name for operation in answer.authorized_operations or ()),
    )


def topic_id(text: str) -> str:
    """Spell a topic id as Kafka does: URL-safe base64 (common.Uuid); librdkafka writes `+/`, and zeros for no id."""
    spelt = text.replace("+", "-").replace("/", "_").rstrip("=")
    return spelt if spelt.strip("A") else ""


def create_topics(session: Session, topics: Sequence[NewTopic]) -> Answers[str, None]:
    """Create topics and wait until metadata shows them with leaders; existing ones count as created.

    A broker shows what was created together once it has made all of it, so many partitions are created in turns.  If
    the cluster refuses a topic for its many replicas, it is asked for again with its `lowered_factor`.
    """
    cut = requests(topics, lambda it: it.partitions, most=CREATED_AT_ONCE)
    turns = [_create_and_wait(session, turn) for turn in cut]
    return Answers(
        {name: None for turn in turns for name in turn.found},
        {name: error for turn in turns for name, error in turn.refused.items()},
    )


def _create_and_wait(session: Session, topics: Sequence[NewTopic]) -> Answers[str, None]:
    refused = _create(session, topics)
    too_many = [
        topic.lowered for topic in topics if _says(refused.get(topic.name), "INVALID_REPLICATION_FACTOR")
    ]
    fewer = [topic for topic in too_many if topic is not None]
    lowered = {topic.name for topic in fewer}
    refused = {name: it for name, it in refused.items() if name not in lowered} | _create(session, fewer)
    created = {topic.name for topic in topics} - set(refused)
    shown = wait_until_shown(
        session, {topic.name: topic.partitions for topic in topics if topic.name in created}
    )
    return Answers(shown.found, refused | dict(shown.refused))


def _create(session: Session, topics: Sequence[NewTopic]) -> dict[str, TwinlogError]:
    """Ask for topics and return those that were refused."""
    refused: dict[str, TwinlogError] = {}
    # A creation makes a metadata record for the topic, and one for each partition and each config.
    for request in requests(topics, lambda it: 1 + it.partitions + len(it.configs)):
        answers = session.answers(
            partial(_send_creation, request),
            lambda name: _asked(session, "create", name, "CREATE"),
            changes=True,
        )
        refused |= {name: it for name, it in answers.refused.items() if not _says(it, "TOPIC_ALREADY_EXISTS")}
    return refused


def _send_creation(topics: Sequence[NewTopic], admin: AdminClient) -> Mapping[str, Future[None]]:
    sent: Mapping[str, Future[None]] = admin.create_topics(
        [_new_topic(topic) for topic in topics],
        operation_timeout=REQUEST_SECONDS,
        request_timeout=REQUEST_SECONDS,
    )
    return sent


def _says(error: TwinlogError | None, kafka_error: str) -> bool:
    return error is not None and error.data.get("kafka_error") == kafka_error


def create_partitions(session: Session, counts: Mapping[str, int]) -> Answers[str, None]:
    """Grow topics to `counts` partitions and wait until metadata shows them.

    A topic that another user has grown meanwhile is a success.
    """
    done: list[str] = []
    failed: dict[str, TwinlogError] = {}
    for request in requests(counts.items(), lambda item: item[1]):  # each partition makes one metadata record
        answers = session.answers(
            partial(_send_growth, request),
            lambda name: _asked(session, "add partitions to", name, "ALTER"),
            changes=True,
        )
        done += answers.found
        failed |= answers.refused
    grown = _grown_already(session, failed, counts)
    refused = {name: error for name, error in failed.items() if name not in grown}
    shown = wait_until_shown(session, {name: counts[name] for name in (*done, *grown)})
    return Answers(shown.found, refused | dict(shown.refused))


def _send_growth(counts: Sequence[tuple[str, int]], admin: AdminClient) -> Mapping[str, Future[None]]:
    sent: Mapping[str, Future[None]] = admin.create_partitions(
        [kafka_admin.NewPartitions(name, count) for name, count in counts],
        operation_timeout=REQUEST_SECONDS,
        request_timeout=REQUEST_SECONDS,
    )
    return sent


def _grown_already(
    session: Session, refused: Mapping[str, TwinlogError], counts: Mapping[str, int]
) -> frozenset[str]:
    """Return the topics that would not grow and have that many partitions by now."""
    doubtful = [name for name, it in refused.items() if _says(it, "INVALID_PARTITIONS")]
    found = describe_topics(session, doubtful).found if doubtful else {}
    return frozenset(name for name, it in found.items() if len(it.partitions) >= counts[name])


def delete_topics(session: Session, names: Iterable[str]) -> Answers[str, None]:
    """Delete topics; their names may still be listed for a moment."""
    wanted = list(names)
    if not wanted:
        return Answers({})
    return session.answers(
        lambda admin: admin.delete_topics(
            wanted, operation_timeout=REQUEST_SECONDS, request_timeout=REQUEST_SECONDS
        ),
        lambda name: _asked(session, "delete", name, "DELETE"),
        changes=True,
    )


def wait_until_shown(
    session: Session,
    counts: Mapping[str, int],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Answers[str, None]:
    """Wait until every topic shows at least its count of partitions, all with leaders.

    The controller acknowledges a topic's creation; the broker asked next may learn of it later.  Thousands of
    partitions take a broker minutes, so the wait ends once no leader has come for `SHOWN_SECONDS`.
    """
    asked_at = clock()
    deadline, awaited = asked_at + SHOWN_SECONDS, sum(counts.values())
    missing = dict(counts)
    refused: dict[str, TwinlogError] = {}
    while missing:
        seen = describe_topics(session, missing)
        refused |= {name: error for name, error in seen.refused.items() if error.code != NO_SUCH_TOPIC}
        missing = {name: count for name, count in missing.items() if name not in refused}
        missing = {name: count for name, count in missing.items() if not _shows(seen.found.get(name), count)}
        if not missing:
            break
        now, left = clock(), sum(count - _led(seen.found.get(name)) for name, count in missing.items())
        if left < awaited:
            deadline, awaited = now + SHOWN_SECONDS, left
        if now > deadline:
            refused |= {name: _not_shown(session, name) for name in missing}
            break
        # A question about thousands of partitions costs the broker as much as us.
        sleep(max(SHOWN_POLL_SECONDS, now - asked_at))
        asked_at = clock()
    return Answers({name: None for name in counts if name not in refused}, refused)


def _led(seen: TopicDescription | None) -> int:
    return sum(partition.leader >= 0 for partition in seen.partitions) if seen is not None else 0


def _shows(seen: TopicDescription | None, count: int) -> bool:
    return seen is not None and seen.led and len(seen.partitions) >= count


def _not_shown(session: Session, name: str) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"{session.alias} accepted topic {name} but does not show all its leaders: none has come for"
        f" {SHOWN_SECONDS:.0f} s",
        hint="check that its brokers are up; the next cycle tries again",
        code="not-shown",
        cluster=session.alias,
        topic=name,
    )


def delete_records(session: Session, at: TopicPartition, before: int) -> None:
    """Delete the records of a partition before an offset.

    Raises the cluster's refusal.
    """
    asked = _asked(session, "delete records of", at.topic, "DELETE")
    session.answers(
        lambda admin: admin.delete_records(
            [ClientPartition(at.topic, at.partition, before)], request_timeout=REQUEST_SECONDS
        ),
        lambda _: asked,
        changes=True,
    ).require()


def _new_topic(topic: NewTopic) -> kafka_admin.NewTopic:
    return kafka_admin.NewTopic(
        topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        config=dict(topic.configs),
    )


def _asked(session: Session, deed: str, name: str, operation: str) -> Asked:
    return Asked.about(session.alias, deed, f"topic {name}", operation)


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The disks and logs of all brokers together.

    `sizes` is the largest replica of each partition, in bytes. `free_percent` is that of the fullest disk, None if
    brokers do not tell (before 3.3).
    """

    sizes: Mapping[TopicPartition, int] = field(default_factory=dict)
    free_percent: float | None = None


def log_dirs(brokers: Brokers) -> LogDirs:
    """Ask every broker for its log directories.

    Raises ClusterRefused (this needs DESCRIBE on the cluster), TransientError.
    """
    sizes: dict[TopicPartition, int] = {}
    free: list[float] = []
    for connection in brokers.all_brokers():
        answer = connection.call(kafka_python.DESCRIBE_LOG_DIRS, topics=None)
        if getattr(answer, "error_code", 0):
            raise error_for(answer.error_code, "the question for its disks", brokers.settings.alias)
        for folder in answer.results:
            for topic in folder.topics:
                for partition in topic.partitions:
                    at = TopicPartition(topic.name, partition.partition_index)
                    sizes[at] = max(sizes.get(at, 0), partition.partition_size)
            total, usable = getattr(folder, "total_bytes", -1), getattr(folder, "usable_bytes", -1)
            if total > 0 and usable >= 0:
                free.append(100 * usable / total)
    return LogDirs(sizes, min(free, default=None))
