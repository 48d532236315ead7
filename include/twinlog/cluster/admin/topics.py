"""Read, create, grow and delete topics; read how large their logs are and how much disk is left (KIP-113, KIP-827)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinlog.cluster.admin.acls import operations
from twinlog.cluster.portions import requests
from twinlog.cluster.refusals import Asked, refused_by, sorted_out
from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, NewTopic, PartitionDescription, TopicDescription
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.grouped import without_keys
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers, printed

SHOWN_SECONDS = 30.0
SHOWN_POLL_SECONDS = 0.1

CREATED_AT_ONCE = 1000
"""Partitions that are created, and waited for, at a time: a broker that is busy makes a hundred a second."""

_TIMEOUT_MS = 25_000
"""How long a controller may take for a change."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """A cluster's id, how many brokers are registered with it, and what this user may do on it.

    Brokers tell the operations only to a user who may DESCRIBE the cluster (KafkaApis).
    """

    cluster_id: str
    brokers: int
    operations: frozenset[str]


def describe_cluster(brokers: Brokers) -> ClusterDescription:
    """Ask any broker about its cluster; this is the cheapest proof that the cluster can be reached."""
    answer = _described(brokers, [], of_cluster=True)
    return ClusterDescription(
        answer.cluster_id or "", len(answer.brokers), operations(answer.authorized_operations)
    )


def topic_names(brokers: Brokers) -> tuple[str, ...]:
    """Return all topics this user may see, sorted."""
    return tuple(sorted(brokers.topic_names()))


def describe_topics(brokers: Brokers, names: Iterable[str]) -> Answers[str, TopicDescription]:
    """Describe topics, with their ids and what this user may do on them."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return Answers({})
    return sorted_out(
        wanted,
        lambda: [(topic.name, topic) for topic in _described(brokers, wanted).topics],
        parse_description,
        lambda name: _asked(brokers, "describe", name, "DESCRIBE"),
    )


