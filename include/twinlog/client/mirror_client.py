"""Ask a cluster about the clusters it is replicated from: MM2's MirrorClient and RemoteClusterUtils.

The questions and answers are MirrorClient's, with one difference: MM2 returns what it could read before a time-out.
Here an answer says whether it is complete, and a failed read is an error.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.cluster.api import ClusterReader
from twinlog.errors import FormatError, TerminalError
from twinlog.formats.mm2.records import Checkpoint
from twinlog.kafka_types import TopicPartition
from twinlog.policy.replication import ReplicationPolicy

BROKERS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that Kafka's listTopics leaves out unless asked for them."""


@dataclass(frozen=True, slots=True)
class Completeness:
    """Tell whether an answer is complete.

    `records` were read, up to the end of the topic at the time of the question.  `unreadable` of them were no
    checkpoints of a known version and are not in the answer.
    """

    records: int
    unreadable: int

    @property
    def complete(self) -> bool:
        """Say whether nothing had to be left out."""
        return not self.unreadable


@dataclass(frozen=True, slots=True)
class RemoteOffset:
    """Tell where a group goes on: `offset` here for `upstream_offset` committed on the other cluster, and metadata."""

    offset: int
    upstream_offset: int
    metadata: str


GroupOffsets = Mapping[TopicPartition, RemoteOffset]


@dataclass(frozen=True, slots=True)
class RemoteOffsets:
    """Offsets by group, and by the partition on this cluster."""

    groups: Mapping[str, GroupOffsets]
    completeness: Completeness

    def of(self, group: str) -> GroupOffsets:
        """Return one group's offsets; empty for a group without checkpoints."""
        return self.groups.get(group, {})


@dataclass(frozen=True, slots=True)
class SourceAndTarget:
    """A pair of clusters, printed `A->B`."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class MirrorClient:
    """Questions to one cluster.  Each raises ClusterUnreachable or ClusterRefused."""

    def __init__(self, cluster: ClusterReader, policy: ReplicationPolicy) -> None:
        self.cluster = cluster
        self.replication_policy = policy

    def heartbeat_topics(self) -> frozenset[str]:
        """Return the heartbeats topics, those of clusters further upstream included."""
        return frozenset(filter(self.replication_policy.is_heartbeats_topic, self._topics()))

    def checkpoint_topics(self) -> frozenset[str]:
        """Return the topics that hold checkpoints."""
        return frozenset(filter(self.replication_policy.is_checkpoints_topic, self._topics()))

    def upstream_clusters(self) -> frozenset[str]:
        """Return every cluster whose heartbeats arrive here, over any number of hops."""
        return frozenset(alias for topic in self.heartbeat_topics() for alias in self._sources(topic))

    def replication_hops(self, source_alias: str) -> int | None:
        """Count the hops from a cluster to this one on the shortest way; None if there is no way (MM2: -1)."""
        hops = (self._hops(topic, source_alias) for topic in self.heartbeat_topics())
        return min((it for it in hops if it is not None), default=None)

    def remote_topics(self, source_alias: str | None = None) -> frozenset[str]:
        """Return the topics replicated to this cluster, from anywhere or directly from one cluster.

        By their names alone, as MM2 does: under the default policy every dotted name counts.
        """
        policy = self.replication_policy
        return frozenset(
            name
            for name in self._topics()
            if not policy.is_internal_topic(name)
            and (source := policy.topic_source(name)) is not None
            and source_alias in {None, source}
        )

    def remote_consumer_offsets(self, group: str | re.Pattern[str], source_alias: str) -> RemoteOffsets:
        """Read where groups of `source_alias` go on here, from its checkpoints: one, or all whose whole id matches.

        Raises TerminalError `no-checkpoints` if there is no such topic here.
        """
        topic = self.replication_policy.checkpoints_topic(source_alias)
        groups: defaultdict[str, dict[TopicPartition, RemoteOffset]] = defaultdict(dict)
        read = unreadable = 0
        for key, value in self._checkpoints(topic, source_alias).items():
            read += 1
            try:
                it = Checkpoint.parse(key, value or b"")
            except FormatError:
                unreadable += 1
                continue
            if it.group == group if isinstance(group, str) else group.fullmatch(it.group):
                place = it.topic_partition
                groups[it.group][place] = RemoteOffset(it.downstream_offset, it.upstream_offset, it.metadata)
        return RemoteOffsets(dict(groups), Completeness(read, unreadable))

    translate_offsets = remote_consumer_offsets
    """RemoteClusterUtils' name for the same method."""

    def _topics(self) -> Iterable[str]:
        return (name for name in self.cluster.topic_names() if name not in BROKERS_OWN)

    def _sources(self, topic: str | None) -> Iterator[str]:
        seen: set[str] = set()
        while topic is not None and (source := self.replication_policy.topic_source(topic)) not in {
            None,
            *seen,
        }:
            seen.add(source or "")
            yield source or ""
            topic = self.replication_policy.upstream_topic(topic)

    def _hops(self, topic: str, source_alias: str) -> int | None:
        for hops, source in enumerate(self._sources(topic), start=1):
            if source == source_alias:
                return hops
        return None

    def _checkpoints(self, topic: str, source_alias: str) -> Mapping[bytes, bytes | None]:
        try:
            return self.cluster.latest(topic)
        except TerminalError as error:
            if error.code != "no-internal-topic":
                raise
            raise TerminalError(
                f"{self.cluster.alias} has no topic {topic}: nobody writes checkpoints of {source_alias} to it",
                hint="check the alias, and that emit.checkpoints.enabled is not false for that flow",
                code="no-checkpoints",
                topic=topic,
            ) from None
