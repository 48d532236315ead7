"""Find transactions of ours that lack their end in a partition, and keep lanes from writing behind them.

While a Kafka 4 coordinator writes the markers of a transaction, it skips partitions that have no leader, as after a
restart of the only replica, and then calls the transaction complete (KAFKA-20734; its log says "likely deleted already
and hence can be skipped"). The records left open in such a partition become part of the next transaction that the
same producer writes there, and are committed or aborted with it:

    records of transaction 1 (aborted) | marker lost | records of transaction 2 | COMMIT   commits both

So an aborted record would be doubled, and a committed one would be lost. With an unclean election a target may also
lose the last records of a log.

Invariant E: a partition is added to a transaction only if every earlier transaction of its lane has an end in it.
Checking before each transaction would double its requests, so the check is made only after a sign of doubt: a leader
refused, closed its connection or could not be reached; the coordinator was lost or moved; or a transaction took
unusually long to complete. Before a lane's first transaction the driver has checked (copying/mend/copies.py).

Invariant T: a partition is not added if its log ends before a record that was acknowledged in it. Otherwise the next
records would take the offsets of lost ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from twinlog.errors import TransientError
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.protocol.brokers import LATEST, Brokers
from twinlog.protocol.errors import Code, error_for
from twinlog.protocol.leader_epochs import producer_states, tells_producers

_ENDS_PAUSE_SECONDS = 0.02

_LEADERS_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction without an end in a partition: its producer, its first downstream offset, and the log's end."""

    producer_id: int
    first_offset: int
    log_end: int


@dataclass(frozen=True, slots=True)
class FoundHanging:
    """The result of a search: the first open transaction by partition, and partitions that cannot be checked now.

    `gone` are partitions of topics that the asked broker does not know.  `ends` are the ends of the logs that could be
    checked (downstream; the high watermark).
    """

    open: Mapping[TopicPartition, HangingTransaction]
    leaderless: frozenset[TopicPartition]
    gone: frozenset[TopicPartition]
    ends: Positions


def find_hanging(
    target: Brokers, partitions: Iterable[TopicPartition], ours: Collection[int]
) -> FoundHanging:
    """Find the partitions in which a producer of `ours` has a transaction open.

    Call it while no lane of `ours` writes: a lane at work rightly has a transaction open.  The search takes two
    requests for all partitions with a leader, and one more if a transaction is open.  Raises TransientError, and
    ClusterRefused (it needs Read).
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
    """Search repeatedly until no transaction is open, for at most `seconds`: markers follow the answer to EndTxn.

    Raises as `find_hanging`.
    """
    return _look_while(lambda seen: seen.open, target, partitions, ours, seconds, _ENDS_PAUSE_SECONDS)


def wait_until_led(
    target: Brokers, partitions: Collection[TopicPartition], ours: Collection[int], seconds: float
) -> FoundHanging:
    """Search repeatedly until all partitions have a leader, for at most `seconds`.  Raises as `find_hanging`."""
    return _look_while(
        lambda seen: seen.leaderless, target, partitions, ours, seconds, _LEADERS_PAUSE_SECONDS
    )


def _look_while(
    unfinished: Callable[[FoundHanging], Collection[TopicPartition]],
    target: Brokers,
    partitions: Collection[TopicPartition],
    ours: Collection[int],
    seconds: float,
    pause_seconds: float,
) -> FoundHanging:
    deadline = time.monotonic() + seconds
    while unfinished(seen := find_hanging(target, partitions, ours)) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return seen


def _open_at(
    target: Brokers, node: int, ends: Positions, ours: Collection[int]
) -> dict[TopicPartition, HangingTransaction]:
    """Ask one leader who writes to its partitions (KIP-664; Kafka before 2.8 cannot say, and loses no markers)."""
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


_PATIENCE_SECONDS = 5.0
"""How long markers may be on their way."""


@dataclass(slots=True)
class Ends:
    """The partitions that one producer has written to, and those of them that have to be checked.  Single-threaded.

    `reached` is the last known end of each partition's log (downstream, exclusive).
    """

    brokers: Brokers
    producer_id: int
    reached: dict[TopicPartition, int] = field(default_factory=dict)
    _known: set[TopicPartition] = field(default_factory=set)
    _doubted: set[TopicPartition] = field(default_factory=set)

    def added(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions that were added to a transaction."""
        self._known.update(partitions)

    def doubt(self) -> None:
        """Note a sign of doubt: check every partition that was ever added, before it is added again."""
        self._doubted |= self._known

    def unseen(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Check those of `partitions` that are in doubt; return the ones without a leader to ask.

        Partitions without a leader stay in doubt.  So do partitions that, by the broker that was asked, no longer
        exist: AddPartitions decides about them.  Raises TransientError (`lost-marker`) for a transaction that stays
        open, (`lost-tail`) for a log that has become shorter, and ClusterRefused as `find_hanging`.
        """
        doubted = self.doubted(partitions)
        if not doubted:
            return doubted
        try:
            seen = wait_until_ended(self.brokers, doubted, {self.producer_id}, _PATIENCE_SECONDS)
        except TransientError:
            return doubted
        for (topic, partition), it in seen.open.items():
            raise TransientError(
                f"{topic}-{partition} lacks the end of a transaction that began at {it.first_offset}",
                code="lost-marker",
            )
        for (topic, partition), end in seen.ends.items():
            if end < (reached := self.reached.get(TopicPartition(topic, partition), 0)):
                raise TransientError(
                    f"{topic}-{partition} ended at offset {reached}, and ends at {end} now: records were lost",
                    code="lost-tail",
                )
        self._doubted -= doubted - seen.leaderless - seen.gone
        return seen.leaderless

    def doubted(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of `partitions` that have not been checked since the last sign."""
        return frozenset(self._doubted.intersection(partitions))
