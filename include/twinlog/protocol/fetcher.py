"""Fetch many partitions from their leaders; the next request is on its way while the last answer is processed.

A client with a rack reads from the followers that the leaders name (KIP-392, `NearestReplicas`).  Below,
"leader" is whichever of the two is asked.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from twinlog.batches.memory import reserve
from twinlog.errors import ClusterUnreachable, TerminalError, TwinlogError
from twinlog.grouped import grouped, without_keys
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.protocol import fetch_by_id, wire
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.errors import Code, Request, code_name, error_for, repeats
from twinlog.protocol.fetch_backoff import NOBODY, FetchBackoff
from twinlog.protocol.socket.connection import Connection, answering

log = logging.getLogger(__name__)

CHOSEN_SECONDS = 300.0
"""How long a replica is read from before its leader chooses anew."""

DOUBT_SECONDS = 30.0
"""How long leaders serve everything themselves after a replica was lost or has refused something."""


@dataclass(slots=True)
class NearestReplicas:
    """The replicas of `rack` that leaders have named; of no use if `rack` is empty.

    A leader that knows a replica in the rack of a request answers with that replica's node id and no records.  What a
    follower serves lies below its high watermark, so it is committed, and its own words on where the log begins or ends
    are not believed: whatever it refuses, the leader is asked again.  As in Kafka's consumer a replica is read from for
    five minutes (the default of metadata.max.age.ms), then the leader chooses anew.
    """

    rack: str
    _chosen: dict[TopicPartition, tuple[int, float]] = field(default_factory=dict)
    _doubted_until: float = 0.0

    @property
    def asked_rack(self) -> str:
        """Return the rack to name in a request: none while replicas are in doubt, so that leaders name no other."""
        return self.rack if time.monotonic() >= self._doubted_until else ""

    def of(self, partition: TopicPartition) -> int | None:
        """Return the replica that was named for a partition, also if it is time to choose anew."""
        found = self._chosen.get(partition) if self._chosen else None
        return None if found is None else found[0]

    def outdated(self, partition: TopicPartition) -> bool:
        """Say whether the leader should be asked again where to read."""
        return time.monotonic() >= self._chosen[partition][1]

    def choose(self, partition: TopicPartition, node: int) -> None:
        """Note the replica that a leader has named."""
        self._chosen[partition] = node, time.monotonic() + CHOSEN_SECONDS

    def forget(self, partition: TopicPartition) -> None:
        """Go back to the leader of a partition: it is time to choose anew."""
        self._chosen.pop(partition, None)

    def doubt(self, partition: TopicPartition) -> None:
        """Go back to the leader of a partition that its replica refused to serve."""
        self.forget(partition)
        self._doubted_until = time.monotonic() + DOUBT_SECONDS

    def lose(self, node: int) -> bool:
        """Go back to the leaders of all partitions that were read from a node; say whether there were any."""
        lost = [it for it, (chosen, _) in self._chosen.items() if chosen == node]
        for it in lost:
            self.doubt(it)
        return bool(lost)


MAX_WAIT_MS = 500

NEW_SESSION = wire.FetchSession(0, 0)
"""Asks for all partitions, and for a session in which later requests name only changes."""

SESSION_LOST = frozenset({
    Code.FETCH_SESSION_ID_NOT_FOUND,
    Code.INVALID_FETCH_SESSION_EPOCH,
    Code.FETCH_SESSION_TOPIC_ID_ERROR,
})
"""The broker has dropped the session, for a newer one or in a restart: start a new session."""

_LAST_EPOCH = 2**31 - 1

NOBODY_ASKED_SECONDS = 0.02
"""Seconds to wait before the next try if no leader could be asked."""

Choice = Callable[[int, Collection[TopicPartition]], Positions | None]
"""Chooses among a leader's partitions those to ask for now, with the bytes of each; None: all, with the usual bytes."""


class _Buffers:
    """Receive buffers, used in rotation; each is reserved for the `usual` answer as soon as it is too small.

    If an answer is lost half-way, the buffers do not rotate: the next answer goes into the same buffer, and not into
    the next one, whose bytes may still be on their way to the target.
    """

    def __init__(self, count: int, usual: int) -> None:
        self._memory = deque(memoryview(bytearray(1 << 16)) for _ in range(count))
        self._usual = usual

    def allocate(self, size: int) -> memoryview:
        if size > len(self._memory[0]):
            wanted = max(size, self._usual)
            self._memory[0] = reserve(wanted + (wanted >> 3))
        return self._memory[0][:size]

    def turn(self) -> None:
        """Keep the received answer, and use the next buffer for the next answer."""
        self._memory.rotate()


