"""Ask the leaders of many partitions at once: for offsets (Kafka protocol, ListOffsets), and to delete records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from twinlog.cluster.refusals import Asked, sorted_out
from twinlog.cluster.values import Answers, PartitionOffsets
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.grouped import grouped, without_keys
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import EARLIEST, LATEST, Brokers, list_offsets
from twinlog.protocol.errors import LEADER_MOVED, Code
from twinlog.protocol.socket.connection import Connection

SETTLE_SECONDS = 10.0
SETTLE_POLL_SECONDS = 0.2
_DELETION_MS = 25_000
"""How long a leader may wait for its followers."""


def offsets(
    brokers: Brokers, partitions: Iterable[TopicPartition]
) -> Answers[TopicPartition, PartitionOffsets]:
    """Return log start, stable end and end.

    The end is asked last. So log start <= stable end <= end holds, even if records are written meanwhile.
    """
    wanted = list(dict.fromkeys(partitions))
    starts = _ask(brokers, wanted, EARLIEST)
    stable = _ask(brokers, wanted, LATEST, read_committed=True)
    ends = _ask(brokers, wanted, LATEST)
    refused = {**ends.refused, **stable.refused, **starts.refused}
    return Answers(
        {
            it: PartitionOffsets(starts.found[it], max(stable.found[it], starts.found[it]), ends.found[it])
            for it in wanted
            if it not in refused
        },
        refused,
    )


def leaders(brokers: Brokers, topics: Iterable[str]) -> Mapping[TopicPartition, int]:
    """Return the node id of each partition's leader, -1 where nobody leads now."""
    return {
        TopicPartition(topic.name, number): node
        for topic in brokers.metadata(topics).values()
        for number, node in topic.leaders.items()
    }


def offsets_at(
    brokers: Brokers, partitions: Iterable[TopicPartition], timestamp: int
) -> Answers[TopicPartition, int | None]:
    """Return the first offset whose record is at `timestamp` (ms) or later, None if there is none."""
    answers = _ask(brokers, list(dict.fromkeys(partitions)), timestamp)
    return Answers(
        {it: offset if offset >= 0 else None for it, offset in answers.found.items()}, answers.refused
    )


def _ask(
    brokers: Brokers, partitions: list[TopicPartition], timestamp: int, *, read_committed: bool = False
) -> Answers[TopicPartition, int]:
    """Ask, and ask again for partitions whose leader is changing, as right after a topic's creation."""
    found: dict[TopicPartition, int] = {}
    refused: dict[TopicPartition, TwinlogError] = {}
    deadline = time.monotonic() + SETTLE_SECONDS
    while partitions:
        last = time.monotonic() > deadline  # a broker that is frozen takes longer to be lost than an election
        answers = _list_offsets(brokers, partitions, timestamp, read_committed=read_committed)
        found |= answers.found
        refused = without_keys(refused, found) | dict(answers.refused)
        partitions = [
            it for it, error in answers.refused.items() if error.data.get("kafka_code") in LEADER_MOVED
        ]
        if last:
            break
        if partitions:
            time.sleep(SETTLE_POLL_SECONDS)
    return Answers(found, refused)


def _list_offsets(
    brokers: Brokers, partitions: list[TopicPartition], timestamp: int, *, read_committed: bool
) -> Answers[TopicPartition, int]:
    def ask(leader: Connection, places: list[TopicPartition]) -> Any:
        return list_offsets(leader, places, timestamp, read_committed=read_committed)

    return sorted_out(
        partitions,
        lambda: _of_leaders(brokers, partitions, ask),
        lambda it: int(it.offset),
        lambda it: Asked(
            brokers.settings.alias,
            "list offsets of",
            f"topic {it.topic} partition {it.partition}",
            f"DESCRIBE on topic {it.topic}",
        ),
    )


def delete_records(brokers: Brokers, at: TopicPartition, before: int) -> None:
    """Delete the records of a partition before an offset.

    Raises the cluster's refusal.
    """
    request = kafka_python.DELETE_RECORDS.request.DeleteRecordsTopic
    part = request.DeleteRecordsPartition(partition_index=at.partition, offset=before)

    def ask(leader: Connection, _: list[TopicPartition]) -> Any:
        topic = request(name=at.topic, partitions=[part])
        return leader.call(kafka_python.DELETE_RECORDS, topics=[topic], timeout_ms=_DELETION_MS)

    asked = Asked.about(brokers.settings.alias, "delete records of", f"topic {at.topic}", "DELETE")
    sorted_out([at], lambda: _of_leaders(brokers, [at], ask), lambda _: None, lambda _: asked).require()


def _of_leaders(
    brokers: Brokers,
    partitions: Iterable[TopicPartition],
    ask: Callable[[Connection, list[TopicPartition]], Any],
) -> Iterator[tuple[TopicPartition, Any]]:
    """Ask the leader of each partition; yield the answers, or the code of one that has no leader or whose is gone."""
    wanted = list(partitions)
    unknown = {it.topic for it in wanted if brokers.known_leader(*it) < 0}
    topics = brokers.metadata(unknown) if unknown else {}
    led: list[tuple[int, TopicPartition]] = []
    for it in wanted:
        leader = brokers.known_leader(*it)
        if leader >= 0:
            led.append((leader, it))
            continue
        topic = topics[it.topic]
        known = it.partition in topic.leaders
        none = Code.LEADER_NOT_AVAILABLE if known else Code.UNKNOWN_TOPIC_OR_PARTITION
        yield it, SimpleNamespace(error_code=topic.error or none)
    for node, its in grouped(led).items():
        try:
            answer = ask(brokers.node(node, "coordinate"), its)
        except ClusterUnreachable:  # only this broker; the metadata is asked again for another leader
            for it in its:
                brokers.forget_leader(*it)
                yield it, SimpleNamespace(error_code=Code.LEADER_NOT_AVAILABLE)
            continue
        for topic in answer.topics:
            for partition in topic.partitions:
                at = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    brokers.forget_leader(*at)
                yield at, partition
