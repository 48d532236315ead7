"""A cluster in memory, with the verbs of twinlog.cluster.api: what tests of steps work with.

    source = FakeCluster("A")
    source.add_topic("orders", partitions=3, configs={"cleanup.policy": "compact"})
    source.append(TopicPartition("orders", 0), key=b"k", value=b"v", timestamp=1_000)
    source.refuse("topic_configs", "orders", ClusterRefused("no"))

Topic ids are made from name and a counter, so a topic deleted and added again has a new one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from fake_access import FakeAccess
from fake_groups import FakeGroup, FakeGroups
from fake_log import FakeLog

from twinlog.cluster.admin.group_members import ConnectWorkers
from twinlog.cluster.admin.groups import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupPartition,
    GroupState,
    GroupType,
    OffsetChange,
    ShareStart,
)
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.permissions.needs import Need, Resource, Rights
from twinlog.cluster.prints import Fingerprint, key_digest
from twinlog.cluster.values import (
    NO_SUCH_TOPIC,
    Answers,
    ConfigSource,
    ConfigValue,
    InternalRecord,
    NewTopic,
    PartitionDescription,
    PartitionOffsets,
    TopicDescription,
)
from twinlog.errors import (
    ClusterRefused,
    ClusterUnreachable,
    FencedError,
    TerminalError,
    TransientError,
    TwinlogError,
)
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.protocol.leader_epochs import EpochEnd, ReadUpTo

V = TypeVar("V")

DEFAULT_CONFIGS = {
    "cleanup.policy": "delete",
    "retention.ms": "604800000",
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "flush.ms": "9223372036854775807",
}
ALL_OPERATIONS = frozenset({"READ", "WRITE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "DELETE", "CREATE"})


@dataclass(slots=True)
class FakeTopic:
    """One life of a topic."""

    topic_id: str
    replication_factor: int
    configs: dict[str, str]
    logs: list[FakeLog]
    operations: frozenset[str] = ALL_OPERATIONS


@dataclass
class FakeTurn:
    """A turn to change a flow's state; what is in the cluster's `meanwhile` happens before it writes, one at a time."""

    cluster: FakeCluster
    flow: str
    number: int

    def write(self, records: Mapping[str, Sequence[InternalRecord]]) -> None:
        """Write records, unless somebody has taken a turn since."""
        self.require_last(FencedError("somebody else has taken a turn"))
        for topic, written in records.items():
            self.cluster.produce(topic, written)

    def require_last(self, error: TwinlogError) -> None:
        """Raise an error if somebody has taken a turn since."""
        if self.cluster.meanwhile:
            self.cluster.meanwhile.pop(0)()
        if self.number != self.cluster.turns[self.flow]:
            raise error


class FakeCluster(FakeAccess):
    """A cluster without brokers."""

    def __init__(self, alias: str, *, brokers: int = 1, cluster_id: str | None = None) -> None:
        super().__init__()
        self.alias = alias
        self.topics: dict[str, FakeTopic] = {}
        self._groups = FakeGroups()
        self.workers: dict[str, ConnectWorkers] = {}
        self.calls: list[str] = []
        self._brokers = brokers
        self.fenced = 0
        self.turns: Counter[str] = Counter()
        self.meanwhile: list[Callable[[], object]] = []
        self.hides_groups = False
        self.unlisted: set[str] = set()
        self.items_asked: Counter[str] = Counter()
        self.topics_read: Counter[str] = Counter()
        self._cluster_id = cluster_id or f"cluster-{alias}"
        self._lives = 0
        self._refusals: dict[tuple[str, str], TwinlogError] = {}
        self.forbidden: dict[str, set[str]] = {}

    # what tests set up

    def add_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        configs: Mapping[str, str] | None = None,
        replication_factor: int = 1,
    ) -> FakeTopic:
        """Create a topic at once, as somebody else would."""
        self._lives += 1
        topic = FakeTopic(
            f"id-{name}-{self._lives}",
            replication_factor,
            dict(configs or {}),
            [FakeLog() for _ in range(partitions)],
        )
        self.topics[name] = topic
        return topic

    def append(
        self, at: TopicPartition, *, key: bytes | None, value: bytes | None, timestamp: int = 0
    ) -> int:
        """Add one record and return its offset."""
        return self._log(at).append(key, value, timestamp)

    def delete_records(self, at: TopicPartition, before: int) -> None:
        """Move the log start: as retention does, and as somebody who may."""
        if ("delete_records", at.topic) in self._refusals:
            raise self._refusals["delete_records", at.topic]
        self._log(at).delete_before(before)

    def commit(self, group: str, at: TopicPartition, offset: int, metadata: str = "") -> FakeGroup:
        """Commit an offset, as a consumer of the group would."""
        return self._groups.commit(group, at, offset, metadata)

    def refuse(self, verb: str, item: str, error: TwinlogError) -> None:
        """Let `verb` refuse `item` (the name of a topic or group) from now on."""
        self._refusals[verb, item] = error

    def allow(self, verb: str, item: str) -> None:
        """Let `verb` take `item` again."""
        del self._refusals[verb, item]

    # the verbs

    def answers(self, seconds: float) -> bool:
        """Say whether it is there."""
        assert seconds > 0
        try:
            self.cluster_id()
        except TransientError:
            return False
        except TwinlogError:
            return True
        return True

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        return self._cluster_id

    def broker_count(self) -> int:
        """Return how many brokers it pretends to have."""
        return self._brokers

    def topic_names(self) -> tuple[str, ...]:
        """Return all names, but for topics that an ACL hides."""
        return tuple(sorted(it for it in self.topics if self.may("DESCRIBE", it)))

    def describe_topics(self, names: Iterable[str]) -> Answers[str, TopicDescription]:
        """Describe topics."""
        return self._answer("describe_topics", names, self._describe)

    def topic_configs(self, names: Iterable[str]) -> Answers[str, Mapping[str, ConfigValue]]:
        """Return what was set, over the defaults."""
        return self._answer("topic_configs", names, self._configs)

    def offsets(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        """Return log start, stable end, end."""
        found: dict[TopicPartition, PartitionOffsets] = {}
        refused: dict[TopicPartition, TwinlogError] = {}
        for it in partitions:
            if ("offsets", it.topic) in self._refusals:
                refused[it] = self._refusals["offsets", it.topic]
                continue
            try:
                found[it] = self._log(it).offsets()
            except ClusterRefused as error:
                refused[it] = error
        return Answers(found, refused)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> Answers[TopicPartition, int | None]:
        """Return the first offset at `timestamp` or later."""
        return Answers({
            it: next((r.offset for r in self._log(it).records if r.timestamp >= timestamp), None)
            for it in partitions
        })

    def read_records(
        self, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        """Read records from the given offsets on; `refuse("read_records", topic)` refuses them all, as brokers do."""
        for it in starts:
            if ("read_records", it.topic) in self._refusals:
                raise self._refusals["read_records", it.topic]
        return {
            it: self._log(it).read_from(start, read_committed=read_committed)[:limit]
            for it, start in starts.items()
        }

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, OpenTransaction]:
        """Name what tests have put there; `refuse("open_transactions", topic)` refuses."""
        found: dict[TopicPartition, OpenTransaction] = {}
        refused: dict[TopicPartition, TwinlogError] = {}
        for it in partitions:
            holder = self._log(it).held_by
            if ("open_transactions", it.topic) in self._refusals:
                refused[it] = self._refusals["open_transactions", it.topic]
            elif holder is not None:
                found[it] = holder
        return Answers(found, refused)

    def record_prints(self, it: TopicPartition, start: int, limit: int) -> tuple[Fingerprint, ...]:
        """Fingerprint records; key and value are all the content there is."""
        records = self.read_records({it: start}, limit)[it]
        return tuple(
            Fingerprint(r.offset, r.timestamp, repr((r.key, r.value)).encode(), key_digest(r.key))
            for r in records
        )

    def leaders(self, topics: Iterable[str]) -> Mapping[TopicPartition, int]:
        """One broker leads everything."""
        return {TopicPartition(it, number): 0 for it in topics for number in range(len(self.topics[it].logs))}

    def log_dirs(self) -> LogDirs:
        """Return sizes as sums of keys and values; half of the disk is free."""
        if ("log_dirs", self.alias) in self._refusals:
            raise self._refusals["log_dirs", self.alias]
        sizes = {
            TopicPartition(name, number): log.size()
            for name, topic in self.topics.items()
            for number, log in enumerate(topic.logs)
        }
        return LogDirs(sizes, 50.0)

    def epoch_ends(self, read: Mapping[TopicPartition, ReadUpTo]) -> Mapping[TopicPartition, EpochEnd]:
        """Say where leader epochs ended; nothing if that is refused."""
        if ("epoch_ends", self.alias) in self._refusals:
            return {}
        return {it: self._log(it).epoch_end(up_to.epoch) for it, up_to in read.items()}

    def latest(self, topic: str) -> Mapping[bytes, bytes | None]:
        """Return the last value per key; tombstoned keys are left out."""
        return {key: record.value for key, record in self.latest_records(topic).items()}

    def latest_records(self, topic: str) -> Mapping[bytes, ReadRecord]:
        """Return the last record per key; tombstoned keys are left out."""
        self.topics_read[topic] += 1
        if topic not in self.topics:
            raise TerminalError(f"topic {topic} does not exist on {self.alias}", code="no-internal-topic")
        latest: dict[bytes, ReadRecord] = {}
        for number, log in enumerate(self.topics[topic].logs):
            latest |= {
                record.key: record._replace(partition=number)
                for record in log.records
                if record.key is not None
            }
        return {key: record for key, record in latest.items() if record.value is not None}

    def gained_records(
        self, topic: str, since: Mapping[int, int]
    ) -> tuple[Mapping[bytes, ReadRecord], Mapping[int, int]]:
        """Return the latest records at or behind those offsets, and the ends."""
        latest = self.latest_records(topic).items()
        gained = {key: it for key, it in latest if it.offset >= since.get(it.partition, 0)}
        return gained, {number: log.end for number, log in enumerate(self.topics[topic].logs)}

    def create_topics(self, topics: Sequence[NewTopic]) -> Answers[str, None]:
        """Create topics that are not refused; more replicas than brokers are."""
        by_name = {topic.name: topic for topic in topics}
        return self._answer("create_topics", by_name, lambda name: self._create(by_name[name]))

    def create_partitions(self, counts: Mapping[str, int]) -> Answers[str, None]:
        """Grow topics."""
        return self._answer("create_partitions", counts, lambda name: self._grow(name, counts[name]))

    def produce(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records at the end."""
        if ("produce", topic) in self._refusals:
            raise self._refusals["produce", topic]
        for it in records:
            at = TopicPartition(topic, it.partition)
            self.append(at, key=it.key, value=it.value, timestamp=it.timestamp or 0)
        self.calls.append(f"produce {topic} {len(records)}")

    def turn(self, flow: str, ledger: str, timeout_ms: int) -> FakeTurn:
        """Take a turn, which ends the one before."""
        self.turns[flow] += 1
        return FakeTurn(self, flow, self.turns[flow])

    def delete_topics(self, names: Iterable[str]) -> Answers[str, None]:
        """Delete topics."""
        return self._answer("delete_topics", names, self._delete)

    def rights(self, needs: Iterable[Need]) -> Mapping[tuple[str, Resource], Rights]:
        """All rights but those that were taken away: `forbidden`, operations by name."""
        return {
            (self.alias, it.resource): Rights(
                frozenset(it.operations), frozenset(self.forbidden.get(it.resource.name, ()))
            )
            for it in needs
            if it.cluster == self.alias
        }

    def groups(self) -> tuple[GroupListing, ...]:
        """List all groups but those in `unlisted`."""
        workers = (GroupListing(it, GroupType.CONNECT, GroupState.STABLE) for it in self.workers)
        return tuple(it for it in (*self._groups.listed(), *workers) if it.group not in self.unlisted)

    def lists_every_group(self) -> bool:
        """Say what `hides_groups` says."""
        return not self.hides_groups

    def describe_groups(self, names: Iterable[str]) -> Answers[str, GroupDescription]:
        """Describe groups; one that was never heard of is dead."""
        return self._answer("describe_groups", names, self._groups.described)

    def committed_offsets(
        self, groups: Iterable[str]
    ) -> Answers[str, Mapping[TopicPartition, CommittedOffset]]:
        """Return what groups committed."""
        return self._answer("committed_offsets", groups, self._groups.committed)

    def alter_offsets(
        self, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
    ) -> Answers[GroupPartition, None]:
        """Commit where the expected position stands and nobody is in the group."""
        refused = {name: error for (verb, name), error in self._refusals.items() if verb == "alter_offsets"}
        return self._groups.altered(changes, refused, self.calls)

    def share_starts(self, groups: Iterable[str]) -> Answers[str, Mapping[TopicPartition, ShareStart]]:
        """Return where share groups start."""
        return self._answer("share_starts", groups, self._groups.started)

    def start_share(self, group: str, at: TopicPartition, offset: int, lag: int = -1) -> FakeGroup:
        """Give a share group a start offset."""
        return self._groups.start_share(group, at, offset, lag)

    def alter_share_starts(
        self, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
    ) -> Answers[GroupPartition, None]:
        """Set start offsets where the expected one stands and nobody is in the group."""
        verb = "alter_share_starts"
        refused = {name: error for (asked, name), error in self._refusals.items() if asked == verb}
        return self._groups.altered(changes, refused, self.calls, shared=True)

    def connect_workers(self, group: str) -> ConnectWorkers:
        """Say what `workers` says."""
        if ("connect_workers", group) in self._refusals:
            raise self._refusals["connect_workers", group]
        return self.workers.get(group, ConnectWorkers())

    def delete_groups(self, groups: Iterable[str]) -> Answers[str, None]:
        """Delete groups."""
        return self._answer("delete_groups", groups, self._groups.deleted)

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> Answers[tuple[str, str], None]:
        """Set or remove configs; `refuse("alter_topic_configs", config)` refuses one on every topic."""
        items = [(name, key) for name, values in changes.items() for key in values]
        refused = {
            it: self._refusals["alter_topic_configs", it[1]]
            for it in items
            if ("alter_topic_configs", it[1]) in self._refusals
        }
        for name, key in (it for it in items if it not in refused):
            self.calls.append(f"config {name} {key}={changes[name][key]}")
            value = changes[name][key]
            if value is None:
                self.topics[name].configs.pop(key, None)
            else:
                self.topics[name].configs[key] = value
        return Answers({it: None for it in items if it not in refused}, refused)

    # how they answer

    def _answer(self, verb: str, names: Iterable[str], do: Callable[[str], V]) -> Answers[str, V]:
        found: dict[str, V] = {}
        refused: dict[str, TwinlogError] = {}
        for name in names:
            self.items_asked[verb] += 1
            if (verb, name) in self._refusals:
                refused[name] = self._refusals[verb, name]
                continue
            try:
                found[name] = do(name)
            except TwinlogError as error:
                refused[name] = error
        return Answers(found, refused)

    def _log(self, it: TopicPartition) -> FakeLog:
        if it.partition not in range(len(self._known(it.topic).logs)):
            raise ClusterRefused(
                f"{self.alias} has no partition {it.topic}-{it.partition}", code=NO_SUCH_TOPIC
            )
        return self.topics[it.topic].logs[it.partition]

    def _known(self, name: str) -> FakeTopic:
        if name not in self.topics:
            raise ClusterRefused(f"{self.alias} has no topic {name}", code=NO_SUCH_TOPIC)
        return self.topics[name]

    def _describe(self, name: str) -> TopicDescription:
        if not self.may("DESCRIBE", name):
            raise ClusterRefused(f"{self.alias} hides topic {name}", code="unauthorised")
        topic = self._known(name)
        replicas = tuple(range(topic.replication_factor))
        partitions = tuple(PartitionDescription(i, 0, replicas, replicas) for i in range(len(topic.logs)))
        return TopicDescription(name, topic.topic_id, partitions, topic.operations)

    def _configs(self, name: str) -> Mapping[str, ConfigValue]:
        own = self._known(name).configs
        defaults = {
            key: ConfigValue(key, value, ConfigSource.DEFAULT) for key, value in DEFAULT_CONFIGS.items()
        }
        return defaults | {key: ConfigValue(key, value, ConfigSource.TOPIC) for key, value in own.items()}

    def _create(self, topic: NewTopic) -> None:
        self.calls.append(f"create {topic.name} {topic.partitions}")
        too_many = topic.replication_factor > self._brokers + self.fenced
        topic = topic.lowered or topic if too_many else topic
        if topic.replication_factor > self._brokers + self.fenced:
            raise ClusterRefused(f"{self.alias} cannot replicate {topic.name} so often")
        if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic.name):
            raise ClusterRefused(f"{topic.name} is no name of a topic")
        if any(name != topic.name and _metric(name) == _metric(topic.name) for name in self.topics):
            raise ClusterRefused(f"{topic.name} collides with a topic of {self.alias} in '.' and '_'")
        if topic.name not in self.topics:
            self.add_topic(
                topic.name,
                topic.partitions,
                configs=topic.configs,
                replication_factor=topic.replication_factor,
            )

    def _grow(self, name: str, count: int) -> None:
        self.calls.append(f"grow {name} {count}")
        logs = self._known(name).logs
        logs.extend(FakeLog() for _ in range(count - len(logs)))

    def _delete(self, name: str) -> None:
        self._known(name)
        del self.topics[name]


def _metric(topic: str) -> str:
    """Return the name of a topic in metrics, which two topics may not share (Kafka's Topic.unifyCollisionChars)."""
    return topic.replace(".", "_")


class GoneCluster:
    """A cluster that nobody can reach."""

    def __init__(self, alias: str) -> None:
        self.alias = alias

    def answers(self, seconds: float) -> bool:
        """Say that it is not there."""
        return seconds < 0

    def __getattr__(self, verb: str) -> NoReturn:
        raise ClusterUnreachable(f"cluster {self.alias} cannot be reached", cluster=self.alias)
