"""Exact translation of a flow's offsets, and back, by its offset map; MM2's offset-syncs where the map does not reach.

Reads only.  The source may be gone: the map and the ledger are on the target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from twinlog.client.answers import Answer, Ask, Basis, Reason
from twinlog.cluster.clusters import Clusters
from twinlog.cluster.ledger import Ledger, read_ledger
from twinlog.cluster.mm2_topics import read_syncs
from twinlog.cluster.progress import Maps, SourceLife, read_packed
from twinlog.cluster.values import PartitionOffsets, TopicDescription, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.errors import ClusterUnreachable, TwinlogError
from twinlog.formats.ledger import GapCause
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.offsets.offset_sync_store import OffsetSyncStore
from twinlog.steps.positions import Position, positions, positions_back

LOST = frozenset({GapCause.RETENTION, GapCause.DELETE_RECORDS})
"""Gaps in which nothing was ever copied."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One partition on both sides; `source` is None while the source cannot be asked, a topic id "" when unknown."""

    source_topic: str
    topic: str
    partition: int
    topic_id: str
    source: PartitionOffsets | None
    target: PartitionOffsets


@dataclass(frozen=True, slots=True)
class Impossible:
    """Why a partition cannot be translated."""

    source_topic: str
    topic: str
    reason: Reason
    message: str


