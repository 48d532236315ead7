"""A real cluster over confluent-kafka: the methods of twinlog.cluster.api, each done by its own module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from twinlog.cluster import offsets as log_offsets
from twinlog.cluster import prints
from twinlog.cluster import records as record_io
from twinlog.cluster.admin import acls, configs, group_offsets, quotas, share_groups
from twinlog.cluster.admin import groups as group_admin
from twinlog.cluster.admin import open_transactions as transactions
from twinlog.cluster.admin import topics as topic_admin
from twinlog.cluster.by_requests.admin import RequestAdmin
from twinlog.cluster.by_requests.records import RequestWriter
from twinlog.cluster.few_records import read_few
from twinlog.cluster.permissions.needs import Need, Resource, Rights
from twinlog.cluster.permissions.rights import find_rights
from twinlog.cluster.session import Session, client_properties, describe_cluster
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.config.security.librdkafka import Role, connection_of
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.once import read_once
from twinlog.protocol import leader_epochs as log_epochs
from twinlog.protocol.brokers import Brokers, KeptBrokers

if TYPE_CHECKING:
    from twinlog.cluster.turn import KafkaTurn
    from twinlog.logs.log_reader import StateReader

P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate["KafkaCluster", P], R]


def _by_client(ask: Callable[Concatenate[Session, P], R]) -> Method[P, R]:
    """Make a method of a function that asks through the client library."""

    def method(cluster: KafkaCluster, /, *args: P.args, **named: P.kwargs) -> R:
        return ask(cluster.session, *args, **named)

    return method


def _by_requests(ask: Callable[Concatenate[Brokers, P], R]) -> Method[P, R]:
    """Make a method of a function that sends requests over connections of our own."""

    def method(cluster: KafkaCluster, /, *args: P.args, **named: P.kwargs) -> R:
        with cluster.brokers.lent() as connected:
            return ask(connected, *args, **named)

    return method


def by_kerberos(cluster: ClusterSettings, role: Role) -> ConnectionSettings | None:
    """Return how a cluster is reached if its login is one that confluent-kafka's wheel cannot make."""
    connection = connection_of(cluster, role)
    return connection if connection.sasl is not None and connection.sasl.kerberos is not None else None


class KafkaCluster:
    """One cluster, as `twinlog.cluster.api.Cluster` promises it; connects at the first question.

    Every method answers or raises within a minute: ClusterUnreachable, ClusterRefused.  With `written`, brokers that
    are too old for a target are refused before anything is changed there.  `brokers` are connections of our own.
    """

    def __init__(self, settings: ClusterSettings, *, written: bool = False) -> None:
        self._settings = settings
        self._written = written
        self.brokers = KeptBrokers(settings.connection)

    @property
    def alias(self) -> str:
        return self._settings.alias

    @property
    def connection(self) -> ConnectionSettings:
        """How the cluster is reached."""
        return self._settings.connection

    @read_once
    def session(self) -> Session:
        """The client library's connection."""
        if self._written:
            self._require_target()
        if (connection := by_kerberos(self._settings, "admin")) is not None:
            return Session(self.alias, {}, lambda _: RequestAdmin(connection))
        return Session(self.alias, client_properties(self._settings, "admin"))

    @read_once
    def _writer(self) -> record_io.RecordWriter | RequestWriter:
        if (connection := by_kerberos(self._settings, "producer")) is not None:
            return RequestWriter(self.session, connection)
        return record_io.RecordWriter(self.session, client_properties(self._settings, "producer"))

    @read_once
    def _state_reader(self) -> StateReader:
        from twinlog.logs.log_reader import StateReader

        return StateReader(self.brokers)

    _require_target = _by_requests(lambda brokers: brokers.any_broker().require_target())

    cluster_id = _by_client(lambda session: describe_cluster(session).cluster_id)
    broker_count = _by_client(lambda session: describe_cluster(session).brokers)

    topic_names = _by_client(topic_admin.topic_names)
    describe_topics = _by_client(topic_admin.describe_topics)
    create_topics = _by_client(topic_admin.create_topics)
    create_partitions = _by_client(topic_admin.create_partitions)
    delete_topics = _by_client(topic_admin.delete_topics)
    delete_records = _by_client(topic_admin.delete_records)
    log_dirs = _by_requests(topic_admin.log_dirs)
    topic_configs = _by_client(configs.topic_configs)
    alter_topic_configs = _by_client(configs.alter_topic_configs)

    offsets = _by_client(log_offsets.offsets)
    offsets_at = _by_client(log_offsets.offsets_at)
    open_transactions = _by_requests(transactions.open_transactions)

    groups = _by_requests(group_admin.list_groups)
    lists_every_group = _by_client(group_admin.lists_every_group)
    describe_groups = _by_client(group_admin.describe_groups)
    committed_offsets = _by_requests(group_offsets.committed_offsets)
    alter_offsets = _by_requests(group_offsets.alter_offsets)
    share_starts = _by_requests(share_groups.share_starts)
    alter_share_starts = _by_requests(share_groups.alter_share_starts)
    delete_groups = _by_requests(group_offsets.delete_groups)
    connect_workers = _by_requests(group_admin.connect_workers)

    describe_acls = _by_requests(acls.describe_acls)
    create_acls = _by_requests(acls.create_acls)
    delete_acls = _by_requests(acls.delete_acls)
    describe_quotas = _by_requests(quotas.describe_quotas)
    alter_quotas = _by_requests(quotas.alter_quotas)

    epoch_ends = _by_requests(log_epochs.epoch_ends)
    record_prints = _by_requests(prints.read_fingerprints)

    def rights(self, needs: Iterable[Need]) -> Mapping[tuple[str, Resource], Rights]:
        with self.brokers.lent() as connected:
            return find_rights(self.session, connected, needs)

    def read_records(
        self, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        topic_admin.describe_topics(self.session, {start.topic for start in starts}).require()
        with self.brokers.lent() as connected:
            return read_few(connected, starts, limit, read_committed=read_committed)

    def latest(self, topic: str) -> Mapping[bytes, bytes | None]:
        return self._state_reader.latest(topic)

    def latest_records(self, topic: str) -> Mapping[bytes, ReadRecord]:
        return self._state_reader.latest_records(topic)

    def turn(self, flow: str, ledger: str, timeout_ms: int) -> KafkaTurn:
        from twinlog.cluster.turn import KafkaTurn
        from twinlog.lane.fence.beside import take_turn

        with self.brokers.lent() as connected:
            writer = take_turn(connected, flow, timeout_ms, self._state_reader.log(ledger))
        return KafkaTurn(self.brokers, writer)

    def produce(self, topic: str, records: Sequence[InternalRecord]) -> None:
        self._writer.write(topic, records)
