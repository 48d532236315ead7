"""The questions twinlog asks a Kafka cluster, and the few changes it makes there; a flow opens two clusters together.

`KafkaCluster` (twinlog.cluster.kafka) asks real brokers; `FakeCluster`, in the tests, answers from memory. Every
method returns frozen values or raises one of our errors: ClusterUnreachable if no broker answers in time,
ClusterRefused if one says no, with the resource and the missing ACL. Methods about many items return `Answers`: a
refusal about one item does not lose the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from twinlog.cluster.admin.access_values import AclBinding, QuotaEntity, Quotas
from twinlog.cluster.admin.group_members import ConnectWorkers
from twinlog.cluster.admin.groups import (
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupPartition,
    OffsetChange,
    ShareStart,
)
from twinlog.cluster.admin.open_transactions import OpenTransaction
from twinlog.cluster.admin.topics import LogDirs
from twinlog.cluster.kafka import KafkaCluster
from twinlog.cluster.permissions.needs import Need, Resource, Rights
from twinlog.cluster.prints import Fingerprint
from twinlog.cluster.values import (
    Answers,
    ConfigValue,
    InternalRecord,
    NewTopic,
    PartitionOffsets,
    TopicDescription,
)
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable
from twinlog.kafka_types import ReadRecord, TopicPartition
from twinlog.protocol.leader_epochs import EpochEnd, ReadUpTo


class ClusterReader(Protocol):
    """The methods that change nothing: all that planning needs."""

    @property
    def alias(self) -> str:
        """The cluster's name in the configuration file."""

    def answers(self, seconds: float) -> bool:
        """Say whether any of its brokers answers within `seconds`; a refused login is an answer."""

    def cluster_id(self) -> str:
        """Return the id the cluster was formatted with."""

    def broker_count(self) -> int:
        """Return how many brokers are registered: the highest possible replication factor."""

    def topic_names(self) -> tuple[str, ...]:
        """Return the topics this user may see, sorted, Kafka's own (`__consumer_offsets`) included."""

    def describe_topics(self, names: Iterable[str]) -> Answers[str, TopicDescription]:
        """Describe topics by name; a missing topic is refused with code `unknown-topic`."""

    def topic_configs(self, names: Iterable[str]) -> Answers[str, Mapping[str, ConfigValue]]:
        """Return every configuration entry of the topics, defaults included, by entry name."""

    def describe_acls(self) -> tuple[AclBinding, ...]:
        """Return every ACL, sorted; refused with code `no-authorizer` by a cluster that keeps none."""

    def describe_quotas(self) -> Quotas:
        """Return every client quota."""

    def offsets(self, partitions: Iterable[TopicPartition]) -> Answers[TopicPartition, PartitionOffsets]:
        """Return log start, stable end and end of many partitions in three requests a broker."""

    def offsets_at(
        self, partitions: Iterable[TopicPartition], timestamp: int
    ) -> Answers[TopicPartition, int | None]:
        """Return the first offset whose record is at `timestamp` (ms) or later; None if there is none."""

    def read_records(
        self, starts: Mapping[TopicPartition, int], limit: int, *, read_committed: bool = True
    ) -> Mapping[TopicPartition, tuple[ReadRecord, ...]]:
        """Read up to `limit` records of each partition, from the given offset to the end of that isolation level."""

    def open_transactions(
        self, partitions: Iterable[TopicPartition]
    ) -> Answers[TopicPartition, OpenTransaction]:
        """Return the oldest open transaction of each partition that has one, and its owner, as far as brokers tell."""

    def record_prints(self, it: TopicPartition, start: int, limit: int) -> tuple[Fingerprint, ...]:
        """Fingerprint up to `limit` records of a partition, from `start` (or the log start) to the stable end.

        Records of aborted transactions are included, and marked.
        """

    def epoch_ends(self, read: Mapping[TopicPartition, ReadUpTo]) -> Mapping[TopicPartition, EpochEnd]:
        """Return the end of the leader epoch that each partition was read up to; leaderless ones are left out."""

    def latest(self, topic: str) -> Mapping[bytes, bytes | None]:
        """Return the latest committed value of each key, up to the high watermark.

        A read_committed consumer sees less. Such a consumer stops at another producer's open transaction, and would
        hide our own committed records behind it (docs/architecture.md).
        """

    def log_dirs(self) -> LogDirs:
        """Return the sizes of all logs, and how much disk is left on the fullest disk."""

    def latest_records(self, topic: str) -> Mapping[bytes, ReadRecord]:
        """Return the latest committed record of each key, as `latest` does, with its offset and time."""

    def rights(self, needs: Iterable[Need]) -> Mapping[tuple[str, Resource], Rights]:
        """Find out what this user may do on each resource that `needs` of this cluster names; nothing is changed."""

    def groups(self) -> tuple[GroupListing, ...]:
        """Return the groups this user may see, of every type, sorted."""

    def lists_every_group(self) -> bool:
        """Say whether `groups` hides none: brokers list every group to a user who may DESCRIBE the cluster."""

    def describe_groups(self, names: Iterable[str]) -> Answers[str, GroupDescription]:
        """Describe classic and consumer groups with their members; one that does not exist is `dead`."""

    def committed_offsets(
        self, groups: Iterable[str]
    ) -> Answers[str, Mapping[TopicPartition, CommittedOffset]]:
        """Return all committed offsets of many groups; a group that does not exist has none."""

    def share_starts(self, groups: Iterable[str]) -> Answers[str, Mapping[TopicPartition, ShareStart]]:
        """Return the start offsets of share groups, -1 where there is none yet; a missing group has none."""

    def connect_workers(self, group: str) -> ConnectWorkers:
        """Return what the workers of a Kafka Connect group run; no members for a group that does not exist."""


