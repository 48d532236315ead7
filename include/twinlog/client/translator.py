"""Translate offsets, groups and times of a flow exactly, and back: for commands, the Dag and programs.  Only reads.

Translated is by the map, or by MM2's offset-syncs if the map does not reach.  The source may be gone: map and ledger
are on the target.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog.client.group_positions import Groups, Standing, records_at, standing_at, standing_now
from twinlog.client.pairs import Answer, Ask, Basis, Pair, Reason, find_pairs
from twinlog.cluster.api import Clusters
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ClusterUnreachable
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.formats.mm2.offset_sync_store import OffsetSyncStore
from twinlog.grouped import grouped
from twinlog.groups.maps import NOTHING, PartitionMaps, begun_empty, never_copied
from twinlog.groups.place import Place, places
from twinlog.groups.plan import in_open_tail
from twinlog.kafka_types import SourceIncarnation
from twinlog.once import read_once
from twinlog.state.ledger import Ledger, read_ledger, require_own
from twinlog.state.mm2_topics import read_syncs
from twinlog.state.progress import PackedMaps, read_packed
from twinlog.topics.reverse_flows import ReverseState, read_reverse_state

Lost = Mapping[SourceIncarnation, Sequence[tuple[int, int]]]
"""Upstream offsets [first, end) that are in no copy."""

UNKNOWN_LOG = PartitionOffsets(0, 1 << 62, 1 << 62)
"""The log of a source that cannot be asked."""


_Reverse = tuple[ReverseState, Lost, PackedMaps]
"""Put together what the reverse flow knows, what it never copied, and the maps of this flow as read behind that."""


class FlowTranslator:
    """Translations of one flow, by its map as it is at the first question.

    If a reverse flow runs under the same topic names, its map counts, too; that map is on the source.
    """

    def __init__(self, flow: FlowSettings, clusters: Clusters) -> None:
        self.flow = flow
        self._clusters = clusters

    def translate(self, asks: Iterable[Ask]) -> tuple[Answer, ...]:
        """Translate source offsets to the target, in the order asked.

        Raises ClusterUnreachable and ClusterRefused, and FormatError if a map topic cannot be read: then nothing is
        answered.  A problem of one offset, or of the map of its partition, is reported in its answer.
        """
        return self._answers(list(asks), back=False)

    def reverse(self, asks: Iterable[Ask]) -> tuple[Answer, ...]:
        """Translate offsets of the copies back to the source, as `translate` does."""
        return self._answers(list(asks), back=True)

    @read_once
    def source_reachable(self) -> bool:
        """Say whether the source answers."""
        return self._source_id is not None

    @read_once
    def _source_id(self) -> str | None:
        try:
            return self._clusters.source.cluster_id()
        except ClusterUnreachable:
            return None

    @read_once
    def _packed(self) -> PackedMaps:
        return read_packed(self.flow, self._clusters.target)

    @read_once
    def _ledger(self) -> Ledger:
        ledger = read_ledger(self.flow, self._clusters.target)
        require_own(self.flow, ledger, self._source_id or "", self._clusters.target.cluster_id())
        return ledger

    @read_once
    def _lost(self) -> Lost:
        return never_copied(self._ledger)

    @read_once
    def _begun_empty(self) -> frozenset[SourceIncarnation]:
        return begun_empty(self._ledger)

    @read_once
    def _syncs(self) -> OffsetSyncStore:
        """Return MM2's syncs; none if they are on a source that is gone."""
        if self.flow.offset_syncs_topic_location == "source" and not self.source_reachable:
            return OffsetSyncStore({})
        return OffsetSyncStore.of(read_syncs(self.flow, self._clusters))

    def _answers(self, asks: Sequence[Ask], *, back: bool) -> tuple[Answer, ...]:
        by_partition = grouped((it.topic_partition, number) for number, it in enumerate(asks))
        pairs = find_pairs(
            self.flow,
            self._clusters,
            self._ledger,
            self._packed,
            by_partition,
            back=back,
            source_reachable=self.source_reachable,
        )
        reverse = self._reverse(pair for pair in pairs.values() if pair.target is not None)
        answers: dict[int, Answer] = {}
        for at, numbers in by_partition.items():
            asked = [asks[number] for number in numbers]
            answers |= zip(numbers, self._in_partition(pairs[at], asked, reverse, back=back), strict=True)
        return tuple(answers[number] for number in range(len(asks)))

    def _reverse(self, pairs: Iterable[Pair]) -> _Reverse | None:
        """Read what the reverse flow keeps on the source, if there is one that counts and can be asked."""
        same = {pair.source_topic: pair.topic_id for pair in pairs if self._may_be_both_ways(pair)}
        if not same or not self.source_reachable:
            return None
        found = read_reverse_state(self.flow, self._clusters, same)
        if found is None:
            return None
        return found, never_copied(found.ledger), read_packed(self.flow, self._clusters.target)

    def _in_partition(
        self, pair: Pair, asks: Sequence[Ask], reverse: _Reverse | None, *, back: bool
    ) -> list[Answer]:
        wrong = [_against(pair, ask, back=back) for ask in asks]
        sound = [it.offset for it, why in zip(asks, wrong, strict=True) if why is None]
        found: Iterator[Place] = iter(())
        if sound and pair.target is not None:
            logs = (pair.source or UNKNOWN_LOG, pair.target) if back else (pair.target, pair.source)
            try:
                found = iter(places(sound, self._maps(pair, reverse, back=back), *logs))
            except UnreadableMap as error:
                wrong = [why or (Reason.MAP_UNREADABLE, error.message) for why in wrong]
        return [
            self._answer(pair, ask, next(found), back=back)
            if why is None
            else replace(_answer(pair, ask, None, back=back), reason=why[0], message=why[1])
            for ask, why in zip(asks, wrong, strict=True)
        ]

    def _maps(self, pair: Pair, reverse: _Reverse | None, *, back: bool) -> PartitionMaps:
        life = SourceIncarnation(pair.source_topic, pair.topic_id, pair.partition)
        their_life = SourceIncarnation(pair.topic, pair.remote_topic_id, pair.partition)
        # On the way there, what the reverse flow passes over as ours has to be in our map: that is the later one.
        packed = self._packed if reverse is None or back else reverse[2]
        ours, theirs, their_gaps = packed.seen(life), None, []
        names = pair.source_topic, pair.topic, pair.remote_topic_id
        if reverse is not None and reverse[0].concerns(*names) and pair.source is not None:
            theirs = reverse[0].maps.seen(their_life) or NOTHING
            their_gaps = _in(reverse[1], their_life)
        gaps = _in(self._lost, life)
        if not back:
            return PartitionMaps(ours, theirs, gaps, lent=not pair.same_name)
        if theirs is not None and pair.same_name:
            return PartitionMaps(theirs, ours or NOTHING, their_gaps)
        return PartitionMaps(theirs, ours, gaps, back=True, begun_empty=life in self._begun_empty)

    def _may_be_both_ways(self, pair: Pair) -> bool:
        """Say whether records of the target may lie in the topic too: both names are one, or some came home."""
        return pair.same_name or self._ledger.came_home

    def _answer(self, pair: Pair, ask: Ask, place: Place, *, back: bool) -> Answer:
        base = _answer(pair, ask, place.offset, back=back)
        if place.offset is None:
            base = replace(base, reason=Reason.NOT_MAPPED, message=place.why)
            return base if back else self._by_syncs(pair, base)
        # Only the source could say whether a reverse flow copies; the target's own records may count, too.
        unknown = self._may_be_both_ways(pair) and not self.source_reachable
        reason, message = _remark(pair, ask, place, back=back)
        if still_open := place.exact and self._open(pair, ask, place, back=back):
            reason, message = (
                Reason.NOT_MAPPED,
                "not exact yet: run a cycle once its copy was seen for five minutes",
            )
        if unknown:
            reason, message = Reason.REVERSE_UNKNOWN, self._reverse_unknown(pair)
        return replace(
            base,
            exact=place.exact and not unknown and not still_open,
            ahead=place.ahead,
            again=None if unknown else place.again,
            missing=place.skipped,
            basis=Basis.MAP,
            reason=reason,
            message=message,
        )

    def _open(self, pair: Pair, ask: Ask, place: Place, *, back: bool) -> bool:
        """Say whether the map does not tell yet of all that a reader has read of a copy that another engine makes."""
        life = SourceIncarnation(pair.source_topic, pair.topic_id, pair.partition)
        seen = self._ledger.observed.get(life) if self.flow.observed else None
        packed = self._packed.seen(life)
        if seen is None or not back or not isinstance(packed, PackedMap):
            return not in_open_tail(place, ask.offset, seen, PartitionMaps(packed)).exact
        return len(packed.first) > 0 and packed.end_of_copy() < min(ask.offset, seen.seen_to)

    def _by_syncs(self, pair: Pair, base: Answer) -> Answer:
        """Translate by MM2's rule, for offsets that MM2 copied and no audit compared: early, never late or exact."""
        upstream = base.upstream_offset or 0
        known = self._syncs.translate(pair.source_topic, pair.partition, upstream)
        if known is None or pair.target is None or known > pair.target.end:
            return base
        return replace(
            base,
            downstream_offset=max(known, pair.target.log_start),
            basis=Basis.OFFSET_SYNCS,
            reason=Reason.NONE,
            message="by MM2's offset-syncs: not later than right, and maybe much earlier",
        )

    def _reverse_unknown(self, pair: Pair) -> str:
        here, there = self.flow.source.alias, self.flow.target.alias
        return (
            f"by the records of {here} alone: a flow {there}->{here} that copies {pair.topic} back keeps its map on"
            f" {here}, which is out of reach, and {there}'s own records may lie unread before this offset"
        )


