"""A real cluster over confluent-kafka: the methods of twinlog.cluster.api, each done by its own module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from twinlog.cluster import brokers, offsets
from twinlog.cluster import records as record_io
from twinlog.cluster.admin import (
    acls,
    configs,
    group_offsets,
    groups,
    open_transactions,
    quotas,
    scram,
)
from twinlog.cluster.admin import connect_workers as workers
from twinlog.cluster.admin import topics as topic_admin
from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity, Quotas, ScramCredential, ScramUser
from twinlog.cluster.admin.connect_workers import ConnectWorkers
from twinlog.cluster.admin.groups import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupPartition,
    OffsetChange,
)
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.prints import Fingerprint, read_fingerprints
from twinlog.cluster.session import Session, client_properties
from twinlog.cluster.values import (
    Answers,
    ConfigValue,
    InternalRecord,
    NewTopic,
    PartitionOffsets,
    ReadRecord,
    TopicDescription,
    TopicPartition,
)
from twinlog.config.security.connection import ClusterSettings
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.leader_epochs import EpochEnd, ReadUpTo, epoch_ends

if TYPE_CHECKING:
    from twinlog.logs.log_reader import StateReader


class KafkaCluster:
    """One cluster; connects at the first question.

    Every method answers or raises within 30 s: ClusterUnreachable, ClusterRefused.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    @property
    def alias(self) -> str:
        """The cluster's name in the configuration file."""
        return self._settings.alias

    @cached_property
    def _session(self) -> Session:
        return Session(self.alias, client_properties(self._settings, "admin"))

    @cached_property
    def _writer(self) -> record_io.RecordWriter:
        return record_io.RecordWriter(self._session, client_properties(self._settings, "producer"))

    @cached_property
    def _state_reader(self) -> StateReader:
        from twinlog.logs.log_reader import StateReader

        return StateReader(self._settings.connection)

    def cluster_id(self) -> str:
        """Return the id the cluster was formatted with."""
        return brokers.describe_cluster(self._session).cluster_id

    def broker_count(self) -> int:
        """Return how many brokers are registered."""
        return brokers.describe_cluster(self._session).brokers

    def topic_names(self) -> tuple[str, ...]:
        """Return the topics this user may see, sorted."""
        return topic_admin.topic_names(self._session)

    def describe_topics(self, names: Iterable[str]) -> Answers[str, TopicDescription]:
        """Describe topics by name."""
        return topic_admin.describe_topics(self._session, names)

    def topic_configs(self, names: Iterable[str]) -> Answers[str, Mapping[str, ConfigValue]]:
        """Return every configuration entry of the topics."""
        return configs.topic_configs(self._session, names)

    def offsets(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        """Return log start, stable end and end of many partitions."""
        return offsets.offsets(self._session, partitions)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> Answers[TopicPartition, int | None]:
        """Return the first offset at `timestamp` (ms) or later, None if there is none."""
        return offsets.offsets_at(self._session, partitions, timestamp)

    def read_records(
        self, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        """Read up to `limit` records of each partition."""
        properties = client_properties(self._settings, "consumer")
        return record_io.read_records(self._session, properties, starts, limit, read_committed=read_committed)

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, OpenTransaction]:
        """Return the oldest open transaction of each partition that has one."""
        with Brokers(self._settings.connection) as connected:
            return open_transactions.open_transactions(connected, partitions)

    def record_prints(self, it: TopicPartition, start: int, limit: int) -> tuple[Fingerprint, ...]:
        """Fingerprint up to `limit` records of a partition."""
        return read_fingerprints(self._settings.connection, *it, start, limit)

    def epoch_ends(self, read: Mapping[TopicPartition, ReadUpTo]) -> Mapping[TopicPartition, EpochEnd]:
        """Return the end of the leader epoch that each partition was read up to."""
        if not read:
            return {}
        with Brokers(self._settings.connection) as brokers:
            ends = epoch_ends(brokers, {(it.topic, it.partition): up_to for it, up_to in read.items()})
        return {TopicPartition(*it): end for it, end in ends.items()}

    def latest(self, topic: str) -> Mapping[bytes, bytes | None]:
        """Return the latest committed value of each key, even if others hold transactions open."""
        return self._state_reader.latest(topic)

    def log_dirs(self) -> LogDirs:
        """Return the sizes of all logs, and how much disk is left."""
        with Brokers(self._settings.connection) as connected:
            return topic_admin.log_dirs(connected)

    def latest_records(self, topic: str) -> Mapping[bytes, ReadRecord]:
        """Return the latest committed record of each key."""
        return {
            key: ReadRecord(it.offset, it.timestamp, key, it.value, it.partition)
            for key, it in self._state_reader.latest_records(topic).items()
        }

    def groups(self) -> tuple[GroupListing, ...]:
        """Return the groups this user may see, of every type."""
        with Brokers(self._settings.connection) as connected:
            return groups.list_groups(connected)

    def lists_every_group(self) -> bool:
        """Say whether this user is shown every group."""
        return groups.lists_every_group(self._session)

    def describe_groups(self, names: Iterable[str]) -> Answers[str, GroupDescription]:
        """Describe classic and consumer groups."""
        return groups.describe_groups(self._session, names)

    def committed_offsets(
        self, names: Iterable[str]
    ) -> Answers[str, Mapping[TopicPartition, CommittedOffset]]:
        """Return all committed offsets of many groups."""
        with Brokers(self._settings.connection) as connected:
            return group_offsets.committed_offsets(connected, names)

    def create_topics(self, topics: Sequence[NewTopic]) -> Answers[str, None]:
        """Create topics and wait until metadata shows them."""
        return topic_admin.create_topics(self._session, topics)

    def create_partitions(self, counts: Mapping[str, int]) -> Answers[str, None]:
        """Grow topics to the given partition counts."""
        return topic_admin.create_partitions(self._session, counts)

    def produce(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records, all or an error."""
        self._writer.write(topic, records)

    def alter_offsets(
        self, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
    ) -> Answers[GroupPartition, None]:
        """Commit positions for groups without members."""
        with Brokers(self._settings.connection) as connected:
            return group_offsets.alter_offsets(connected, changes)

    def connect_workers(self, group: str) -> ConnectWorkers:
        """Return what the workers of a Kafka Connect group run."""
        with Brokers(self._settings.connection) as connected:
            return workers.connect_workers(connected, group)

    def delete_groups(self, names: Iterable[str]) -> Answers[str, None]:
        """Delete groups without members."""
        with Brokers(self._settings.connection) as connected:
            return group_offsets.delete_groups(connected, names)

    def delete_topics(self, names: Iterable[str]) -> Answers[str, None]:
        """Delete topics."""
        return topic_admin.delete_topics(self._session, names)

    def delete_records(self, at: TopicPartition, before: int) -> None:
        """Delete the records of a partition before an offset."""
        topic_admin.delete_records(self._session, at, before)

    def describe_acls(self) -> tuple[AclBinding, ...]:
        """Return every ACL."""
        return acls.describe_acls(self._settings.connection)

    def create_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        """Create ACLs."""
        return acls.create_acls(self._settings.connection, bindings)

    def delete_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        """Delete exactly these ACLs."""
        return acls.delete_acls(self._settings.connection, bindings)

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> Answers[tuple[str, str], None]:
        """Set or remove configs of topics."""
        return configs.alter_topic_configs(self._session, changes)

    def describe_quotas(self) -> Quotas:
        """Return every client quota."""
        return quotas.describe_quotas(self._settings.connection)

    def alter_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> Answers[tuple[QuotaEntity, str], None]:
        """Set or remove client quotas."""
        return quotas.alter_quotas(self._settings.connection, changes)

    def describe_scram_users(self) -> Mapping[str, tuple[ScramCredential, ...]]:
        """Return every user with SCRAM credentials."""
        return scram.describe_scram_users(self._settings.connection)

    def upsert_scram_users(self, users: Sequence[ScramUser]) -> Answers[str, None]:
        """Give users SCRAM credentials."""
        return scram.upsert_scram_users(self._settings.connection, users)
