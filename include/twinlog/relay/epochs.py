"""Where the source's leader epochs end: how a truncated log is told from one that only grew (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from twinlog.errors import TwinlogError
from twinlog.relay import kafka_python
from twinlog.relay.brokers import Brokers, TopicPartition

_CONSUMER = -1
"""Replica id of a client: it sees nothing beyond the high watermark."""


class EpochEnd(NamedTuple):
    """The largest leader epoch at or below the one asked for, and the upstream offset at which it ends.

    Both are -1 when the log knows no epoch as large as the one asked for.
    """

    epoch: int
    end: int


def epoch_ends(brokers: Brokers, asked: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    """Ask where the leader epoch of each partition ends; partitions whose leader is moving are left out.

    Raises ClusterUnreachable.
    """
    groups: dict[int, dict[TopicPartition, int]] = {}
    for partition, epoch in asked.items():
        try:
            groups.setdefault(brokers.leader(*partition), {})[partition] = epoch
        except TwinlogError:  # gone, or without a leader: nothing can be copied from it either
            continue
    found: dict[TopicPartition, EpochEnd] = {}
    for node, group in groups.items():
        answer = brokers.node(node, "coordinate").call(
            kafka_python.EPOCH_ENDS, replica_id=_CONSUMER, topics=_topics(group)
        )
        for topic in answer.topics:
            for item in topic.partitions:
                if item.error_code == 0:
                    found[topic.topic, item.partition] = EpochEnd(item.leader_epoch, item.end_offset)
    return found


def diverged_at(asked_epoch: int, answer: EpochEnd, next_offset: int) -> int | None:
    """First upstream offset that the log no longer holds as it was read; None when it still holds all of it.

    `next_offset` is one past the last offset read, in leader epoch `asked_epoch`.  A log that knows no such epoch
    has lost all that was written in it, and nobody can say how much more: -1.  Pure.
    """
    if answer.epoch < 0:
        return -1
    return answer.end if answer.end < next_offset and answer.epoch <= asked_epoch else None


def _topics(group: Mapping[TopicPartition, int]) -> list[Any]:
    request = kafka_python.EPOCH_ENDS.request
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), epoch in group.items():
        entry = request.OffsetForLeaderTopic.OffsetForLeaderPartition(
            partition=partition, current_leader_epoch=-1, leader_epoch=epoch
        )
        by_topic.setdefault(topic, []).append(entry)
    return [request.OffsetForLeaderTopic(topic=name, partitions=items) for name, items in by_topic.items()]