def _in(lost: Lost, life: SourceIncarnation) -> list[tuple[int, int]]:
    """Return what was never copied of a partition; an older release noted gaps without an incarnation."""
    return [*lost.get(life, ()), *lost.get(life._replace(topic_id=""), ())]


def _against(pair: Pair, ask: Ask, *, back: bool) -> tuple[Reason, str] | None:
    """Return why an offset has no answer: its partition has none, or it cannot be an offset of it."""
    log = pair.target if back else pair.source
    name = f"{ask.topic}-{ask.partition}"
    if pair.target is None:
        return pair.reason, pair.message
    if ask.offset < 0:
        return Reason.NEGATIVE, f"{name}: offset {ask.offset} is negative"
    if log is not None and ask.offset > log.end:
        message = f"{name} ends at {log.end}: nobody can have read up to {ask.offset}"
        return Reason.BEYOND_END, message
    return None


def _answer(pair: Pair, ask: Ask, offset: int | None, *, back: bool) -> Answer:
    upstream, downstream = (offset, ask.offset) if back else (ask.offset, offset)
    return Answer(ask.group, pair.topic, pair.source_topic, pair.partition, upstream, downstream)


def _remark(pair: Pair, ask: Ask, place: Place, *, back: bool) -> tuple[Reason, str]:
    log = pair.target if back else pair.source
    if place.skipped:
        return (
            Reason.MISSING_THERE,
            f"{place.skipped} unread record(s) at most are not there: expired on that side, or never copied",
        )
    if log is not None and ask.offset < log.log_start:
        return (
            Reason.BEFORE_BEGINNING,
            f"{ask.topic}-{ask.partition} begins at {log.log_start}: a reader would be reset",
        )
    if place.ahead:
        return Reason.NOT_COPIED_YET, "beyond the copy: goes on at its end"
    return Reason.NONE, ""


