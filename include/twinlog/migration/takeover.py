"""Migrate a flow from MirrorMaker: prove where its copies end, and go on from there.

MM2 and MM1 write their positions up to a minute apart and copy at least once. So a copy may go further than its
position says, and may hold records twice. Going on from the positions alone would copy records again. Here the ends of
both logs are compared record by record. Positions and a first part of the exact offset map are then written in one
transaction, behind the fence. Unless every partition is proved, nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ownership import Ownership
from twinlog.errors import TerminalError
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.writers import MapHole, TakenOver
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.formats.mm2.records import OffsetSync
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.lane.copy.state_records import StateRecord, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle import sync_topics
from twinlog.lifecycle.records import begun_anew, map_cut, noted, piece
from twinlog.migration.alignment import Alignment
from twinlog.migration.continuation import Continuation, continued
from twinlog.migration.copier import Copier, read_positions, require_stopped, require_unmoved, traces
from twinlog.migration.places import discover_all, places
from twinlog.migration.proof import Place, prove
from twinlog.migration.takeover_report import (
    PartitionProof,
    ProofState,
    TakeoverReport,
    proof_of,
    review_checkpoints,
    review_syncs,
    syncs_by_partition,
)
from twinlog.state.ledger import Ledger, read_behind_fence, read_ledger
from twinlog.state.mm2_topics import Checkpoints, Syncs, read_checkpoints, read_syncs
from twinlog.state.progress import Maps, read_packed
from twinlog.topics.discovery import Discovery
from twinlog.topics.pauses import why_suspended
from twinlog.visible import listed

DEPTH = 10_000
"""Records compared before the position. Must be more than MM2 copies of one partition between two flushes (60 s)."""

PARTITIONS_AT_ONCE = 4

Known = Mapping[SourceIncarnation, PackedMap]
Continued = Mapping[Place, Continuation]
"""How the map of each partition goes on."""


@dataclass(frozen=True, slots=True)
class Proved:
    """A place and the result of its comparison."""

    place: Place
    found: Alignment


def run(
    flow: FlowSettings,
    clusters: Clusters,
    copier: Copier,
    *,
    run_id: str,
    depth: int = DEPTH,
    topics: Collection[str] | None = None,
    dry_run: bool = False,
    watch_seconds: float | None = None,
) -> TakeoverReport:
    """Migrate the flow from what copied it until now; with `dry_run` only say what would be done.

    Raises TerminalError `mm2-running`, `no-positions`, `no-internal-topic` or `phase`, FencedError if another twinlog
    runs the flow, UsageError for a depth below 1, and what clusters refuse. Nothing is written then.
    """
    require_phase(flow, clusters, {FlowPhase.ACTIVE, FlowPhase.PAUSED})
    positions = read_positions(flow, clusters, copier)
    discovery = discover_all(flow, clusters, positions)
    seen = require_stopped(flow, clusters, copier, copies_of(discovery), watch_seconds)
    began = copier.began_at_start(flow)
    wanted, refused = places(flow, clusters, discovery, positions, topics, began_at_start=began)
    owned = None if dry_run or refused else taken(flow, clusters, "takeover", run_id)
    if owned is not None:
        positions = read_positions(flow, clusters, copier)
        discovery = discover_all(flow, clusters, positions)  # copies of new topics exist now
        wanted, refused = places(flow, clusters, discovery, positions, topics, began_at_start=began)
    proved = prove_all(clusters, wanted, depth)
    syncs = read_syncs(flow, clusters)
    checkpoints = read_checkpoints(flow, clusters.target)
    known, unreadable = _readable(read_packed(flow, clusters.target), proved)
    maps = {
        it.place: continued(known.get(it.place.life), it.found)
        for it in proved
        if it.place.life not in unreadable
    }
    rows = [*_unfit(_reviewed(proved, syncs.records), maps), *refused]
    report = report_of(flow, "from-mirror-maker", run_id, copier, rows, checkpoints, proved)
    notes = (*_notes(copier, discovery, positions, syncs, topics), *_extra(flow, proved))
    report = replace(report, notes=(*notes, *map(str, unreadable.values())))
    if report.refused:
        return report
    report = _with_map(report, maps)
    if owned is None:
        return replace(report, state="dry-run")
    require_unmoved(flow, seen, traces(flow, clusters, copier, copies_of(discovery)))
    state, progress = owned.state, owned.grant.progress
    moved = [
        *_progress(state, progress, proved),
        *left_as_they_are(state, progress, copier, positions, topics),
    ]
    left = {} if topics is None else {at: it for at, it in positions.items() if at.topic not in topics}
    left |= {it.place.source: it.found.last_upstream for it in proved}
    ledger = read_behind_fence(flow, clusters.target)
    kept = [noted(state, it) for it in _taken_over(known, ledger.taken_over, discovery, proved)]
    kept += [noted(state, it) for it in left_unmapped(known, maps, left, clock.now_ms())]
    active = active_again(state, ledger)
    owned.write([*moved, *_map_records(state, known, maps, ledger), *kept, *active])
    paused = () if active else (f"it is still {why_suspended(ledger)}; `twinlog resume` lets it copy",)
    return replace(report, state="done", positions_written=len(moved), notes=(*report.notes, *paused))


def require_phase(flow: FlowSettings, clusters: Clusters, allowed: Collection[FlowPhase]) -> None:
    """Raise TerminalError `phase` for a flow that was failed over: such a flow does not change who copies."""
    phase = read_ledger(flow, clusters.target).phase
    if phase not in allowed:
        raise TerminalError(
            f"flow {flow.name} is {phase.value}",
            hint="`twinlog recovery status` says what can be done",
            code="phase",
        )


def copies_of(discovery: Discovery) -> list[TopicPartition]:
    """Return every copy partition that exists."""
    return [
        topic.at_target(it.partition)
        for topic in discovery.topics
        for it in topic.partitions
        if it.target is not None
    ]


def taken(flow: FlowSettings, clusters: Clusters, why: str, run_id: str) -> Ownership:
    """Make sure that the flow's own topics exist, and take the flow: another driver of twinlog stops here."""
    if read_ledger(flow, clusters.target).phase is FlowPhase.ACTIVE:
        sync_topics.run(flow, clusters)
    return Ownership.taken(flow, clusters, why, run_id)


