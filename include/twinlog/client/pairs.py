"""Find the partition of the other cluster that a question about offsets concerns, or say why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, PartitionOffsets, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.map.packed_map import PackedMap
from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.progress import Maps
from twinlog.topics.incarnations import copied_from, differ
from twinlog.topics.snapshot import all_partitions

LARGEST = (1 << 63) - 1
"""The largest possible offset: Kafka's are signed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Ask(OfPartition):
    """The next offset that a reader reads in a partition; `topic` is the name on the side the offset is from.

    `group` names the reader, if it is known.
    """

    topic: str
    partition: int
    offset: int
    group: str = ""


class Basis(StrEnum):
    """The basis of an answer: the exact map, MM2's offset-syncs (never exact), or nothing."""

    MAP = "map"
    OFFSET_SYNCS = "offset-syncs"
    NONE = "none"


class Reason(StrEnum):
    """Name why there is no answer, or what is noteworthy about one."""

    NONE = ""
    NEGATIVE = "negative"
    UNKNOWN_TOPIC = "unknown-topic"
    UNKNOWN_PARTITION = "unknown-partition"
    RECREATED = "recreated"
    BEYOND_END = "beyond-end"
    MISSING_THERE = "missing-there"
    BEFORE_BEGINNING = "before-beginning"
    NOT_COPIED_YET = "not-copied-yet"
    NOT_MAPPED = "not-mapped"
    MAP_UNREADABLE = "map-unreadable"
    REVERSE_UNKNOWN = "way-back-unknown"


NO_COPY = frozenset({Reason.UNKNOWN_TOPIC, Reason.UNKNOWN_PARTITION, Reason.RECREATED, Reason.NOT_COPIED_YET})
"""Reasons for which no offset of a partition can be translated, whatever its number."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Tell where to go on at the other side.

    `topic` is the name on the target, `source_topic` the name on the source.  Offsets are the next ones to read; one
    of them is None if there is no answer.  `exact` says that the answer is the first record not yet read.  `ahead`
    says that the reader was beyond the copy and goes on at its end.  An answer that is not exact is early rather than
    late; with the reason REVERSE_UNKNOWN, that holds only for the records of this flow.  `again` is how many records
    may be read again at most, None if unknown.  `missing` is how many unread records at most are not on the other
    side, although the reader's own side may have them; no such answer is exact.  `reason` and `message` say why there
    is no answer, or what else is noteworthy.
    """

    group: str
    topic: str
    source_topic: str
    partition: int
    upstream_offset: int | None
    downstream_offset: int | None
    exact: bool = False
    ahead: bool = False
    again: int | None = None
    missing: int = 0
    basis: Basis = Basis.NONE
    reason: Reason = Reason.NONE
    message: str = ""

    @property
    def answered(self) -> bool:
        """Say whether both sides are known."""
        return self.upstream_offset is not None and self.downstream_offset is not None


@dataclass(frozen=True, slots=True)
class Pair:
    """One partition on both sides; `source` is None if the source cannot be asked, a topic id "" if unknown.

    `topic_id` is the source topic's, `remote_topic_id` the copy's.
    """

    source_topic: str
    topic: str
    partition: int
    topic_id: str
    source: PartitionOffsets | None
    target: PartitionOffsets
    remote_topic_id: str = ""

    @property
    def same_name(self) -> bool:
        """Say whether both sides use the same name, so that the reverse flow may write there, too."""
        return self.topic == self.source_topic