def _described(brokers: Brokers, names: Iterable[str], *, of_cluster: bool = False) -> Any:
    topic = kafka_python.DESCRIPTION.request.MetadataRequestTopic
    return brokers.ask_any(
        kafka_python.DESCRIPTION,
        topics=[topic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=of_cluster,
        include_topic_authorized_operations=not of_cluster,
    )


def parse_description(answer: Any) -> TopicDescription:
    """Return a topic as Metadata describes it."""
    partitions = sorted(
        (
            PartitionDescription(
                partition=partition.partition_index,
                leader=partition.leader_id,
                replicas=tuple(partition.replica_nodes),
                in_sync=tuple(partition.isr_nodes),
            )
            for partition in answer.partitions
        ),
        key=lambda it: it.partition,
    )
    return TopicDescription(
        answer.name, printed(answer.topic_id), tuple(partitions), operations(answer.authorized_operations)
    )


def create_topics(brokers: Brokers, topics: Sequence[NewTopic]) -> Answers[str, None]:
    """Create topics and wait until metadata shows them with leaders; existing ones count as created.

    A broker shows what was created together once it has made all of it, so many partitions are created in turns.  If
    the cluster refuses a topic for its many replicas, it is asked for again with its `lowered_factor`.
    """
    cut = requests(topics, lambda it: it.partitions, most=CREATED_AT_ONCE)
    return Answers.joined(_create_and_wait(brokers, turn) for turn in cut)


def _create_and_wait(brokers: Brokers, topics: Sequence[NewTopic]) -> Answers[str, None]:
    refused = _create(brokers, topics)
    too_many = [
        topic.lowered for topic in topics if _says(refused.get(topic.name), "INVALID_REPLICATION_FACTOR")
    ]
    fewer = [topic for topic in too_many if topic is not None]
    lowered = {topic.name for topic in fewer}
    refused = without_keys(refused, lowered) | _create(brokers, fewer)
    created = {topic.name for topic in topics} - set(refused)
    shown = wait_until_shown(
        brokers, {topic.name: topic.partitions for topic in topics if topic.name in created}
    )
    return Answers(shown.found, refused | dict(shown.refused))


def _create(brokers: Brokers, topics: Sequence[NewTopic]) -> dict[str, TwinlogError]:
    """Ask for topics and return those that were refused."""
    refused: dict[str, TwinlogError] = {}
    # A creation makes a metadata record for the topic, and one for each partition and each config.
    for request in requests(topics, lambda it: 1 + it.partitions + len(it.configs)):
        answers = create(brokers, request)
        refused |= {name: it for name, it in answers.refused.items() if not _says(it, "TOPIC_ALREADY_EXISTS")}
    return refused


def create(
    brokers: Brokers, topics: Sequence[NewTopic], *, validate_only: bool = False
) -> Answers[str, None]:
    """Ask the controller for topics; with `validate_only` it only says whether it would make them."""
    api = kafka_python.CREATE_TOPICS
    new, setting = api.request.CreatableTopic, api.request.CreatableTopic.CreatableTopicConfig
    wanted = [
        new(
            name=topic.name,
            num_partitions=topic.partitions,
            replication_factor=topic.replication_factor,
            assignments=[],
            configs=[setting(name=name, value=value) for name, value in topic.configs.items()],
        )
        for topic in topics
    ]
    names, deed = [topic.name for topic in topics], ("create", "CREATE")
    return _change(brokers, names, deed, api, "topics", topics=wanted, validate_only=validate_only)


def _change(
    brokers: Brokers,
    names: Sequence[str],
    deed: tuple[str, str],
    api: kafka_python.Api,
    results: str,
    **fields: Any,
) -> Answers[str, None]:
    """Ask for a change of topics; `deed` says what it does, and which operation that needs."""

    def ask() -> list[tuple[str, Any]]:
        answered = brokers.ask_controller(api, results, timeout_ms=_TIMEOUT_MS, **fields)
        return [(answer.name, answer) for answer in answered]

    return sorted_out(names, ask, lambda _: None, lambda name: _asked(brokers, deed[0], name, deed[1]))


def _says(error: TwinlogError | None, kafka_error: str) -> bool:
    return error is not None and error.data.get("kafka_error") == kafka_error


def create_partitions(brokers: Brokers, counts: Mapping[str, int]) -> Answers[str, None]:
    """Grow topics to `counts` partitions and wait until metadata shows them.

    A topic that another user has grown meanwhile is a success.
    """
    turns = requests(counts.items(), lambda item: item[1])  # each partition makes one metadata record
    answers = Answers.joined(grow(brokers, turn) for turn in turns)
    grown = _grown_already(brokers, answers.refused, counts)
    refused = without_keys(answers.refused, grown)
    shown = wait_until_shown(brokers, {name: counts[name] for name in (*answers.found, *grown)})
    return Answers(shown.found, refused | dict(shown.refused))


def grow(
    brokers: Brokers, counts: Sequence[tuple[str, int]], *, validate_only: bool = False
) -> Answers[str, None]:
    """Ask the controller for more partitions; with `validate_only` it only says whether it would make them."""
    api = kafka_python.CREATE_PARTITIONS
    topic = api.request.CreatePartitionsTopic
    wanted = [topic(name=name, count=count, assignments=None) for name, count in counts]
    names, deed = [name for name, _ in counts], ("add partitions to", "ALTER")
    return _change(brokers, names, deed, api, "results", topics=wanted, validate_only=validate_only)


def _grown_already(
    brokers: Brokers, refused: Mapping[str, TwinlogError], counts: Mapping[str, int]
) -> frozenset[str]:
    """Return the topics that would not grow and have that many partitions by now."""
    doubtful = [name for name, it in refused.items() if _says(it, "INVALID_PARTITIONS")]
    found = describe_topics(brokers, doubtful).found if doubtful else {}
    return frozenset(name for name, it in found.items() if len(it.partitions) >= counts[name])


def delete_topics(brokers: Brokers, names: Iterable[str]) -> Answers[str, None]:
    """Delete topics; their names may still be listed for a moment."""
    wanted = list(names)
    if not wanted:
        return Answers({})
    deed = "delete", "DELETE"
    return _change(brokers, wanted, deed, kafka_python.DELETE_TOPICS, "responses", topic_names=wanted)


def wait_until_shown(
    brokers: Brokers,
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
        seen = describe_topics(brokers, missing)
        refused |= {name: error for name, error in seen.refused.items() if error.code != NO_SUCH_TOPIC}
        missing = without_keys(missing, refused)
        missing = {name: count for name, count in missing.items() if not _shows(seen.found.get(name), count)}
        if not missing:
            break
        now, left = clock(), sum(count - _led(seen.found.get(name)) for name, count in missing.items())
        if left < awaited:
            deadline, awaited = now + SHOWN_SECONDS, left
        if now > deadline:
            refused |= {name: _not_shown(brokers, name) for name in missing}
            break
        # A question about thousands of partitions costs the broker as much as us.
        sleep(max(SHOWN_POLL_SECONDS, now - asked_at))
        asked_at = clock()
    return Answers({name: None for name in counts if name not in refused}, refused)


def _led(seen: TopicDescription | None) -> int:
    return sum(partition.leader >= 0 for partition in seen.partitions) if seen is not None else 0


def _shows(seen: TopicDescription | None, count: int) -> bool:
    return seen is not None and seen.led and len(seen.partitions) >= count


def _not_shown(brokers: Brokers, name: str) -> ClusterUnreachable:
    return ClusterUnreachable(
        f"{brokers.settings.alias} accepted topic {name} but does not show all its leaders: none has come for"
        f" {SHOWN_SECONDS:.0f} s",
        hint="check that its brokers are up; the next cycle tries again",
        code="not-shown",
        cluster=brokers.settings.alias,
        topic=name,
    )


def _asked(brokers: Brokers, deed: str, name: str, operation: str) -> Asked:
    return Asked.about(brokers.settings.alias, deed, f"topic {name}", operation)


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
    for answer in brokers.of_all(lambda it: it.call(kafka_python.DESCRIBE_LOG_DIRS, topics=None)):
        if getattr(answer, "error_code", 0):
            asked = Asked(brokers.settings.alias, "see", "its disks", "DESCRIBE on the cluster")
            raise refused_by(answer, asked)
        for folder in answer.results:
            for topic in folder.topics:
                for partition in topic.partitions:
                    at = TopicPartition(topic.name, partition.partition_index)
                    sizes[at] = max(sizes.get(at, 0), partition.partition_size)
            total, usable = getattr(folder, "total_bytes", -1), getattr(folder, "usable_bytes", -1)
            if total > 0 and usable >= 0:
                free.append(100 * usable / total)
    return LogDirs(sizes, min(free, default=None))
