"""Know one cluster's brokers: leaders and offsets of partitions, coordinators, and connections to them."""

from __future__ import annotations

import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar
from uuid import UUID

from twinlog.config.security.connection import ConnectionSettings
from twinlog.errors import ClusterUnreachable, TransientError
from twinlog.grouped import grouped
from twinlog.kafka_types import TopicPartition
from twinlog.protocol import kafka_python
from twinlog.protocol.errors import Code, Request, error_for, repeats
from twinlog.protocol.retry import LAG_SECONDS, until
from twinlog.protocol.socket.connection import Connection

EARLIEST = -2

LATEST = -1
"""Special timestamps of ListOffsets."""

_T = TypeVar("_T")

_GROUP, _TRANSACTION = 0, 1
"""FindCoordinator key types: a consumer group, a transactional id."""

_PATIENCE_SECONDS = 20.0

_SESSION_SECONDS = 30.0
"""How long a broker that died or froze may still be named: its session is to end, and a controller to be elected."""

_LOST: dict[str, float] = {}
"""When addresses last gave no answer (monotonic).  A frozen broker costs ten seconds each time it is asked first."""

UNSETTLED = "unsettled"
"""Code of the error for a question that the cluster cannot answer yet."""


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A cluster's metadata of one topic: its error code, and the leader's node id by partition (-1: none).

    `topic_id` is the topic's incarnation, base64 as Kafka prints it (KIP-516).  `topic_id` and `cluster_id` are empty
    if the cluster does not report them.  `epochs` are the known leader epochs by partition; each new leader has a
    higher one.
    """

    name: str
    error: int
    leaders: Mapping[int, int]
    topic_id: str = ""
    cluster_id: str = ""
    epochs: Mapping[int, int] = field(default_factory=dict)

    def is_led(self, partition: int) -> bool:
        """Say whether a partition has a leader to ask."""
        return self.leaders.get(partition, -1) >= 0


class Brokers:
    """Connections to one cluster, opened when first needed, one per (node, purpose).

    Single-threaded.  Use it as a context manager: leaving it closes every connection.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self.settings = settings
        self._addresses: dict[int, tuple[str, int]] = {}
        self._cluster_id = ""
        self._controller = -1
        self._leaders: dict[TopicPartition, int] = {}
        self._open: dict[tuple[int, str], Connection] = {}
        self._bootstrap: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        for connection in (*self._open.values(), *([self._bootstrap] if self._bootstrap else [])):
            connection.close()
        self._open.clear()
        self._bootstrap = None

    def any_broker(self) -> Connection:
        """Return a connection to any broker, trying the bootstrap addresses in turn, those that were lost last."""
        if self._bootstrap is not None:
            with suppress(ClusterUnreachable):
                if not self._bootstrap.ended:
                    self._bootstrap.keep_login()
                    return self._bootstrap
            self.drop(self._bootstrap)
        self._bootstrap = self._first_answering()
        return self._bootstrap

    def knows(self, node: int) -> bool:
        """Say whether a node has been named with its address."""
        return node in self._addresses

    def node(self, node: int, purpose: str) -> Connection:
        """Return the connection to a node for one purpose ("fetch", "produce", "coordinate").

        If the broker has closed it meanwhile, a new one is opened: brokers close connections that were idle for ten
        minutes (`connections.max.idle.ms`).
        """
        found = self._open.get((node, purpose))
        if found is not None and found.ended:
            self.drop(found)
            found = None
        if found is not None and purpose == "coordinate":
            found.keep_login()
        if found is None:
            host, port = self._addresses[node]
            expected = (self._cluster_id, node) if self._cluster_id else None
            found = self._open[node, purpose] = Connection(self.settings, host, port, expected)
        return found

    def close_ended(self, purpose: str) -> bool:
        """Close the connections for a purpose that their brokers have closed; say whether there were any."""
        ended = [it for (_, its), it in self._open.items() if its == purpose and it.ended]
        for connection in ended:
            self.drop(connection)
        return bool(ended)

    def drop(self, connection: Connection) -> None:
        """Forget and close a connection that failed."""
        connection.close()
        self._open = {key: value for key, value in self._open.items() if value is not connection}
        if connection is self._bootstrap:
            self._bootstrap = None

    def metadata(self, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """Ask for the leaders of `topics` and remember them.  Unknown topics come back with their error code."""
        answer = self._ask_metadata([_topic(name) for name in topics])
        result = {}
        for topic in answer.topics:
            leaders = {item.partition_index: item.leader_id for item in topic.partitions}
            result[topic.name] = TopicMetadata(
                topic.name,
                topic.error_code,
                leaders,
                printed(topic.topic_id),
                answer.cluster_id or "",
                {item.partition_index: item.leader_epoch for item in topic.partitions},
            )
            for partition, leader in leaders.items():
                self._leaders[TopicPartition(topic.name, partition)] = leader
        return result

    def topic_names(self) -> list[str]:
        """Return the names of all topics that this user may see."""
        return [topic.name for topic in self._ask_metadata(None).topics]

    def _ask_metadata(self, topics: list[Any] | None) -> Any:
        answer = self.ask_any(kafka_python.METADATA, topics=topics, allow_auto_topic_creation=False)
        self._addresses.update({broker.node_id: (broker.host, broker.port) for broker in answer.brokers})
        self._cluster_id = self._cluster_id or answer.cluster_id or ""
        self._controller = answer.controller_id
        return answer

    def leader(self, topic: str, partition: int, seconds: float = _PATIENCE_SECONDS) -> int:
        """Return the node id of a partition's leader; wait up to `seconds` for an election.

        Raises TransientError if the partition stays without a leader, or the error for a topic that does not exist.
        """
        found = self._leaders.get(TopicPartition(topic, partition), -1)
        if found >= 0:
            return found

        began = time.monotonic()

        def elected() -> int | None:
            metadata = self.metadata([topic])[topic]
            if metadata.error == Code.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() < began + LAG_SECONDS:
                return None
            if metadata.error and not repeats(Request.LOOK_UP, metadata.error):
                raise error_for(metadata.error, f"the question who leads {topic}", self.settings.alias)
            leader = metadata.leaders.get(partition, -1)
            return leader if leader >= 0 else None

        return self._until(elected, f"{topic}-{partition} has no leader", seconds)

    def known_leader(self, topic: str, partition: int) -> int:
        """Return the node id of a partition's leader as far as `metadata` has reported it, else -1."""
        return self._leaders.get(TopicPartition(topic, partition), -1)

    def forget_leader(self, topic: str, partition: int) -> None:
        """Forget the leader of a partition, after an answer indicated that it may have changed."""
        self._leaders.pop(TopicPartition(topic, partition), None)

    def forget_leaders(self) -> None:
        """Forget all leaders, after an answer indicated that some have changed."""
        self._leaders.clear()

    def forget_places(self) -> None:
        """Forget who leads and where brokers are, but keep the connections."""
        self._leaders.clear()
        self._addresses.clear()

    def forget_coordinators(self) -> None:
        """Close the connections to coordinators after one was lost, so that the next request finds them again."""
        for key in [key for key in self._open if key[1] == "coordinate"]:
            self._open.pop(key).close()
        if self._bootstrap is not None:
            self.drop(self._bootstrap)

    def coordinator(self, transactional_id: str) -> Connection:
        """Return a connection to the coordinator of a transactional id.  Waits and raises as `coordinators`."""
        return self.coordinators([transactional_id])[transactional_id]

    def coordinators(self, transactional_ids: Iterable[str]) -> dict[str, Connection]:
        """Return connections to the coordinators of transactional ids; wait while the cluster assigns them.

        Raises TransientError for an id that stays without a coordinator, or the error of one that may not be asked for.
        """
        found, failed = self._coordinators(transactional_ids, _TRANSACTION)
        for name, code in failed.items():
            if repeats(Request.LOOK_UP, code):
                raise self._unsettled(f"{name} has no coordinator", _PATIENCE_SECONDS)
            raise error_for(code, f"the question who coordinates {name}", self.settings.alias)
        return found

    def of_all(self, ask: Callable[[Connection], _T]) -> list[_T]:
        """Ask every broker that the cluster has now.

        One that died or froze is named for some seconds more, and what it coordinated comes to others meanwhile.  So
        all are asked again until all that are named answer.  Raises the last error if one goes on being silent.
        """
        errors: list[TransientError] = []

        def all_answer() -> list[_T] | None:
            named = self._ask_metadata([]).brokers
            try:
                return [ask(self.node(it.node_id, "coordinate")) for it in named]
            except TransientError as error:
                errors.append(error)
                self.forget_coordinators()
                return None

        return until(all_answer, lambda: errors[-1], seconds=_SESSION_SECONDS)

    def group_coordinators(self, groups: Iterable[str]) -> tuple[dict[str, Connection], dict[str, int]]:
        """Return connections to the coordinators of groups, and the error codes of groups without one.

        Waits while the cluster assigns coordinators, and for a coordinator that is still named but does not answer.
        Groups that have none after that do not delay the others.
        """
        return self._coordinators(groups, _GROUP)

    def _coordinators(self, keys: Iterable[str], kind: int) -> tuple[dict[str, Connection], dict[str, int]]:
        found: dict[str, Connection] = {}
        failed: dict[str, int] = {}
        wanted = list(keys)

        def ask() -> bool | None:
            failed.clear()
            dead: set[int] = set()
            for name, answer in self._ask_coordinators([it for it in wanted if it not in found], kind):
                connection = None if answer.error_code else self._coordinating(answer, dead)
                if connection is not None:
                    found[name] = connection
                else:
                    failed[name] = answer.error_code or Code.COORDINATOR_NOT_AVAILABLE
            return None if any(repeats(Request.LOOK_UP, code) for code in failed.values()) else True

        try:
            self._until(ask, "some have no coordinator")
        except TransientError as error:
            if error.code != UNSETTLED:
                raise
        return found, failed

    def _coordinating(self, answer: Any, dead: set[int]) -> Connection | None:
        """Connect to the named coordinator; note in `dead` one that does not answer, so that it is asked once."""
        self._addresses[answer.node_id] = (answer.host, answer.port)
        if answer.node_id in dead:
            return None
        try:
            return self.node(answer.node_id, "coordinate")
        except ClusterUnreachable:  # other brokers go on naming a dead coordinator until its session ends
            dead.add(answer.node_id)
            return None

    def _ask_coordinators(self, keys: list[str], kind: int) -> list[tuple[str, Any]]:
        if not keys:
            return []
        api = kafka_python.FIND_COORDINATORS
        if self.any_broker().version_of(api) < api.version:
            api = kafka_python.FIND_COORDINATOR
            return [(name, self.ask_any(api, key=name, key_type=kind)) for name in keys]
        answer = self.ask_any(api, key_type=kind, coordinator_keys=keys)
        return [(coordinator.key, coordinator) for coordinator in answer.coordinators]

    def offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, int]:
        """Return an offset for each partition: EARLIEST, LATEST (high watermark; LSO if `read_committed`), or by time.

        Raises TransientError if a leader keeps refusing.
        """
        wanted = list(partitions)
        result: dict[TopicPartition, int] = {}

        def ask() -> dict[TopicPartition, int] | None:
            for node, group in self.by_leader([tp for tp in wanted if tp not in result]).items():
                try:
                    result.update(self._list_offsets(node, group, timestamp, read_committed=read_committed))
                except ClusterUnreachable:  # only this broker; the metadata is asked again for a new leader
                    self.forget_coordinators()
                    self.forget_leaders()
            return result if len(result) == len(wanted) else None

        return self._until(ask, "offsets cannot be listed")

    def by_leader(self, partitions: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """Group partitions by the node id of their leader.  Raises as `leader`."""
        return grouped((self.leader(*place), place) for place in partitions)

    def _list_offsets(
        self, node: int, partitions: list[TopicPartition], timestamp: int, *, read_committed: bool
    ) -> dict[TopicPartition, int]:
        """Ask the leader of some partitions for one offset each; leave out those that it does not lead, for now."""
        leader = self.node(node, "coordinate")
        answer = list_offsets(leader, partitions, timestamp, read_committed=read_committed)
        found: dict[TopicPartition, int] = {}
        for place, item in (
            (TopicPartition(topic.name, partition.partition_index), partition)
            for topic in answer.topics
            for partition in topic.partitions
        ):
            code = int(item.error_code)
            if not code:
                found[place] = int(item.offset)
                continue
            # If the leader does not know the topic, it may only lag behind.
            if code != Code.UNKNOWN_TOPIC_OR_PARTITION and not repeats(Request.LOOK_UP, code):
                doing = f"the question for offsets of {place.topic}-{place.partition}"
                raise error_for(code, doing, self.settings.alias)
            self.forget_leader(*place)
        return found

    def ask_any(self, api: kafka_python.Api, **fields: Any) -> Any:
        """Ask any broker; if the connection has died meanwhile, ask another broker once."""
        connection = self.any_broker()
        try:
            return connection.call(api, **fields)
        except ClusterUnreachable:
            _LOST[connection.address] = time.monotonic()
            self.drop(connection)
            return self.any_broker().call(api, **fields)

    def ask_controller(self, api: kafka_python.Api, results: str, **fields: Any) -> list[Any]:
        """Send a change once, and return the `results` of its answer.

        Any broker passes it on (KRaft), or says that it is not the controller; then that one is asked, for nothing was
        done.  Raises ClusterUnreachable if the answer is lost: the change may have been made.
        """
        asked = self.any_broker()

        def change() -> list[Any] | None:
            nonlocal asked
            asked.keep_login()
            answered: list[Any] = getattr(asked.call(api, **fields), results)
            if any(it.error_code == Code.THROTTLING_QUOTA_EXCEEDED for it in answered):
                self.drop(asked)  # it says nothing more until changes are allowed again
            if not any(it.error_code == Code.NOT_CONTROLLER for it in answered):
                return answered
            self.metadata([])
            with suppress(ClusterUnreachable, KeyError):  # it is gone, and another one will be elected
                asked = self.node(self._controller, "coordinate")
            return None

        return self._until(change, "no controller takes changes")

    def _first_answering(self) -> Connection:
        failures = []
        known = dict.fromkeys((*self.settings.bootstrap, *self._addresses.values()))
        for host, port in sorted(known, key=lambda it: _LOST.get(f"{it[0]}:{it[1]}", 0.0)):
            try:
                return Connection(self.settings, host, port)
            except ClusterUnreachable as error:
                _LOST[f"{host}:{port}"] = time.monotonic()
                failures.append(error)
        if not failures:
            raise ClusterUnreachable(f"cluster {self.settings.alias} has no bootstrap address")
        raise failures[0]

    def _until(self, attempt: Callable[[], _T | None], what: str, seconds: float = _PATIENCE_SECONDS) -> _T:
        """Repeat `attempt` until it returns a value; a cluster in transition needs a second or two."""
        return until(
            attempt,
            lambda: self._unsettled(what, seconds),
            seconds=seconds,
            longest_seconds=0.25,
        )

    def _unsettled(self, what: str, seconds: float) -> TransientError:
        alias = self.settings.alias
        return TransientError(f"cluster {alias}: {what} after {seconds:.0f} s", code=UNSETTLED, cluster=alias)


def list_offsets(
    leader: Connection, partitions: Iterable[TopicPartition], timestamp: int, *, read_committed: bool
) -> Any:
    """Ask the leader of some partitions for one offset each, as `Brokers.offsets` does; return its answer."""
    request = kafka_python.LIST_OFFSETS.request.ListOffsetsTopic
    entry = request.ListOffsetsPartition
    by_topic = grouped(
        (topic, entry(partition_index=partition, current_leader_epoch=-1, timestamp=timestamp))
        for topic, partition in partitions
    )
    return leader.call(
        kafka_python.LIST_OFFSETS,
        replica_id=-1,
        isolation_level=int(read_committed),
        topics=[request(name=name, partitions=its) for name, its in by_topic.items()],
    )


def printed(topic_id: UUID | None) -> str:
    """Spell a topic id as Kafka does: URL-safe base64 (common.Uuid); "" for none."""
    return urlsafe_b64encode(topic_id.bytes).decode().rstrip("=") if topic_id and topic_id.int else ""


def _topic(name: str) -> Any:
    return kafka_python.METADATA.request.MetadataRequestTopic(name=name)