@dataclass(frozen=True, slots=True)
class Translated:
    """Answers in the order of the questions, `as_of_ms` as in Standing, and notes for people."""

    flow: str
    answers: tuple[Answer, ...]
    as_of_ms: tuple[int | None, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def unanswered(self) -> tuple[Answer, ...]:
        """Return the questions without an answer: they must not be forgotten when the others are acted upon."""
        return tuple(answer for answer in self.answers if not answer.answered)

    @property
    def complete(self) -> bool:
        """Say whether every question has an answer."""
        return not self.unanswered


def translate_groups(
    flow: FlowSettings, clusters: Clusters, groups: Groups, at_ms: int | None = None
) -> Translated:
    """Translate where groups stand now, or stood at a time as far as their checkpoints tell.

    Raises UsageError if nothing is known of the groups.
    """
    if at_ms is None:
        return translated(flow, clusters, standing_now(flow, clusters, groups))
    return translated(flow, clusters, standing_at(flow, clusters, groups, at_ms))


def translate_time(
    flow: FlowSettings, clusters: Clusters, at_ms: int, topics: Collection[str] | None = None
) -> Translated:
    """Translate the first record at or after a time, in every partition of the flow or of some source topics."""
    return translated(flow, clusters, records_at(flow, clusters, at_ms, topics))


def translated(flow: FlowSettings, clusters: Clusters, standing: Standing) -> Translated:
    """Answer all questions of a standing."""
    translator = FlowTranslator(flow, clusters)
    answers = (translator.reverse if standing.back else translator.translate)(standing.asks)
    return Translated(flow.name, answers, standing.as_of_ms, standing.notes)