class FlowTranslator:
    """Translations of one flow, as its map stands at the first question."""

    def __init__(self, flow: FlowSettings, clusters: Clusters) -> None:
        self.flow = flow
        self._clusters = clusters

    def translate(self, asks: Iterable[Ask]) -> tuple[Answer, ...]:
        """Translate source offsets to the target, in the order asked.

        Raises ClusterUnreachable and ClusterRefused, and FormatError for a map topic that cannot be read: then nothing
        is answered.  What is wrong with one offset, or with the map of its partition, is in its answer.
        """
        return self._answers(list(asks), back=False)

    def reverse(self, asks: Iterable[Ask]) -> tuple[Answer, ...]:
        """Translate offsets of the copies back to the source, as `translate`."""
        return self._answers(list(asks), back=True)

    @cached_property
    def source_reachable(self) -> bool:
        """Whether the source answers."""
        try:
            self._clusters.source.cluster_id()
        except ClusterUnreachable:
            return False
        return True

    @cached_property
    def _packed(self) -> Maps[PackedMap]:
        return read_packed(self.flow, self._clusters.target)

    @cached_property
    def _ledger(self) -> Ledger:
        return read_ledger(self.flow, self._clusters.target)

    @cached_property
    def _syncs(self) -> OffsetSyncStore:
        """MM2's syncs; none where they are on a source that is gone."""
        if self.flow.offset_syncs_topic_location == "source" and not self.source_reachable:
            return OffsetSyncStore({})
        return OffsetSyncStore.of(read_syncs(self.flow, self._clusters).records)

    def _answers(self, asks: Sequence[Ask], *, back: bool) -> tuple[Answer, ...]:
        pairs = self._pairs({TopicPartition(it.topic, it.partition) for it in asks}, back=back)
        by_partition: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        answers: dict[int, Answer] = {}
        for number, it in enumerate(asks):
            place = TopicPartition(it.topic, it.partition)
            found = pairs[place]
            against = found if isinstance(found, Impossible) else _against(found, it, back=back)
            if isinstance(against, Impossible):
                answers[number] = _refused(it, against, back=back)
            else:
                by_partition[place].append(number)
        for place, numbers in by_partition.items():
            pair = pairs[place]
            assert isinstance(pair, Pair)
            asked = [asks[number] for number in numbers]
            for number, answer in zip(numbers, self._in_partition(pair, asked, back=back), strict=True):
                answers[number] = answer
        return tuple(answers[number] for number in range(len(asks)))

    def _in_partition(self, pair: Pair, asks: Sequence[Ask], *, back: bool) -> list[Answer]:
        try:
            found = self._positions(pair, [it.offset for it in asks], back=back)
        except UnreadableMap as error:
            unreadable = Impossible(pair.source_topic, pair.topic, Reason.MAP_UNREADABLE, error.message)
            return [_refused(it, unreadable, back=back) for it in asks]
        return [
            self._answer(pair, ask, position, back=back) for ask, position in zip(asks, found, strict=True)
        ]

    def _positions(self, pair: Pair, offsets: Sequence[int], *, back: bool) -> list[Position | None]:
        packed = self._packed.get(SourceLife(pair.source_topic, pair.topic_id, pair.partition))
        if back:
            return positions_back(packed, offsets, pair.source or PartitionOffsets(0, 1 << 62, 1 << 62))
        return positions(packed, offsets, pair.target, self._gaps(pair))

    def _answer(self, pair: Pair, ask: Ask, position: Position | None, *, back: bool) -> Answer:
        base = Answer(
            ask.group,
            pair.topic,
            pair.source_topic,
            pair.partition,
            None if back else ask.offset,
            ask.offset if back else None,
        )
        if position is None:
            return self._by_syncs(pair, base) if not back else _unmapped(base)
        reason, message = _remark(pair, ask, position, back=back)
        return replace(
            base,
            upstream_offset=position.offset if back else base.upstream_offset,
            downstream_offset=base.downstream_offset if back else position.offset,
            exact=position.exact,
            ahead=position.ahead,
            again=position.slack,
            basis=Basis.MAP,
            reason=reason,
            message=message,
        )

    def _by_syncs(self, pair: Pair, base: Answer) -> Answer:
        """MM2's rule, for offsets that MM2 copied and nobody has compared: early rather than late, never exact."""
        upstream = base.upstream_offset or 0
        known = self._syncs.translate(pair.source_topic, pair.partition, upstream).offset
        if known is None or known > pair.target.end:
            return _unmapped(base)
        return replace(
            base,
            downstream_offset=max(known, pair.target.log_start),
            basis=Basis.OFFSET_SYNCS,
            message="by MM2's offset-syncs: not later than right, and maybe much earlier",
        )

    def _gaps(self, pair: Pair) -> list[tuple[int, int]]:
        return [
            (gap.first_offset, gap.last_offset + 1)
            for gap in self._ledger.gaps
            if (gap.topic, gap.partition) == (pair.source_topic, pair.partition)
            and gap.topic_id in {"", pair.topic_id}
            and gap.cause in LOST
        ]

    def _pairs(
        self, places: Iterable[TopicPartition], *, back: bool
    ) -> Mapping[TopicPartition, Pair | Impossible]:
        wanted = {it: self._names(it.topic, back=back) for it in places}
        sources = {names[0] for names in wanted.values()} - {""}
        remotes = {names[1] for names in wanted.values()} - {""}
        described = self._clusters.target.describe_topics(sorted(remotes))
        lives = self._lives(sorted(sources))
        view = _View(
            lives=lives,
            remotes=described.found,
            refused=described.refused,
            target=self._clusters.target.offsets(_partitions(described.found)).found,
            source=self._clusters.source.offsets(_partitions(lives.found)).found if lives.found else {},
        )
        return {it: self._pair(it, *names, view) for it, names in wanted.items()}

    def _names(self, topic: str, *, back: bool) -> tuple[str, str]:
        """Name the topic on the source and on the target; "" for one that cannot be named."""
        if not back:
            known = self._ledger.incarnations.get(topic)
            remote = self.flow.policy.format_remote_topic(self.flow.source.alias, topic)
            return topic, known.remote_topic if known is not None else remote
        for life in reversed(self._ledger.lives):
            if life.remote_topic == topic:
                return life.topic, topic
        source = self.flow.policy.upstream_topic(topic)
        ours = self.flow.policy.topic_source(topic) == self.flow.source.alias
        return (source if source is not None and ours else ""), topic

    def _lives(self, topics: Sequence[str]) -> _Lives:
        if not self.source_reachable:
            return _Lives({}, {}, known=False)
        found = self._clusters.source.describe_topics(topics)
        return _Lives(found.found, found.refused, known=True)

    def _pair(self, it: TopicPartition, source: str, remote: str, view: _View) -> Pair | Impossible:
        if not source:
            return Impossible(
                "", remote, Reason.UNKNOWN_TOPIC, f"{remote} is no copy of flow {self.flow.name}"
            )
        problem = self._trouble(it, source, remote, view)
        if problem is not None:
            return Impossible(source, remote, *problem)
        life = view.lives.found.get(source)
        return Pair(
            source,
            remote,
            it.partition,
            life.topic_id if life is not None else self._last_life(source, it.partition),
            view.source.get(TopicPartition(source, it.partition)),
            view.target[TopicPartition(remote, it.partition)],
        )

    def _trouble(
        self, it: TopicPartition, source: str, remote: str, view: _View
    ) -> tuple[Reason, str] | None:
        error = view.lives.refused.get(source) or view.refused.get(remote)
        if error is not None and error.code != "unknown-topic":
            raise error
        if source in view.lives.refused:
            return Reason.UNKNOWN_TOPIC, f"{self.flow.source.alias} has no topic {source}"
        if remote in view.refused:
            return Reason.NOT_COPIED_YET, f"{self.flow.target.alias} has no topic {remote}"
        life = view.lives.found.get(source)
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
        known = self._ledger.incarnations.get(source)
        if life is not None and known is not None and known.topic_id != life.topic_id:
            return (
                Reason.RECREATED,
                f"{source} was deleted and created again on {self.flow.source.alias}: its offsets are others now",
            )
        return None

    def _last_life(self, topic: str, partition: int) -> str:
        """The topic id the copy is of, while the source cannot be asked."""
        known = self._ledger.incarnations.get(topic)
        if known is not None:
            return known.topic_id
        lives = {
            life.topic_id
            for life in [*self._packed, *self._packed.broken]
            if (life.topic, life.partition) == (topic, partition)
        }
        return lives.pop() if len(lives) == 1 else ""


