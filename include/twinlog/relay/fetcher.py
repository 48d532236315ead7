"""Fetching many partitions from their leaders, with the next request on its way while the last answer is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twinlog.errors import TerminalError
from twinlog.relay.brokers import Brokers, TopicPartition
from twinlog.relay.connection import Connection, answering
from twinlog.relay.error_codes import error_for
from twinlog.relay.wire import FETCH, FETCH_VERSION, Fetched, FetchPosition, fetch_request, fetch_response

MAX_WAIT_MS = 500


@dataclass(slots=True)
class _Buffer:
    """A receive buffer that grows to the largest answer and is used again for the next one."""

    memory: bytearray = field(default_factory=lambda: bytearray(1 << 16))

    def allocate(self, size: int) -> memoryview:
        if size > len(self.memory):
            self.memory = bytearray(size + (size >> 3))
        return memoryview(self.memory)[:size]


@dataclass(slots=True)
class _Leader:
    """One leader's conversation: its buffer, which partitions it was asked for, and where the next turn begins."""

    connection: Connection
    buffer: _Buffer = field(default_factory=_Buffer)
    asked: dict[TopicPartition, int] = field(default_factory=dict)
    turn: int = 0


class Fetcher:
    """Reads partitions from upstream positions on; positions are asked for anew at each request.

    `positions` returns the upstream offset of every partition still wanted.  A partition is in at most one
    request at a time.  Blocks of an answer are valid until the next answer of the same leader is read, which
    happens only when the iterator is advanced to it.
    """

    def __init__(
        self,
        brokers: Brokers,
        *,
        max_bytes: int,
        partition_max_bytes: int,
        read_committed: bool,
        max_wait_ms: int = MAX_WAIT_MS,
    ) -> None:
        self._brokers = brokers
        self._max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._read_committed = read_committed
        self._max_wait_ms = max_wait_ms
        self._leaders: dict[int, _Leader] = {}

    def request(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, TerminalError]:
        """Send a fetch to every leader without one on the way, for its partitions.

        Returns the partitions that no longer exist or may not be seen, with the reason; the others are asked for.
        """
        by_leader: dict[int, list[TopicPartition]] = {}
        refused: dict[TopicPartition, TerminalError] = {}
        for partition in positions:
            try:
                by_leader.setdefault(self._brokers.leader(*partition), []).append(partition)
            except TerminalError as error:
                refused[partition] = error
        for node, partitions in by_leader.items():
            leader = self._leader(node)
            if not leader.asked:
                self._ask(leader, partitions, positions)
        return refused

    def answers(self, within: float | None = None) -> Iterator[list[Fetched]]:
        """Read one answer of each leader that has a request on the way.

        With `within` (seconds) only of those that answer in time, and as soon as one does.
        """
        waiting = [leader for leader in self._leaders.values() if leader.asked]
        if within is not None:
            ready = answering([leader.connection for leader in waiting], within)
            waiting = [leader for leader in waiting if leader.connection in ready]
        for leader in waiting:
            payload = leader.connection.receive(leader.buffer.allocate)
            asked, leader.asked = leader.asked, {}
            error, partitions = fetch_response(payload)
            if error:
                raise error_for(error, "a fetch", self._brokers.settings.alias)
            for fetched in partitions:
                fetched.asked_offset = asked[fetched.topic, fetched.partition]
            yield partitions

    def discard(self) -> None:
        """Read and forget the answers on the way, after positions have been set back."""
        for _ in self.answers():
            pass

    def _leader(self, node: int) -> _Leader:
        found = self._leaders.get(node)
        if found is None:
            found = self._leaders[node] = _Leader(self._brokers.node(node, "fetch"))
        return found

    def _ask(
        self, leader: _Leader, partitions: Sequence[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> None:
        """Ask in turns: brokers fill an answer in order, and only its first batch may exceed the limit."""
        leader.turn = (leader.turn + 1) % len(partitions)
        ordered = [*partitions[leader.turn :], *partitions[: leader.turn]]
        body = fetch_request(
            (
                FetchPosition(topic, partition, positions[topic, partition], self._partition_max_bytes)
                for topic, partition in _grouped(ordered)
            ),
            max_bytes=self._max_bytes,
            max_wait_ms=self._max_wait_ms,
            read_committed=self._read_committed,
        )
        leader.connection.keep_login()
        leader.connection.send(FETCH, FETCH_VERSION, [body])
        leader.asked = {item: positions[item] for item in ordered}


def _grouped(partitions: Sequence[TopicPartition]) -> Iterator[TopicPartition]:
    """Keep the order of topics by first appearance, each topic's partitions together."""
    topics: dict[str, list[TopicPartition]] = {}
    for item in partitions:
        topics.setdefault(item[0], []).append(item)
    for items in topics.values():
        yield from items
