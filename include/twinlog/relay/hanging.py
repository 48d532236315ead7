"""Transactions of ours that partitions of the copy hold open behind the fence: the target lost their ends.

The fence ends what its lanes had open, and returns when that is decided and told.  But brokers of Kafka 4 pass over
partitions without a leader while they tell (see relay/fence.py), as after a restart of the only replica.  What lies
there then belongs to whatever the same lane writes next, and would be committed or aborted with it: records are
doubled, or lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from twinlog.relay import kafka_python
from twinlog.relay.brokers import LATEST, Brokers, TopicPartition
from twinlog.relay.error_codes import error_for


@dataclass(frozen=True, slots=True)
class Open:
    """A transaction that has no end in a partition: whose, and its first downstream offset."""

    producer_id: int
    first_offset: int


def hanging(
    target: Brokers, partitions: Iterable[TopicPartition], ours: Collection[int]
) -> dict[TopicPartition, Open]:
    """Return the partitions in which a producer of `ours` has a transaction open: the first one in each.

    Call behind the fence: before, lanes have transactions open rightly.  Two questions for all partitions that have a
    leader, and one more where something is open.  Raises TransientError and ClusterRefused (it needs Read).
    """
    wanted = list(partitions)
    topics = target.metadata({topic for topic, _ in wanted})
    led = [item for item in wanted if topics[item[0]].is_led(item[1])]
    stable = target.offsets(led, LATEST, read_committed=True)
    ends = target.offsets(led, LATEST)
    found: dict[TopicPartition, Open] = {}
    for node, group in target.by_leader(item for item in led if stable[item] < ends[item]).items():
        found |= _open_at(target, node, group, ours)
    return found


def _open_at(
    target: Brokers, node: int, partitions: Iterable[TopicPartition], ours: Collection[int]
) -> dict[TopicPartition, Open]:
    """Ask one leader who writes to its partitions (KIP-664; Kafka before 2.8 cannot say, and loses no ends)."""
    connection = target.node(node, "coordinate")
    api = kafka_python.DESCRIBE_PRODUCERS
    if connection.offers(api.request.API_KEY) < 0:
        return {}
    names: dict[str, list[int]] = {}
    for topic, partition in partitions:
        names.setdefault(topic, []).append(partition)
    entry: Any = api.request.TopicRequest
    answer = connection.call(
        api, topics=[entry(name=name, partition_indexes=numbers) for name, numbers in names.items()]
    )
    found: dict[TopicPartition, Open] = {}
    for topic in answer.topics:
        for item in topic.partitions:
            if item.error_code:
                target.forget_leaders()
                doing = f"the question who writes to {topic.name}-{item.partition_index}"
                raise error_for(item.error_code, doing, target.settings.alias)
            mine = [
                Open(int(it.producer_id), int(it.current_txn_start_offset))
                for it in item.active_producers
                if it.current_txn_start_offset >= 0 and it.producer_id in ours
            ]
            if mine:
                found[topic.name, item.partition_index] = min(mine, key=lambda it: it.first_offset)
    return found