@dataclass(frozen=True, slots=True)
class _Lives:
    """The source's topics, `known` while it can be asked."""

    found: Mapping[str, TopicDescription]
    refused: Mapping[str, TwinlogError]
    known: bool


@dataclass(frozen=True, slots=True)
class _View:
    """What both clusters say about the topics that are asked for."""

    lives: _Lives
    remotes: Mapping[str, TopicDescription]
    refused: Mapping[str, TwinlogError]
    target: Mapping[TopicPartition, PartitionOffsets]
    source: Mapping[TopicPartition, PartitionOffsets] = field(default_factory=dict)


def _partitions(topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, it.partition) for topic in topics.values() for it in topic.partitions]


def _against(pair: Pair, ask: Ask, *, back: bool) -> Impossible | None:
    """What is wrong with the offset itself."""
    log = pair.target if back else pair.source
    name = f"{ask.topic}-{ask.partition}"
    if ask.offset < 0:
        message = f"{name}: offset {ask.offset} is negative"
        return Impossible(pair.source_topic, pair.topic, Reason.NEGATIVE, message)
    if log is not None and ask.offset > log.end:
        message = f"{name} ends at {log.end}: nobody can have read up to {ask.offset}"
        return Impossible(pair.source_topic, pair.topic, Reason.BEYOND_END, message)
    return None


def _refused(ask: Ask, why: Impossible, *, back: bool) -> Answer:
    upstream, downstream = (None, ask.offset) if back else (ask.offset, None)
    return Answer(
        ask.group,
        why.topic,
        why.source_topic,
        ask.partition,
        upstream,
        downstream,
        reason=why.reason,
        message=why.message,
    )


def _unmapped(base: Answer) -> Answer:
    return replace(
        base,
        reason=Reason.NOT_MAPPED,
        message=f"nobody knows what became of {base.source_topic}-{base.partition} there: it lies outside of the"
        " offset map",
    )


def _remark(pair: Pair, ask: Ask, position: Position, *, back: bool) -> tuple[Reason, str]:
    log = pair.target if back else pair.source
    if log is not None and ask.offset < log.log_start:
        return (
            Reason.BEFORE_BEGINNING,
            f"{ask.topic}-{ask.partition} begins at {log.log_start}: a reader would be reset",
        )
    if position.ahead:
        return Reason.NOT_COPIED_YET, "beyond the copy: goes on at its end"
    return Reason.NONE, ""
