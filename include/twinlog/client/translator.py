"""Exact translation of a flow's offsets, and back, by its offset map; MM2's offset-syncs where the map does not reach.

Reads only.  The source may be gone: the map and the ledger are on the target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property

from twinlog.client.answers import Answer, Ask, Basis, Reason
from twinlog.client.pairs import Impossible, Pair, Pairing
from twinlog.cluster.clusters import Clusters
from twinlog.cluster.ledger import Ledger, read_ledger
from twinlog.cluster.mm2_topics import read_syncs
from twinlog.cluster.progress import Maps, SourceLife, read_packed
from twinlog.cluster.values import PartitionOffsets, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.errors import ClusterUnreachable
from twinlog.formats.ledger import GapCause
from twinlog.formats.packed_map import PackedMap, UnreadableMap
from twinlog.offsets.offset_sync_store import OffsetSyncStore
from twinlog.steps.positions import Position, positions, positions_back

LOST = frozenset({GapCause.RETENTION, GapCause.DELETE_RECORDS})
"""Gaps in which nothing was ever copied."""


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
    def _pairing(self) -> Pairing:
        reachable = self.source_reachable
        return Pairing(self.flow, self._clusters, self._ledger, self._packed, source_reachable=reachable)

    @cached_property
    def _syncs(self) -> OffsetSyncStore:
        """MM2's syncs; none where they are on a source that is gone."""
        if self.flow.offset_syncs_topic_location == "source" and not self.source_reachable:
            return OffsetSyncStore({})
        return OffsetSyncStore.of(read_syncs(self.flow, self._clusters).records)

    def _answers(self, asks: Sequence[Ask], *, back: bool) -> tuple[Answer, ...]:
        pairs = self._pairing.find({TopicPartition(it.topic, it.partition) for it in asks}, back=back)
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