@dataclass(frozen=True, slots=True)
class Impossible:
    """Tell why a partition cannot be translated."""

    source_topic: str
    topic: str
    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Pairing:
    """Pairs the partitions of one flow by its ledger and its policy; by the map if the source cannot be asked."""

    flow: FlowSettings
    clusters: Clusters
    ledger: Ledger
    packed: Maps[PackedMap]
    source_reachable: bool

    def find(
        self, places: Iterable[TopicPartition], *, back: bool
    ) -> Mapping[TopicPartition, Pair | Impossible]:
        """Find the pair of each partition of the source, or (`back`) of the target.

        Raises ClusterUnreachable and ClusterRefused.
        """
        wanted = {it: self._names(it.topic, back=back) for it in places}
        sources = {names[0] for names in wanted.values()} - {""}
        remotes = {names[1] for names in wanted.values()} - {""}
        described = self.clusters.target.describe_topics(sorted(remotes))
        here = self._source_topics(sorted(sources))
        view = _View(
            incarnations=here,
            remotes=described,
            target=self.clusters.target.offsets(all_partitions(described.found.values())).found,
            source=self.clusters.source.offsets(all_partitions(here.found.values())).found
            if here.found
            else {},
        )
        return {it: self._pair(it, *names, view) for it, names in wanted.items()}

    def _names(self, topic: str, *, back: bool) -> tuple[str, str]:
        """Return the topic's names on the source and on the target; "" for a name that cannot be formed."""
        if not back:
            known = self.ledger.incarnations.get(topic)
            remote = self.flow.policy.format_remote_topic(self.flow.source.alias, topic)
            return topic, known.remote_topic if known is not None else remote
        return copied_from(self.flow, self.ledger, topic) or "", topic

    def _source_topics(self, topics: Sequence[str]) -> Answers[str, TopicDescription]:
        return self.clusters.source.describe_topics(topics) if self.source_reachable else Answers({})

    def _pair(self, it: TopicPartition, source: str, remote: str, view: _View) -> Pair | Impossible:
        if not source:
            return Impossible(
                "", remote, Reason.UNKNOWN_TOPIC, f"{remote} is no copy of flow {self.flow.name}"
            )
        problem = self._trouble(it, source, remote, view)
        if problem is not None:
            return Impossible(source, remote, *problem)
        life = view.incarnations.found.get(source)
        return Pair(
            source,
            remote,
            it.partition,
            life.topic_id if life is not None else self._last_life(source, it.partition),
            view.source.get(TopicPartition(source, it.partition)),
            view.target[TopicPartition(remote, it.partition)],
            view.remotes.found[remote].topic_id,
        )

    def _trouble(
        self, it: TopicPartition, source: str, remote: str, view: _View
    ) -> tuple[Reason, str] | None:
        error = view.incarnations.refused.get(source) or view.remotes.refused.get(remote)
        if error is not None and error.code != NO_SUCH_TOPIC:
            raise error
        if source in view.incarnations.refused:
            return Reason.UNKNOWN_TOPIC, f"{self.flow.source.alias} has no topic {source}"
        if remote in view.remotes.refused:
            return Reason.NOT_COPIED_YET, f"{self.flow.target.alias} has no topic {remote}"
        life = view.incarnations.found.get(source)
        if life is not None and TopicPartition(source, it.partition) not in view.source:
            return (
                Reason.UNKNOWN_PARTITION,
                f"{source} on {self.flow.source.alias} has no partition {it.partition}",
            )
        if TopicPartition(remote, it.partition) not in view.target:
            return (
                Reason.UNKNOWN_PARTITION,
                f"{remote} on {self.flow.target.alias} has no partition {it.partition}",
            )
        return self._another_life(source, remote, view)

    def _another_life(self, source: str, remote: str, view: _View) -> tuple[Reason, str] | None:
        """Say which side is not the incarnation that the map covers."""
        known = self.ledger.incarnations.get(source)
        life, copy = view.incarnations.found.get(source), view.remotes.found.get(remote)
        if life is not None and known is not None and known.topic_id != life.topic_id:
            return (
                Reason.RECREATED,
                f"{source} was deleted and created again on {self.flow.source.alias}: its offsets are others now",
            )
        if copy is not None and known is not None and differ(known.remote_topic_id, copy.topic_id):
            return (
                Reason.RECREATED,
                f"{remote} was deleted and created again on {self.flow.target.alias}: it is not what was copied",
            )
        return None

    def _last_life(self, topic: str, partition: int) -> str:
        """Return the topic id of the copied incarnation, if the source cannot be asked."""
        known = self.ledger.incarnations.get(topic)
        if known is not None:
            return known.topic_id
        ids = {
            life.topic_id
            for life in [*self.packed, *self.packed.broken]
            if life.topic_partition == (topic, partition)
        }
        return ids.pop() if len(ids) == 1 else ""


@dataclass(frozen=True, slots=True)
class _View:
    """Tell what both clusters say about the topics; `incarnations` is empty if the source cannot be asked."""

    incarnations: Answers[str, TopicDescription]
    remotes: Answers[str, TopicDescription]
    target: Mapping[TopicPartition, PartitionOffsets]
    source: Mapping[TopicPartition, PartitionOffsets]