def prove_all(clusters: Clusters, wanted: Sequence[Place], depth: int) -> list[Proved]:
    """Prove each place, a few at a time."""
    with ThreadPoolExecutor(PARTITIONS_AT_ONCE) as pool:
        found = pool.map(lambda place: prove(clusters, place, depth), wanted)
        return [Proved(*it) for it in zip(wanted, found, strict=True)]


def report_of(
    flow: FlowSettings,
    direction: str,
    run_id: str,
    copier: Copier,
    rows: Iterable[PartitionProof],
    checkpoints: Checkpoints,
    proved: Iterable[Proved],
) -> TakeoverReport:
    """Return the report of what was found, in state "refused": nothing is written yet."""
    return TakeoverReport(
        flow=flow.name,
        direction=direction,
        state="refused",
        run_id=run_id,
        connector=copier.connector,
        offsets_topic=copier.offsets_topic,
        source_group=copier.source_group,
        partitions=tuple(sorted(rows, key=lambda it: it.topic_partition)),
        checkpoints=review_checkpoints(checkpoints, {it.place.target: it.found for it in proved}),
    )


def _reviewed(proved: Sequence[Proved], syncs: Sequence[OffsetSync]) -> Iterator[PartitionProof]:
    of = syncs_by_partition(syncs)
    return (
        review_syncs(proof_of(it.place, it.found), it.found, of.get(it.place.source, ())) for it in proved
    )


def _notes(
    copier: Copier,
    discovery: Discovery,
    positions: Mapping[TopicPartition, int],
    syncs: Syncs,
    topics: Collection[str] | None,
) -> Iterator[str]:
    known = {it.topic for it in discovery.topics}
    others = sorted({it.topic for it in positions} - known)
    if others:
        yield f"positions of topics this flow does not replicate are left alone: {', '.join(others)}"
    if topics is not None and known - set(topics):
        yield (
            f"{len(known - set(topics))} topic(s) were not looked at: their positions stand as MM2 left them, or where"
            " twinlog was before if that is further"
        )
    if not (syncs.records or copier.source_group):
        yield f"{syncs.topic} on {syncs.cluster} holds no offset-syncs"
    if syncs.unreadable:
        yield f"{syncs.unreadable} record(s) of {syncs.topic} on {syncs.cluster} are no offset-syncs"


def _extra(flow: FlowSettings, proved: Sequence[Proved]) -> Iterator[str]:
    """Say what the audit will find in the copies, though they are proved: no cycle would have copied it."""
    extra = [
        (it.place.source.topic, it.found.duplicates, it.found.aborted if flow.copy.read_committed else 0)
        for it in proved
    ]
    twice, aborted = sum(it[1] for it in extra), sum(it[2] for it in extra)
    if twice or aborted:
        topics = {topic for topic, *counts in extra if any(counts)}
        yield (
            f"the audit will call {twice:,} record(s) that were copied twice, and {aborted:,} of aborted transactions,"
            " `extra`, and the gate says no until they have expired, `twinlog topics rebuild` has copied the topics"
            f" anew, or `audit-equal` is accepted: {listed(sorted(topics))}"
        )


def _readable(
    maps: Maps[PackedMap], proved: Sequence[Proved]
) -> tuple[Known, Mapping[SourceIncarnation, UnreadableMap]]:
    """Return the maps that can be read, and why others cannot: those are given nothing, and only a rebuild mends them.

    Of the partitions of `proved` the whole map is read.
    """
    known, unreadable = dict(maps), dict(maps.broken)
    for life in {it.place.life for it in proved} & known.keys():
        try:
            known[life].open()
        except UnreadableMap as error:
            unreadable[life] = error
            del known[life]
    return known, unreadable