class Turn(Protocol):
    """A turn to change a flow's state, beside its lanes."""

    def write(self, records: Mapping[str, Sequence[InternalRecord]]) -> None:
        """Commit records, by topic, in one transaction; call this once.

        Raises FencedError if somebody has taken the next turn, and errors of the cluster; nothing is written then.  If
        the answer is lost, TransientError: the next turn settles it.
        """


class Cluster(ClusterReader, Protocol):
    """A cluster that may also be changed."""

    def turn(self, flow: str, ledger: str, timeout_ms: int) -> Turn:
        """Take a turn to change the state of `flow`, whose topic is `ledger`: what is read then is what others left."""

    def create_topics(self, topics: Sequence[NewTopic]) -> Answers[str, None]:
        """Create topics and wait until metadata shows them; one that exists already is a success."""

    def create_partitions(self, counts: Mapping[str, int]) -> Answers[str, None]:
        """Grow topics to the given partition counts and wait until metadata shows them.

        A topic that has its count already is a success.
        """

    def produce(self, topic: str, records: Sequence[InternalRecord]) -> None:
        """Write records with acks=all and idempotence, outside any transaction; all or an error."""

    def alter_offsets(
        self, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
    ) -> Answers[GroupPartition, None]:
        """Commit positions for groups without members, each read again and compared right before it is written.

        A change is refused with code `offset-moved` if the position is no longer the expected one, with `group-active`
        if the group has members.
        """

    def alter_share_starts(
        self, changes: Mapping[str, Mapping[TopicPartition, OffsetChange]]
    ) -> Answers[GroupPartition, None]:
        """Set start offsets of share groups without members, as `alter_offsets` does; creates missing groups."""

    def delete_groups(self, groups: Iterable[str]) -> Answers[str, None]:
        """Delete groups without members, with their offsets; one that does not exist is a success."""

    def delete_topics(self, names: Iterable[str]) -> Answers[str, None]:
        """Delete topics with all their records."""

    def delete_records(self, at: TopicPartition, before: int) -> None:
        """Delete the records of a partition before an offset.

        Raises the cluster's refusal.
        """

    def alter_topic_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> Answers[tuple[str, str], None]:
        """Set configs of topics, or remove them (None); answers by (topic, config), each by itself."""

    def create_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        """Create ACLs; one that exists already is a success."""

    def delete_acls(self, bindings: Iterable[AclBinding]) -> Answers[AclBinding, None]:
        """Delete exactly these ACLs; one that does not exist is a success."""

    def alter_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]]
    ) -> Answers[tuple[QuotaEntity, str], None]:
        """Set client quotas, or remove them (None); answers by (entity, key), each by itself."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Source and target of one flow."""

    source: Cluster
    target: Cluster


@contextmanager
def open_clusters(flow: FlowSettings) -> Iterator[Clusters]:
    """Yield the flow's two clusters; each connects at its first question, and disconnects in the end."""
    source, target = KafkaCluster(flow.source), KafkaCluster(flow.target, written=True)
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
        if error.data.get("cluster") != alias:
            raise
        raise ClusterUnreachable(error.message, hint=hint, **{**error.data, **data}) from None
