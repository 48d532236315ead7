"""Transactions of ours that partitions of the target hold open though they have been ended: their ends were lost.

While a coordinator of Kafka 4 writes the markers of a transaction, it passes over partitions that have no leader, as
after a restart of the only replica, and then calls the transaction complete (KAFKA-20734; its log says "likely deleted
already and hence can be skipped").  What is open in such a partition belongs to whatever the same producer writes there
next, and is committed or aborted with it: an aborted record would be doubled, a committed one lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from twinlog.protocol.brokers import Brokers, TopicPartition
from twinlog.protocol.error_codes import Code, error_for
from twinlog.protocol.list_offsets import LATEST
from twinlog.protocol.producer_states import producer_states, tells_producers

_ENDS_PAUSE_SECONDS = 0.02
_LEADERS_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that has no end in a partition: whose, its first downstream offset, and where the log ends."""

    producer_id: int
    first_offset: int
    log_end: int


@dataclass(frozen=True, slots=True)
class FoundHanging:
    """What was seen: the first open transaction by partition, and which partitions cannot be looked at now.

    `gone` are partitions of topics that the broker which was asked does not know.  `ends` is where the logs of those
    that could be looked at end (downstream; the high watermark).
    """

    open: Mapping[TopicPartition, HangingTransaction]
    leaderless: frozenset[TopicPartition]
    gone: frozenset[TopicPartition]
    ends: Mapping[TopicPartition, int]


def find_hanging(
    target: Brokers, partitions: Iterable[TopicPartition], ours: Collection[int]
) -> FoundHanging:
    """Find the partitions in which a producer of `ours` has a transaction open.

    Call while no lane of theirs writes: a lane at work has a transaction open, and should.  Two questions for all
    partitions that have a leader, and one more where something is open.  Raises TransientError and ClusterRefused (it
    needs Read).
    """
    wanted = list(partitions)
    topics = target.metadata({topic for topic, _ in wanted})
    led = [item for item in wanted if topics[item[0]].is_led(item[1])]
    stable = target.offsets(led, LATEST, read_committed=True)
    ends = target.offsets(led, LATEST)
    found: dict[TopicPartition, HangingTransaction] = {}
    for node, group in target.by_leader(item for item in led if stable[item] < ends[item]).items():
        found |= _open_at(target, node, {item: ends[item] for item in group}, ours)
    gone = frozenset(it for it in wanted if topics[it[0]].error == Code.UNKNOWN_TOPIC_OR_PARTITION)
    return FoundHanging(found, frozenset(wanted) - gone - set(led), gone, ends)


def wait_until_ended(
    target: Brokers, partitions: Collection[TopicPartition], ours: Collection[int], seconds: float
) -> FoundHanging:
    """Look again and again until nothing is open, for so long: markers are written behind the answer to EndTxn.

    Raises as `find_hanging`.
    """
    return _look_while(lambda seen: seen.open, target, partitions, ours, seconds, _ENDS_PAUSE_SECONDS)


def wait_until_led(
    target: Brokers, partitions: Collection[TopicPartition], ours: Collection[int], seconds: float
) -> FoundHanging:
    """Look again and again until all have a leader, for so long.  Raises as `find_hanging`."""
    return _look_while(
        lambda seen: seen.leaderless, target, partitions, ours, seconds, _LEADERS_PAUSE_SECONDS
    )


def _look_while(
    unsettled: Callable[[FoundHanging], Collection[TopicPartition]],
    target: Brokers,
    partitions: Collection[TopicPartition],
    ours: Collection[int],
    seconds: float,
    pause_seconds: float,
) -> FoundHanging:
    deadline = time.monotonic() + seconds
    while unsettled(seen := find_hanging(target, partitions, ours)) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return seen


def _open_at(
    target: Brokers, node: int, ends: Mapping[TopicPartition, int], ours: Collection[int]
) -> dict[TopicPartition, HangingTransaction]:
    """Ask one leader who writes to its partitions (KIP-664; Kafka before 2.8 cannot say, and loses no ends)."""
    connection = target.node(node, "coordinate")
    if not tells_producers(connection):
        return {}
    states, refused = producer_states(connection, ends)
    for (topic, partition), code in refused.items():
        target.forget_leaders()
        doing = f"the question who writes to {topic}-{partition}"
        raise error_for(code, doing, target.settings.alias)
    found: dict[TopicPartition, HangingTransaction] = {}
    for place, producers in states.items():
        mine = [
            HangingTransaction(one.producer_id, one.first_offset, ends[place])
            for one in producers
            if one.first_offset >= 0 and one.producer_id in ours
        ]
        if mine:
            found[place] = min(mine, key=lambda one: one.first_offset)
    return found
