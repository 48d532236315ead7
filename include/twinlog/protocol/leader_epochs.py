"""Ask partition leaders where leader epochs end, and which producers write (KIP-101, KIP-320, KIP-664).

The ends tell a truncated log from one that only grew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from twinlog.batches.header import HEADER_BYTES, BatchHeader
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code
from twinlog.protocol.fetch_backoff import NOBODY
from twinlog.protocol.legacy import is_old
from twinlog.protocol.socket.connection import Connection

_TELLS_EPOCH = 1
"""The first version of OffsetForLeaderEpoch whose answer names the epoch it is about (2.0, KIP-279)."""

_CONSUMER = -1
"""Replica id of a client: a client sees nothing beyond the high watermark."""


class ReadUpTo(NamedTuple):
    """Tell how far a log was read: `next_offset` (upstream), and the leader epoch of the batch right before it.

    If compaction left no batch right before `next_offset`, `epoch` is that of the first batch behind it.
    """

    epoch: int
    next_offset: int


class EpochEnd(NamedTuple):
    """The largest leader epoch at or below the one asked for, and the upstream offset at which it ends.

    Both are -1 if the log knows no epoch as large as the one asked for.
    """

    epoch: int
    end: int


def epoch_ends(brokers: Brokers, asked: Mapping[TopicPartition, ReadUpTo]) -> dict[TopicPartition, EpochEnd]:
    """Ask where the leader epoch of each partition ends; partitions whose leader does not answer that are left out.

    So are those whose leader does not know the request.  Elections are not waited for: a partition without a leader
    cannot be copied from either.  If a log names an older epoch than the one asked for, compaction may have removed
    all batches of that epoch; the log is then inspected.
    Raises ClusterUnreachable.
    """
    unknown = {topic for topic, partition in asked if brokers.known_leader(topic, partition) < 0}
    if unknown:
        brokers.metadata(unknown)
    groups: dict[int, dict[TopicPartition, ReadUpTo]] = {}
    for partition, read in asked.items():
        groups.setdefault(brokers.known_leader(*partition), {})[partition] = read
    groups.pop(NOBODY, None)
    found: dict[TopicPartition, EpochEnd] = {}
    for node, group in groups.items():
        connection = brokers.node(node, "coordinate")
        if connection.offers(kafka_python.EPOCH_ENDS.request.API_KEY) < _TELLS_EPOCH:
            continue
        connection.keep_login()
        answer = connection.call(kafka_python.EPOCH_ENDS, replica_id=_CONSUMER, topics=_topics(group))
        for topic in answer.topics:
            for item in topic.partitions:
                if item.error_code == 0:
                    found[TopicPartition(topic.topic, item.partition)] = EpochEnd(
                        item.leader_epoch, item.end_offset
                    )
        for partition, read in group.items():
            end = found.get(partition)
            if end is None or not 0 <= end.epoch < read.epoch or end.end < read.next_offset:
                continue
            compacted = _compacted(connection, partition, read)
            if compacted is None:
                del found[partition]
            elif compacted:
                found[partition] = EpochEnd(read.epoch, end.end)
    return found


def diverged_at(asked_epoch: int, answer: EpochEnd, next_offset: int) -> int | None:
    """Return the first upstream offset that the log no longer holds as it was read; None if it still holds all of it.

    `next_offset` is one past the last offset read, in leader epoch `asked_epoch`.  If the log no longer knows that
    epoch, it has lost everything written in it, and the first lost offset is unknown: -1.  (The end of the older epoch
    does not tell it either: the lost epoch may have begun before that end, under a leader that lacked part of the
    older epoch.)

        asked for epoch 5, read up to offset 80

        log answers (5, 90)   None   epoch 5 reaches beyond 80: the log only grew
        log answers (5, 70)   70     offsets 70 to 79 are gone or were replaced
        log answers (4, 60)   -1     epoch 5 is gone

    Pure.
    """
    if answer.epoch != asked_epoch:
        return -1
    return answer.end if answer.end < next_offset else None


def _compacted(connection: Connection, partition: TopicPartition, read: ReadUpTo) -> bool | None:
    """Say whether a log without the epoch that was read can be the log that was read, with that epoch compacted away.

    A replica created since then knows only the epochs of batches that are left (LeaderEpochFileCache).  The log is the
    same if it holds nothing at the offset before `read.next_offset`, and no older epoch behind that offset: epochs
    never decrease within a log.  Returns None if the leader does not let us look.
    """
    for offset in (read.next_offset - 1, read.next_offset):  # everything before the latter may be deleted
        block = _first_batch(connection, partition, offset)
        if block is None:
            return None
        if len(block) >= HEADER_BYTES and not is_old(block):
            found = BatchHeader.read(block)
            behind = found.base_offset >= read.next_offset
            return found.leader_epoch == read.epoch or (behind and found.leader_epoch > read.epoch)
    return True  # no batch to inspect yet: a lane asks again when there is one


def _first_batch(connection: Connection, partition: TopicPartition, offset: int) -> memoryview | None:
    """Fetch the first batch at or behind an offset, as it lies in the log and unverified.

    Empty if there is no batch, None if the request is refused.
    """
    topic = kafka_python.FETCH.request.FetchTopic
    wanted = topic.FetchPartition(
        partition=partition[1],
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=1,  # brokers return at least one whole batch
    )
    answer = connection.call(
        kafka_python.FETCH,
        replica_id=_CONSUMER,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=partition[0], partitions=[wanted])],
        forgotten_topics_data=[],
        rack_id="",
    )
    ((found,),) = (list(each.partitions) for each in answer.responses)
    if found.error_code not in {0, Code.OFFSET_OUT_OF_RANGE}:
        return None
    return memoryview(found.records or b"")


def _topics(group: Mapping[TopicPartition, ReadUpTo]) -> list[Any]:
    request = kafka_python.EPOCH_ENDS.request
    entry = request.OffsetForLeaderTopic.OffsetForLeaderPartition
    by_topic = grouped(
        (topic, entry(partition=partition, current_leader_epoch=-1, leader_epoch=read.epoch))
        for (topic, partition), read in group.items()
    )
    return [request.OffsetForLeaderTopic(topic=name, partitions=items) for name, items in by_topic.items()]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A producer known to a partition; `first_offset` is where its open transaction begins, -1 if it has none."""

    producer_id: int
    producer_epoch: int
    first_offset: int


def tells_producers(connection: Connection) -> bool:
    """Say whether the broker supports the request: Kafka before 2.8 does not."""
    return connection.offers(kafka_python.DESCRIBE_PRODUCERS.request.API_KEY) >= 0


def producer_states(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, tuple[ProducerState, ...]], dict[TopicPartition, int]]:
    """Ask the leader of some partitions for their producers; return those, and error codes for the others.

    Requires READ on the topics.
    """
    api = kafka_python.DESCRIBE_PRODUCERS
    names = grouped(partitions)
    entry: Any = api.request.TopicRequest
    answer = connection.call(
        api, topics=[entry(name=name, partition_indexes=numbers) for name, numbers in names.items()]
    )
    found: dict[TopicPartition, tuple[ProducerState, ...]] = {}
    refused: dict[TopicPartition, int] = {}
    for topic in answer.topics:
        for item in topic.partitions:
            place = TopicPartition(topic.name, item.partition_index)
            if item.error_code:
                refused[place] = int(item.error_code)
                continue
            found[place] = tuple(
                ProducerState(
                    int(one.producer_id), int(one.producer_epoch), int(one.current_txn_start_offset)
                )
                for one in item.active_producers
            )
    return found, refused