@dataclass(slots=True)
class _Leader:
    """The state of one leader's conversation: what it was told, and whether and since when a request is in flight.

    `told` holds the positions that the leader knows: those of the last request, or of all requests of a session
    (KIP-227).  `leads` are all partitions that could have been asked for, also those left to a later request.
    """

    connection: Connection
    by_id: bool
    version: int
    told: dict[TopicPartition, int] = field(default_factory=dict)
    leads: Collection[TopicPartition] = ()
    session: wire.FetchSession = wire.NO_SESSION
    asked: bool = False
    asked_at: float = 0.0
    turn: int = 0


class Fetcher:
    """Read partitions from upstream positions on; the caller gives the positions with each request.

    A partition is in at most one request at a time.  The blocks of an answer stay valid until the iterator has been
    asked for `buffers` further answers, of any leader.

    With `topic_ids` (name to id, as Kafka prints it) the fetcher uses fetch sessions, in which requests name only
    changes.  Leaders that can (Kafka 3.1 on) are then asked by topic id: they answer UNKNOWN_TOPIC_ID instead of
    reading a recreated topic of the same name.  `asked_by_name` says whether any leader was asked by name.

    With `backoff`, a leader whose connection is lost, or the one elected in its place, is asked again later.  Without
    it, ClusterUnreachable is raised.  A leader that is silent for `request.timeout.ms` counts as lost, too.  A
    partition that was answered with a temporary error is asked for again later, while the others of its leader go on.
    So is a leader that throttles: its answer is then empty.  `throttled_ms` is the time for which leaders did,
    `quickest_seconds` that of the quickest answer so far: a far source has none that is quick.

    `max_bytes` may be changed between requests.  `choice` may leave partitions of a request to a later one, and says
    how many bytes each is asked for.
    """

    def __init__(
        self,
        brokers: Brokers,
        *,
        max_bytes: int,
        partition_max_bytes: int,
        read_committed: bool,
        max_wait_ms: int = MAX_WAIT_MS,
        topic_ids: Mapping[str, str] | None = None,
        backoff: FetchBackoff | None = None,
        buffers: int = 1,
        choice: Choice | None = None,
    ) -> None:
        self._brokers = brokers
        self._choice = choice
        self._buffers = _Buffers(buffers, max_bytes)
        self._backoff = backoff
        self.max_bytes = max_bytes
        self._partition_max_bytes = partition_max_bytes
        self._read_committed = read_committed
        self._max_wait_ms = max_wait_ms
        known = topic_ids or {}
        self._ids = (
            {name: fetch_by_id.id_bytes(text) for name, text in known.items()}
            if all(text.strip("A") for text in known.values())
            else {}
        )
        self._names = {number: name for name, number in self._ids.items()}
        self._leaders: dict[int, _Leader] = {}
        self._nearest = NearestReplicas(brokers.settings.rack)
        self.asked_by_name = False
        self.throttled_ms = 0
        self.quickest_seconds = math.inf

    def request(self, positions: Positions) -> dict[TopicPartition, TwinlogError]:
        """Send a fetch to every leader that has none in flight, for its partitions.

        Returns the partitions that no longer exist, may not be seen, or were not served for too long, with the reason.
        Raises ClusterUnreachable if no broker answers at all.
        """
        refused: dict[TopicPartition, TwinlogError] = {}
        resting = self._backoff.resting() if self._backoff is not None else ()
        if self._backoff is not None and resting:
            refused |= self._backoff.given_up(place for place in positions if place in resting)
            positions = without_keys(positions, resting)
        for node, wanted in self._by_leader(positions, refused).items():
            if self._backoff is not None and (node == NOBODY or self._backoff.rests(node)):
                refused |= self._backoff.given_up(wanted)
                continue
            try:
                leader = self._leader(node)
                if not (leader.asked or self._rests(leader.connection)):
                    self._ask(leader, wanted, self._choice(node, wanted) if self._choice else None)
            except ClusterUnreachable as error:
                self._lose(node, error)
        return refused

    def _rests(self, connection: Connection) -> bool:
        """Say whether others are asked while a leader throttles; without a backoff, it is waited for."""
        return self._backoff is not None and time.monotonic() < connection.muted_until

    def _by_leader(
        self, positions: Positions, refused: dict[TopicPartition, TwinlogError]
    ) -> dict[int, dict[TopicPartition, int]]:
        """Group positions by the leader's node id, adding to `refused`; with a backoff, NOBODY is a node id, too."""
        by_leader: dict[int, dict[TopicPartition, int]] = {}
        if self._backoff is None:
            leader_of: Callable[[str, int], int] = self._brokers.leader
        else:
            leader_of = self._brokers.known_leader
            refused |= self._look_up(positions, self._backoff)
        by_rack = bool(self._nearest.rack)
        for partition, position in positions.items():
            if partition in refused:
                continue
            try:
                node = self._replica(partition) if by_rack else None
                node = leader_of(*partition) if node is None else node
                by_leader.setdefault(node, {})[partition] = position
            except TerminalError as error:
                refused[partition] = error
        return by_leader

    def _replica(self, partition: TopicPartition) -> int | None:
        """Return the follower to read a partition from, or None for its leader; never while another is asked."""
        node = self._nearest.of(partition)
        if node is None:
            return None
        conversation = self._leaders.get(node)
        if (conversation is None or not conversation.asked) and self._nearest.outdated(partition):
            self._nearest.forget(partition)
            return None
        return node

    def _look_up(self, positions: Positions, backoff: FetchBackoff) -> dict[TopicPartition, TwinlogError]:
        """Ask once for the leaders of partitions without a known leader; return those that must not be asked for."""
        known = self._brokers.known_leader
        unknown = {topic for topic, partition in positions if known(topic, partition) == NOBODY}
        if not unknown or backoff.rests(NOBODY):
            return {}
        alias = self._brokers.settings.alias
        errors = {
            metadata.name: error_for(metadata.error, f"the question who leads {metadata.name}", alias)
            for metadata in self._brokers.metadata(unknown).values()
            if metadata.error and not repeats(Request.LOOK_UP, metadata.error)
        }
        if any(known(*position) == NOBODY for position in positions if position[0] not in errors):
            backoff.lost(NOBODY, "nobody is elected")
        else:
            backoff.answered(NOBODY, ())
        return {position: errors[position[0]] for position in positions if position[0] in errors}

    def _lose(self, node: int, error: ClusterUnreachable) -> None:
        """Drop a leader's conversation: its partitions are asked for again.  Without a backoff, raise the error."""
        log.debug(
            "broker %d of %s gave no answer to a fetch: %s", node, self._brokers.settings.alias, error.message
        )
        leader = self._leaders.pop(node, None)
        if leader is not None:
            self._brokers.drop(leader.connection)
        self._brokers.forget_leaders()
        was_nearest = self._nearest.lose(node)
        if self._backoff is not None:
            self._backoff.lost(node, error.message)
        elif not was_nearest:
            raise error

    def answers(self, within: float | None = None) -> Iterator[list[wire.Fetched]]:
        """Read one answer of each leader that has a request in flight; partitions with nothing new are left out.

        With `within` (seconds), wait until at least one leader answers, at most that long, and read only the answers
        that have come.  If no request is in flight, return soon, so that the caller can try again.
        """
        waiting = [(node, leader) for node, leader in self._leaders.items() if leader.asked]
        if within is not None:
            seconds = within if waiting else min(within, NOBODY_ASKED_SECONDS)
            ready = answering([leader.connection for _, leader in waiting], seconds)
            self._lose_the_silent([it for it in waiting if it[1].connection not in ready])
            waiting = [(node, leader) for node, leader in waiting if leader.connection in ready]
        for node, leader in waiting:
            try:
                payload = leader.connection.receive(self._buffers.allocate)
            except ClusterUnreachable as lost:
                self._lose(node, lost)
                continue
            self._buffers.turn()
            leader.asked = False
            self.quickest_seconds = min(self.quickest_seconds, time.monotonic() - leader.asked_at)
            if leader.by_id:
                throttle_ms, error, session, partitions = fetch_by_id.fetch_response(payload, self._names)
            else:
                throttle_ms, error, session, partitions = wire.fetch_response(payload, leader.version)
            if throttle_ms:
                leader.connection.mute(throttle_ms)
                self.throttled_ms += throttle_ms
                log.debug("broker %d gives nothing for %d ms: a quota", node, throttle_ms)
            if error in SESSION_LOST:
                leader.session, leader.told = NEW_SESSION, {}
            elif error:
                raise error_for(error, "a fetch", self._brokers.settings.alias)
            else:
                leader.session = _following(leader.session, session)
            for fetched in partitions:
                fetched.asked_offset = leader.told.get(fetched.topic_partition, -1)
            if self._nearest.rack:
                partitions = [partition for partition in partitions if not self._redirected(node, partition)]
            if self._backoff is not None:
                self._note(node, leader, partitions, self._backoff)
            yield partitions

    def _redirected(self, node: int, fetched: wire.Fetched) -> bool:
        """Say whether an answer only tells that another node is to be asked: from now on it is."""
        partition = fetched.topic_partition
        if self._nearest.of(partition) == node:
            if fetched.error:
                self._nearest.doubt(partition)
            return bool(fetched.error)
        if fetched.error or fetched.preferred < 0 or not self._brokers.knows(fetched.preferred):
            return False
        self._nearest.choose(partition, fetched.preferred)
        return not fetched.block

    def _note(
        self, node: int, leader: _Leader, answer: Iterable[wire.Fetched], backoff: FetchBackoff
    ) -> None:
        """Let partitions rest that were answered with a temporary error; another broker may lead them by now."""
        failed = [fetched for fetched in answer if fetched.error and repeats(Request.FETCH, fetched.error)]
        refused = {fetched.topic_partition: fetched.error for fetched in failed}
        backoff.answered(node, (lead for lead in leader.leads if lead not in refused))
        for partition, error in refused.items():
            log.debug("%s-%d is asked for again later: %s", *partition, code_name(error))
            backoff.refused(partition, f"the source answered {code_name(error)}")
            self._brokers.forget_leader(*partition)

    def _lose_the_silent(self, unready: Sequence[tuple[int, _Leader]]) -> None:
        """Drop leaders that have not begun to answer in time: frozen, or cut off without notice to this side.

        No call of `receive` waits for these leaders, so the connection's own time-out does not apply.
        """
        timeout_ms = self._brokers.settings.request_timeout_ms
        for node, leader in unready:
            if time.monotonic() - leader.asked_at > timeout_ms / 1000:
                self._lose(node, ClusterUnreachable(f"no answer to a fetch for {timeout_ms} ms"))

    def discard(self) -> None:
        """Read and discard the answers in flight, after positions have been set back."""
        for _ in self.answers():
            pass

    def _leader(self, node: int) -> _Leader:
        found = self._leaders.get(node)
        if found is None:
            connection = self._brokers.node(node, "fetch")
            by_id = bool(self._ids) and connection.offers(wire.FETCH) >= fetch_by_id.VERSION
            self.asked_by_name |= not by_id
            session = NEW_SESSION if self._names else wire.NO_SESSION
            version = min(wire.FETCH_VERSION, connection.offers(wire.FETCH))
            found = self._leaders[node] = _Leader(connection, by_id, version, session=session)
        return found

    def _ask(
        self,
        leader: _Leader,
        wanted: Positions,
        sizes: Mapping[TopicPartition, int] | None,
    ) -> None:
        """Ask for all positions (of `sizes`, if given), or, within a session, for those that have changed."""
        leader.leads = wanted
        if sizes is not None:
            wanted = {it: wanted[it] for it in wanted if it in sizes}
        if leader.session.id:
            told = leader.told
            changed = [item for item, position in wanted.items() if told.get(item) != position]
            forgotten = (
                [item for item in told if item not in wanted] if len(told) != len(wanted) or changed else []
            )
        else:
            changed, forgotten = _in_turns(leader, wanted), []
        usual, of = self._partition_max_bytes, sizes or {}
        positions = [wire.FetchPosition(*it, wanted[it], of.get(it, usual)) for it in _grouped(changed)]
        version, body = self._encoded(leader, positions, forgotten)
        leader.connection.keep_login()
        leader.connection.send(wire.FETCH, version, [body])
        leader.told = dict(wanted)
        leader.asked, leader.asked_at = True, time.monotonic()

    def _encoded(
        self, leader: _Leader, positions: Sequence[wire.FetchPosition], forgotten: Sequence[TopicPartition]
    ) -> tuple[int, bytes]:
        how: Any = {
            "max_bytes": self.max_bytes,
            "max_wait_ms": self._max_wait_ms,
            "read_committed": self._read_committed,
            "session": leader.session,
            "forgotten": forgotten,
            "rack": self._nearest.asked_rack,
        }
        if leader.by_id:
            return fetch_by_id.VERSION, fetch_by_id.fetch_request(positions, self._ids, **how)
        return leader.version, wire.fetch_request(positions, **how, version=leader.version)


def _following(session: wire.FetchSession, answered: int) -> wire.FetchSession:
    """Return the session for the next request; a broker that keeps no session answers 0."""
    if session == wire.NO_SESSION or not answered:
        return wire.NO_SESSION if session == wire.NO_SESSION else NEW_SESSION
    return wire.FetchSession(answered, 1 if session.id != answered else session.epoch % _LAST_EPOCH + 1)


def _in_turns(leader: _Leader, wanted: Positions) -> list[TopicPartition]:
    """Rotate the order of partitions: brokers fill answers in order, and only the first batch may exceed the limit.

    (Within a session brokers rotate by themselves.)
    """
    partitions = list(wanted)
    turn = leader.turn % len(partitions)
    leader.turn = turn + 1
    return [*partitions[turn:], *partitions[:turn]]


def _grouped(partitions: Sequence[TopicPartition]) -> Iterator[TopicPartition]:
    """Keep the order of topics by first appearance, with each topic's partitions together."""
    return chain.from_iterable(grouped((item[0], item) for item in partitions).values())
