"""The questions twinlog asks a Kafka cluster, and the few changes it makes there; a flow opens two clusters together.

Each is done by a module of its own. `FakeCluster`, in the tests, answers from memory as `Cluster` does. Every
method returns frozen values or raises one of our errors within a minute: ClusterUnreachable if no broker answers in
time, ClusterRefused if one says no, with the resource and the missing ACL. Methods about many items return `Answers`: a
refusal about one item does not lose the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from twinlog.config.flow.settings import FlowSettings
from twinlog.config.security.connection import ClusterSettings, ConnectionSettings
from twinlog.config.security.librdkafka import connection_of
from twinlog.errors import ClusterUnreachable
from twinlog.kafka_types import Positions, ReadRecord, TopicPartition
from twinlog.once import read_once
from twinlog.protocol import leader_epochs as log_epochs
from twinlog.protocol import silence
from twinlog.protocol.brokers import Brokers
from twinlog.protocol.kept_brokers import KeptBrokers

if TYPE_CHECKING:
    from twinlog.cluster.turn import Turn
    from twinlog.logs.log_reader import StateReader

P = ParamSpec("P")
R = TypeVar("R")
Method = Callable[Concatenate["ClusterReader", P], R]


def _by(whose: Literal["admins", "brokers"], ask: Callable[Concatenate[Brokers, P], R]) -> Method[P, R]:
    """Make a method of a function that sends requests over connections of the administrator, or of the relay."""

    def method(cluster: ClusterReader, /, *args: P.args, **named: P.kwargs) -> R:
        with getattr(cluster, whose).lent() as connected:
            return ask(connected, *args, **named)

    return method


class ClusterReader:
    """The methods that change nothing: all that planning needs.  Connects at the first question.

    With `written`, brokers that are too old for a target are refused before anything is changed there.  `brokers` are
    connections of the relay.
    """

    def __init__(self, settings: ClusterSettings, *, written: bool = False) -> None:
        self._settings = settings
        self._written = written
        self.brokers = KeptBrokers(settings.connection)

    @property
    def alias(self) -> str:
        """The cluster's name in the configuration file."""
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
    def _state_reader(self) -> StateReader:
        from twinlog.logs.log_reader import StateReader

        return StateReader(self.brokers)

    _require_target = _by("brokers", lambda brokers: brokers.any_broker().require_target())

    def answers(self, seconds: float) -> bool:
        """Say whether any of its brokers answers within `seconds`; a refused login is an answer."""
        return silence.answers(connection_of(self._settings, "admin"), seconds)

    cluster_id = _by("admins", lambda admins: topic_admin.describe_cluster(admins).cluster_id)
    """Return the id the cluster was formatted with."""

    broker_count = _by("admins", lambda admins: topic_admin.describe_cluster(admins).brokers)
    """Return how many brokers are registered: the highest possible replication factor."""

    topic_names = _by("admins", topic_admin.topic_names)
    """Return the topics this user may see, sorted, Kafka's own (`__consumer_offsets`) included."""

    describe_topics = _by("admins", topic_admin.describe_topics)
    """Describe topics by name; a missing topic is refused with code `unknown-topic`."""

    topic_configs = _by("admins", configs.topic_configs)
    """Return every configuration entry of the topics, defaults included, by entry name."""

    describe_acls = _by("brokers", acls.describe_acls)
    """Return every ACL, sorted; refused with code `no-authorizer` by a cluster that keeps none."""

    describe_quotas = _by("brokers", quotas.describe_quotas)
    """Return every client quota."""

    offsets = _by("admins", log_offsets.offsets)
    """Return log start, stable end and end of many partitions in three requests a broker."""

    leaders = _by("brokers", log_offsets.leaders)
    """Return the node id of each partition's leader, -1 where nobody leads now."""

    offsets_at = _by("admins", log_offsets.offsets_at)
    """Return the first offset whose record is at `timestamp` (ms) or later; None if there is none."""

    open_transactions = _by("brokers", transactions.open_transactions)
    """Return the oldest open transaction of each partition that has one, and its owner, as far as brokers tell."""

    record_prints = _by("brokers", prints.read_fingerprints)
    """Fingerprint up to `limit` records of a partition, from `start` (or the log start) to the stable end.

    Records of aborted transactions are included, and marked.
    """

    epoch_ends = _by("brokers", log_epochs.epoch_ends)
    """Return the end of the leader epoch that each partition was read up to; leaderless ones are left out."""

    log_dirs = _by("brokers", topic_admin.log_dirs)
    """Return the sizes of all logs, and how much disk is left on the fullest disk."""

    groups = _by("brokers", group_admin.list_groups)
    """Return the groups this user may see, of every type, sorted."""

    lists_every_group = _by(
        "admins", lambda admins: "DESCRIBE" in topic_admin.describe_cluster(admins).operations
    )
    """Say whether `groups` hides none: brokers list every group to a user who may DESCRIBE the cluster."""

    describe_groups = _by("admins", group_members.describe_groups)
    """Describe classic and consumer groups with their members; one that does not exist is `dead`."""

    committed_offsets = _by("brokers", group_offsets.committed_offsets)
    """Return all committed offsets of many groups; a group that does not exist has none."""

    share_starts = _by("brokers", share_groups.share_starts)
    """Return the start offsets of share groups, -1 where there is none yet; a missing group has none."""

    connect_workers = _by("brokers", group_members.connect_workers)
    """Return what the workers of a Kafka Connect group run; no members for a group that does not exist."""

    def rights(self, needs: Iterable[Need]) -> Mapping[tuple[str, Resource], Rights]:
        """Find out what this user may do on each resource that `needs` of this cluster names; nothing is changed."""
        with self.admins.lent() as admins, self.brokers.lent() as brokers:
            return find_rights(admins, brokers, needs)

    def read_records(
        self, starts: Positions, limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        """Read up to `limit` records of each partition, from the given offset to the end of that isolation level."""
        self.describe_topics({start.topic for start in starts}).require()
        with self.brokers.lent() as connected:
            return read_few(connected, starts, limit, read_committed=read_committed)

    def latest(self, topic: str) -> Mapping[bytes, bytes | None]:
        """Return the latest committed value of each key, up to the high watermark.

        A read_committed consumer sees less. Such a consumer stops at another producer's open transaction, and would
        hide our own committed records behind it (docs/architecture.md).
        """
        return self._state_reader.latest(topic)

    def latest_records(self, topic: str) -> Mapping[bytes, ReadRecord]:
        """Return the latest committed record of each key, as `latest` does, with its offset and time."""
        return self._state_reader.latest_records(topic)

    def gained_records(
        self, topic: str, since: Mapping[int, int]
    ) -> tuple[Mapping[bytes, ReadRecord], Mapping[int, int]]:
        """Return the latest records that a topic has gained `since` those offsets, and from where to go on."""
        return self._state_reader.gained(topic, since)


class Cluster(ClusterReader):
    """A cluster that may also be changed."""

    @read_once
    def _writer(self) -> record_io.RecordWriter | RequestWriter:
        connection = connection_of(self._settings, "producer")
        if connection.sasl is not None and connection.sasl.kerberos is not None:
            return RequestWriter(connection)  # confluent-kafka's wheel has no Kerberos
        return record_io.RecordWriter(self._settings)

    def turn(self, flow: str, ledger: str, timeout_ms: int) -> Turn:
        """Take a turn to change the state of `flow`, whose topic is `ledger`: what is read then is what others left."""
        from twinlog.cluster.turn import Turn
        from twinlog.lane.fence.beside import take_turn

        with self.brokers.lent() as connected:
            writer = take_turn(connected, flow, timeout_ms, self._state_reader.log(ledger))
        return Turn(self.brokers, writer)

    def produce(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records with acks=all and idempotence, outside any transaction; all or an error."""
        self.describe_topics([topic]).require()  # a client would wait for a missing topic, or create it
        self._writer.write(topic, records)

    create_topics = _by("admins", topic_admin.create_topics)
    """Create topics and wait until metadata shows them; one that exists already is a success."""

    create_partitions = _by("admins", topic_admin.create_partitions)
    """Grow topics to the given partition counts and wait until metadata shows them.

    A topic that has its count already is a success.
    """

    delete_topics = _by("admins", topic_admin.delete_topics)
    """Delete topics with all their records."""

    delete_records = _by("admins", log_offsets.delete_records)
    """Delete the records of a partition before an offset.

    Raises the cluster's refusal.
    """

    alter_topic_configs = _by("admins", configs.alter_topic_configs)
    """Set configs of topics, or remove them (None); answers by (topic, config), each by itself."""

    alter_offsets = _by("brokers", group_offsets.alter_offsets)
    """Commit positions for groups without members, each read again and compared right before it is written.

    A change is refused with code `offset-moved` if the position is no longer the expected one, with `group-active`
    if the group has members.
    """

    alter_share_starts = _by("brokers", share_groups.alter_share_starts)
    """Set start offsets of share groups without members, as `alter_offsets` does; creates missing groups."""

    delete_groups = _by("brokers", group_offsets.delete_groups)
    """Delete groups without members, with their offsets; one that does not exist is a success."""

    create_acls = _by("brokers", acls.create_acls)
    """Create ACLs; one that exists already is a success."""

    delete_acls = _by("brokers", acls.delete_acls)
    """Delete exactly these ACLs; one that does not exist is a success."""

    alter_quotas = _by("brokers", quotas.alter_quotas)
    """Set client quotas, or remove them (None); answers by (entity, key), each by itself."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Source and target of one flow."""

    source: Cluster
    target: Cluster


@contextmanager
def open_clusters(flow: FlowSettings) -> Iterator[Clusters]:
    """Yield the flow's two clusters; each connects at its first question, and disconnects in the end."""
    source, target = Cluster(flow.source), Cluster(flow.target, written=True)
    try:
        yield Clusters(source, target)
    finally:
        source.close()
        target.close()


@contextmanager
def awaited(alias: str, hint: str, **data: str) -> Iterator[None]:
    """Tell a person what to do while a cluster does not answer: this hint, and more data, go into its error."""
    try:
        yield
    except ClusterUnreachable as error:
        if error.cluster != alias:
            raise
        raise ClusterUnreachable(error.message, hint=hint, **{**error.data, **data}) from None
