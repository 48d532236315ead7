"""A real cluster over confluent-kafka: the methods of twinlog.cluster.api, each done by its own module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from twinlog.cluster import offsets
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
from twinlog.cluster.permissions.needs import Need, Resource, Rights
from twinlog.cluster.permissions.rights import find_rights
from twinlog.cluster.prints import Fingerprint, read_fingerprints
from twinlog.cluster.session import Session, client_properties, describe_cluster
from twinlog.cluster.values import (
    Answers,
    ConfigValue,
    InternalRecord,
    NewTopic,
    PartitionOffsets,
    TopicDescription,
)
from twinlog.config.security.connection import ClusterSettings
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.leader_epochs import EpochEnd, ReadUpTo, epoch_ends

if TYPE_CHECKING:
    from twinlog.logs.log_reader import StateReader

P = ParamSpec("P")
R = TypeVar("R")


class KafkaCluster:
    """One cluster, as `twinlog.cluster.api.Cluster` promises it; connects at the first question.

    Every method answers or raises within 30 s: ClusterUnreachable, ClusterRefused.  With `written`, brokers that are
    too old for a target are refused before anything is changed there.
    """

    def __init__(self, settings: ClusterSettings, *, written: bool = False) -> None:
        self._settings = settings
        self._written = written

    @property
    def alias(self) -> str:
        return self._settings.alias

    @cached_property
    def _session(self) -> Session:
        if self._written:
            self._asked(lambda brokers: brokers.any_broker().require_target())
        return Session(self.alias, client_properties(self._settings, "admin"))

    @cached_property
    def _writer(self) -> record_io.RecordWriter:
        return record_io.RecordWriter(self._session, client_properties(self._settings, "producer"))

    @cached_property
    def _state_reader(self) -> StateReader:
        from twinlog.logs.log_reader import StateReader

        return StateReader(self._settings.connection)

    def _asked(self, question: Callable[Concatenate[Brokers, P], R], *args: P.args, **named: P.kwargs) -> R:
        """Ask over connections of our own, which are closed afterwards."""
        with Brokers(self._settings.connection) as connected:
            return question(connected, *args, **named)

    def cluster_id(self) -> str:
        return describe_cluster(self._session).cluster_id

    def broker_count(self) -> int:
        return describe_cluster(self._session).brokers

    def topic_names(self) -> tuple[str, ...]:
        return topic_admin.topic_names(self._session)

    def describe_topics(self, names: Iterable[str]) -> Answers[str, TopicDescription]:
        return topic_admin.describe_topics(self._session, names)

    def topic_configs(self, names: Iterable[str]) -> Answers[str, Mapping[str, ConfigValue]]:
        return configs.topic_configs(self._session, names)

    def offsets(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        return offsets.offsets(self._session, partitions)

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> Answers[TopicPartition, int | None]:
        return offsets.offsets_at(self._session, partitions, timestamp)

    def read_records(
        self, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        properties = client_properties(self._settings, "consumer")
        return record_io.read_records(self._session, properties, starts, limit, read_committed=read_committed)

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, OpenTransaction]:
        return self._asked(open_transactions.open_transactions, partitions)

    def record_prints(self, it: TopicPartition, start: int, limit: int) -> tuple[Fingerprint, ...]:
        return read_fingerprints(self._settings.connection, *it, start, limit)

    def epoch_ends(self, read: Mapping[TopicPartition, ReadUpTo]) -> Mapping[TopicPartition, EpochEnd]:
        if not read:
            return {}
        return self._asked(epoch_ends, read)

    def latest(self, topic: str) -> Mapping[bytes, bytes | None]:
        return self._state_reader.latest(topic)

    def log_dirs(self) -> LogDirs:
        return self._asked(topic_admin.log_dirs)

    def latest_records(self, topic: str) -> Mapping[bytes, ReadRecord]:
        return self._state_reader.latest_records(topic)

    def rights(self, needs: Iterable[Need]) -> Mapping[tuple[str, Resource], Rights]:
        return find_rights(self._session, self._settings.connection, needs)

    def groups(self) -> tuple[GroupListing, ...]:
        return self._asked(groups.list_groups)

    def lists_every_group(self) -> bool:
        return groups.lists_every_group(self._session)

    def describe_groups(self, names: Iterable[str]) -> Answers[str, GroupDescription]:
        return groups.describe_groups(self._session, names)

    def committed_offsets(
        self, names: Iterable[str]
    ) -> Answers[str, Mapping[TopicPartition, CommittedOffset]]:
        return self._asked(group_offsets.committed_offsets, names)

    def create_topics(self, topics: Sequence[NewTopic]) -> Answers[str, None]:
        return topic_admin.create_topics(self._session, topics)

    def create_partitions(self, counts: Mapping[str, int]) -> Answers[str, None]:
        return topic_admin.create_partitions(self._session, counts)

    def produce(self, topic: str, records: Sequence[InternalRecord]) -> None:
        self._writer.write(topic, records)

    def alter_offsets(
        self, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
    ) -> Answers[GroupPartition, None]:
        return self._asked(group_offsets.alter_offsets, changes)

    def connect_workers(self, group: str) -> ConnectWorkers:
        return self._asked(workers.connect_workers, group)

    def delete_groups(self, names: Iterable[str]) -> Answers[str, None]:
        return self._asked(group_offsets.delete_groups, names)

    def delete_topics(self, names: Iterable[str]) -> Answers[str, None]:
        return topic_admin.delete_topics(self._session, names)

    def delete_records(self, at: TopicPartition, before: int) -> None:
        topic_admin.delete_records(self._session, at, before)

    def describe_acls(self) -> tuple[AclBinding, ...]:
        return acls.describe_acls(self._settings.connection)

    def create_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        return acls.create_acls(self._settings.connection, bindings)

    def delete_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        return acls.delete_acls(self._settings.connection, bindings)

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> Answers[tuple[str, str], None]:
        return configs.alter_topic_configs(self._session, changes)

    def describe_quotas(self) -> Quotas:
        return quotas.describe_quotas(self._settings.connection)

    def alter_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> Answers[tuple[QuotaEntity, str], None]:
        return quotas.alter_quotas(self._settings.connection, changes)

    def describe_scram_users(self) -> Mapping[str, tuple[ScramCredential, ...]]:
        return scram.describe_scram_users(self._settings.connection)

    def upsert_scram_users(self, users: Sequence[ScramUser]) -> Answers[str, None]:
        return scram.upsert_scram_users(self._settings.connection, users)
