"""Find the partition of the other cluster that a question about offsets concerns, or say why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.cluster.api import Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC, Answers, PartitionOffsets, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.progress import PackedMaps
from twinlog.topics.incarnations import copied_from, differ
from twinlog.topics.snapshot import all_partitions

LARGEST = (1 << 63) - 1
"""The largest possible offset: Kafka's are signed 64-bit integers."""


@dataclass(frozen=True, slots=True)
class Ask(OfPartition):
    """The next offset that a reader reads in a partition; `topic` is the name on the side the offset is from.

    `group` names the reader, if it is known.  `special`: the offset is a code of Spark's (-1 and -2), and no question.
    """

    topic: str
    partition: int
    offset: int
    group: str = ""
    special: bool = False


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
    """One partition on both sides.

    `source` is None if the source cannot be asked, a topic id "" if unknown.  `target` is None if nothing of the
    partition can be translated, for the `reason` in the `message`.
    """

    source_topic: str
    topic: str
    partition: int
    topic_id: str = ""
    remote_topic_id: str = ""
    source: PartitionOffsets | None = None
    target: PartitionOffsets | None = None
    reason: Reason = Reason.NONE
    message: str = ""

    @property
    def same_name(self) -> bool:
        """Say whether both sides use the same name, so that the reverse flow may write there, too."""
        return self.topic == self.source_topic


def find_pairs(
    flow: FlowSettings,
    clusters: Clusters,
    ledger: Ledger,
    maps: PackedMaps,
    partitions: Iterable[TopicPartition],
    *,
    back: bool,
    source_reachable: bool,
) -> Mapping[TopicPartition, Pair]:
    """Find the pair of each partition of the source, or (`back`) of the target.

    Raises ClusterUnreachable and ClusterRefused.
    """
    names = {partition: _names(flow, ledger, partition.topic, back=back) for partition in partitions}
    sources = sorted({source for source, _ in names.values()} - {""})
    here = clusters.source.describe_topics(sources) if source_reachable else Answers({})
    remotes = clusters.target.describe_topics(sorted({remote for _, remote in names.values()} - {""}))
    known = _Known(
        flow,
        ledger,
        maps,
        here,
        remotes,
        clusters.source.offsets(all_partitions(here.found.values())).found if here.found else {},
        clusters.target.offsets(all_partitions(remotes.found.values())).found,
    )
    return {name: known.pair(*names[name], name.partition) for name in names}


def _names(flow: FlowSettings, ledger: Ledger, topic: str, *, back: bool) -> tuple[str, str]:
    """Return the topic's names on the source and on the target; "" for a name that cannot be formed."""
    if back:
        return copied_from(flow, ledger, topic) or "", topic
    known = ledger.incarnations.get(topic)
    remote = flow.policy.format_remote_topic(flow.source.alias, topic)
    return topic, known.remote_topic if known is not None else remote


@dataclass(frozen=True, slots=True)
class _Known:
    """Tell what both clusters and the state say about the topics; `here` is empty if the source cannot be asked."""

    flow: FlowSettings
    ledger: Ledger
    maps: PackedMaps
    here: Answers[str, TopicDescription]
    remotes: Answers[str, TopicDescription]
    source: Mapping[TopicPartition, PartitionOffsets]
    target: Mapping[TopicPartition, PartitionOffsets]

    def pair(self, source: str, remote: str, partition: int) -> Pair:
        """Pair one partition.  Raises the refusal of a topic that may exist."""
        why = self._against(source, remote, partition) or self._another_incarnation(source, remote)
        if why is not None:
            return Pair(source, remote, partition, reason=why[0], message=why[1])
        described = self.here.found.get(source)
        return Pair(
            source,
            remote,
            partition,
            described.topic_id if described is not None else self._last_id(source, partition),
            self.remotes.found[remote].topic_id,
            self.source.get(TopicPartition(source, partition)),
            self.target[TopicPartition(remote, partition)],
        )

    def _against(self, source: str, remote: str, partition: int) -> tuple[Reason, str] | None:
        """Say what is missing on a side."""
        here, there = self.flow.source.alias, self.flow.target.alias
        if not source:
            return Reason.UNKNOWN_TOPIC, f"{remote} is no copy of flow {self.flow.name}"
        error = self.here.refused.get(source) or self.remotes.refused.get(remote)
        if error is not None and error.code != NO_SUCH_TOPIC:
            raise error
        if source in self.here.refused:
            return Reason.UNKNOWN_TOPIC, f"{here} has no topic {source}"
        if remote in self.remotes.refused:
            return Reason.NOT_COPIED_YET, f"{there} has no topic {remote}"
        if source in self.here.found and TopicPartition(source, partition) not in self.source:
            return Reason.UNKNOWN_PARTITION, f"{source} on {here} has no partition {partition}"
        if TopicPartition(remote, partition) not in self.target:
            return Reason.UNKNOWN_PARTITION, f"{remote} on {there} has no partition {partition}"
        return None

    def _another_incarnation(self, source: str, remote: str) -> tuple[Reason, str] | None:
        """Say which side is not the incarnation that the map covers."""
        known, described = self.ledger.incarnations.get(source), self.here.found.get(source)
        if known is None:
            return None
        anew = "was deleted and created again on"
        if described is not None and known.topic_id != described.topic_id:
            return Reason.RECREATED, f"{source} {anew} {self.flow.source.alias}: its offsets are others now"
        if differ(known.remote_topic_id, self.remotes.found[remote].topic_id):
            return Reason.RECREATED, f"{remote} {anew} {self.flow.target.alias}: it is not what was copied"
        return None

    def _last_id(self, topic: str, partition: int) -> str:
        """Return the topic id of the copied incarnation, if the source cannot be asked."""
        known = self.ledger.incarnations.get(topic)
        if known is not None:
            return known.topic_id
        every = [*self.maps, *self.maps.broken]
        ids = {life.topic_id for life in every if life.topic_partition == (topic, partition)}
        return ids.pop() if len(ids) == 1 else ""
