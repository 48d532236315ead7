"""A real cluster: the methods of twinlog.cluster.api, each done by its own module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, TypeVar

from twinlog.cluster import offsets as log_offsets
from twinlog.cluster import prints
from twinlog.cluster import records as record_io
from twinlog.cluster.admin import acls, configs, group_members, group_offsets, quotas, share_groups
from twinlog.cluster.admin import groups as group_admin
from twinlog.cluster.admin import open_transactions as transactions
from twinlog.cluster.admin import topics as topic_admin
from twinlog.cluster.few_records import read_few
from twinlog.cluster.permissions.needs import Need, Resource, Rights
from twinlog.cluster.permissions.rights import find_rights
from twinlog.cluster.request_writer import RequestWriter
from twinlog.cluster.values import InternalRecord
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.config.security.librdkafka import connection_of
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.once import read_once
from twinlog.protocol import leader_epochs as log_epochs
from twinlog.protocol import silence
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.kept_brokers import KeptBrokers

if TYPE_CHECKING:
    from twinlog.cluster.turn import KafkaTurn
    from twinlog.logs.log_reader import StateReader

P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate["KafkaCluster", P], R]


def _by(whose: Literal["admins", "brokers"], ask: Callable[Concatenate[Brokers, P], R]) -> Method[P, R]:
    """Make a method of a function that sends requests over connections of the administrator, or of the relay."""

    def method(cluster: KafkaCluster, /, *args: P.args, **named: P.kwargs) -> R:
        with getattr(cluster, whose).lent() as connected:
            return ask(connected, *args, **named)

    return method


class KafkaCluster:
    """One cluster, as `twinlog.cluster.api.Cluster` promises it; connects at the first question.

    Every method answers or raises within a minute: ClusterUnreachable, ClusterRefused.  With `written`, brokers that
    are too old for a target are refused before anything is changed there.  `brokers` are connections of the relay.
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
    def admins(self) -> KeptBrokers:
        """Connections with the properties of an admin client; the relay's if these are the same."""
        if self._written:
            self._require_target()
        connection = connection_of(self._settings, "admin")
        return self.brokers if connection == self.connection else KeptBrokers(connection)

    def close(self) -> None:
        """Close all connections."""
        self.brokers.close()
        if "admins" in vars(self):
            self.admins.close()

    @read_once
    def _writer(self) -> record_io.RecordWriter | RequestWriter:
        connection = connection_of(self._settings, "producer")
        if connection.sasl is not None and connection.sasl.kerberos is not None:
            return RequestWriter(connection)  # confluent-kafka's wheel has no Kerberos
        return record_io.RecordWriter(self._settings)

    @read_once
    def _state_reader(self) -> StateReader:
        from twinlog.logs.log_reader import StateReader

        return StateReader(self.brokers)

    _require_target = _by("brokers", lambda brokers: brokers.any_broker().require_target())

    def answers(self, seconds: float) -> bool:
        return silence.answers(connection_of(self._settings, "admin"), seconds)

    cluster_id = _by("admins", lambda admins: topic_admin.describe_cluster(admins).cluster_id)
    broker_count = _by("admins", lambda admins: topic_admin.describe_cluster(admins).brokers)

    topic_names = _by("admins", topic_admin.topic_names)
    describe_topics = _by("admins", topic_admin.describe_topics)
    create_topics = _by("admins", topic_admin.create_topics)
    create_partitions = _by("admins", topic_admin.create_partitions)
    delete_topics = _by("admins", topic_admin.delete_topics)
    delete_records = _by("admins", log_offsets.delete_records)
    log_dirs = _by("brokers", topic_admin.log_dirs)
    topic_configs = _by("admins", configs.topic_configs)
    alter_topic_configs = _by("admins", configs.alter_topic_configs)

    offsets = _by("admins", log_offsets.offsets)
    offsets_at = _by("admins", log_offsets.offsets_at)
    open_transactions = _by("brokers", transactions.open_transactions)

    groups = _by("brokers", group_admin.list_groups)
    lists_every_group = _by(
        "admins", lambda admins: "DESCRIBE" in topic_admin.describe_cluster(admins).operations
    )
    describe_groups = _by("admins", group_members.describe_groups)
    committed_offsets = _by("brokers", group_offsets.committed_offsets)
    alter_offsets = _by("brokers", group_offsets.alter_offsets)
    share_starts = _by("brokers", share_groups.share_starts)
    alter_share_starts = _by("brokers", share_groups.alter_share_starts)
    delete_groups = _by("brokers", group_offsets.delete_groups)
    connect_workers = _by("brokers", group_members.connect_workers)

    describe_acls = _by("brokers", acls.describe_acls)
    create_acls = _by("brokers", acls.create_acls)
    delete_acls = _by("brokers", acls.delete_acls)
    describe_quotas = _by("brokers", quotas.describe_quotas)
    alter_quotas = _by("brokers", quotas.alter_quotas)

    epoch_ends = _by("brokers", log_epochs.epoch_ends)
    record_prints = _by("brokers", prints.read_fingerprints)

    def rights(self, needs: Iterable[Need]) -> Mapping[tuple[str, Resource], Rights]:
        with self.admins.lent() as admins, self.brokers.lent() as brokers:
            return find_rights(admins, brokers, needs)

    def read_records(
        self, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        self.describe_topics({start.topic for start in starts}).require()
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
        self.describe_topics([topic]).require()  # a client would wait for a missing topic, or create it
        self._writer.write(topic, records)