def _unfit(rows: Iterable[PartitionProof], maps: Continued) -> Iterator[PartitionProof]:
    """Refuse partitions whose map cannot go on."""
    unfit = {place.source for place, it in maps.items() if not it.fits}
    for row in rows:
        if row.topic_partition in unfit and row.state is not ProofState.REFUSED:
            message = (
                f"twinlog and another program have copied {row.topic}-{row.partition} in turns, for longer than was"
                " compared"
            )
            hint = f"give a greater --depth; or `twinlog topics rebuild --topic {row.topic}` copies it anew"
            yield replace(row, state=ProofState.REFUSED, message=message, hint=hint)
        else:
            yield row


def _with_map(report: TakeoverReport, maps: Continued) -> TakeoverReport:
    mapped = {
        place.source: sum(run.length for piece in it.segments for run in piece.runs)
        for place, it in maps.items()
    }
    rows = tuple(replace(it, mapped=mapped.get(it.topic_partition, 0)) for it in report.partitions)
    return replace(report, partitions=rows, records_mapped=sum(mapped.values()))


def _progress(
    state: StateTopics, progress: Mapping[TopicPartition, int], proved: Sequence[Proved]
) -> Iterator[StateRecord]:
    """Yield positions that differ from the stored ones."""
    for it in proved:
        last = it.found.last_upstream
        if last >= 0 and progress.get(it.place.source) != last:
            yield progress_record(state, *it.place.source, last)


def left_as_they_are(
    state: StateTopics,
    progress: Mapping[TopicPartition, int],
    copier: Copier,
    positions: Mapping[TopicPartition, int],
    topics: Collection[str] | None,
) -> Iterator[StateRecord]:
    """Yield positions of topics that are left out now, if they were not kept as the flow's own.

    The flow is active afterwards. Without these positions it would copy such topics a second time from their first
    record. With its own positions from before a migration to MM2, it would copy again all that MirrorMaker 2 has
    copied since. If the flow itself came further, its own position counts. No map covers the records between, and
    progress does not say where the copies end.
    """
    if topics is None or copier.keeps_progress_as(state):
        return
    for at, last in positions.items():
        if at.topic not in topics and last > progress.get(at, -1):
            yield progress_record(state, *at, last)


def _map_records(state: StateTopics, known: Known, maps: Continued, ledger: Ledger) -> Iterator[StateRecord]:
    """Yield the segments; where they replace some, these are cut first, and what was audited there is forgotten."""
    for place, it in maps.items():
        if it.replaces:
            yield from map_cut(state, place.life, known.get(place.life), it.at)
            yield from begun_anew(state, place.life, ledger, it.at)
        for segment in it.segments:
            yield piece(state, place.life, segment.first_upstream, segment)


def _taken_over(
    known: Known, before: Sequence[TakenOver], discovery: Discovery, proved: Sequence[Proved]
) -> Iterator[TakenOver]:
    """Yield records for the reverse flow about copies that keep their names: how much of them is the source's.

    What an earlier migration left uncompared counts as compared as far as this one reached.
    """
    ids = {it.topic: it.remote.topic_id for it in discovery.topics if it.remote is not None}
    now = clock.now_ms()
    for it in proved:
        topic, partition = it.place.target
        if topic != it.place.source.topic:
            continue
        packed = known.get(it.place.life)
        first = packed.open().end_downstream if packed is not None else 0
        end = it.place.target_offsets.end
        compared = min((downstream for _, downstream in it.found.pairs), default=end)
        incarnation = topic, ids.get(topic, ""), partition
        if first < end:
            yield TakenOver(*incarnation, first, max(first, compared), end, now)
        for left in before:
            if (left.topic, left.remote_topic_id, left.partition) == incarnation and compared < left.compared:
                yield replace(left, compared=max(left.first, compared), at_ms=now)


def left_unmapped(
    known: Known, maps: Continued, left: Mapping[TopicPartition, int], now_ms: int
) -> Iterator[MapHole]:
    """Yield what the map leaves out of MirrorMaker 2's copies: from the map's end up to what could be proved. Pure.

    For partitions of which the map is given nothing, the range reaches up to the last offset copied, as `left` has it.
    """
    for place, it in maps.items():
        end = it.segments[0].first_upstream if it.segments else left.get(place.source, -1) + 1
        if it.at < end:
            yield MapHole(*place.life, it.at, end, now_ms)
    placed = {place.life for place in maps}
    for incarnation, packed in known.items():
        last = left.get(incarnation.topic_partition, -1)
        if incarnation not in placed and packed.end_upstream <= last:
            yield MapHole(*incarnation, packed.end_upstream, last + 1, now_ms)


def active_again(state: StateTopics, ledger: Ledger) -> list[StateRecord]:
    """Make the flow active, also if a migration to MM2 paused it; what a person paused stays so."""
    before = ledger.flow_state
    if before is not None and before.state is FlowPhase.PAUSED and not before.handed_over:
        return []
    now = clock.now_ms()
    return [noted(state, FlowState(FlowPhase.ACTIVE, now, "twinlog takeover", "migrated from MirrorMaker 2"))]
