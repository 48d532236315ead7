"""Migrate a flow from MirrorMaker: prove where its copies end, and go on from there.

MM2 and MM1 write their positions up to a minute apart and copy at least once. So a copy may go further than its
position says, and may hold records twice. Going on from the positions alone would copy records again. Here the ends of
both logs are compared record by record. Positions and a first part of the exact offset map are then written in one
transaction, behind the fence. Unless every partition is proved, nothing is written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.ledger.records import FlowPhase, FlowState
from twinlog.formats.ledger.writers import MapHole, TakenOver
from twinlog.formats.map.packed_map import UnreadableMap
from twinlog.kafka_types import Positions, SourceIncarnation
from twinlog.lane.copy.state_records import StateRecord, progress_record
from twinlog.lane.spec import StateTopics
from twinlog.lifecycle.records import begun_anew, forgotten, map_cut, noted, piece
from twinlog.migration import steps
from twinlog.migration.continuation import Continuation, by_last_copies, continued
from twinlog.migration.copier import Copier, read_positions, require_unmoved, traces
from twinlog.migration.steps import Continued, Known, Migration, Proved
from twinlog.migration.takeover_report import PartitionProof, ProofState, TakeoverReport, proof_of
from twinlog.procedure import Outcome, Step, StepName, done
from twinlog.state.ledger import Ledger, read_behind_fence, read_ledger
from twinlog.state.progress import PackedMaps, read_packed
from twinlog.topics.discovery import Discovery
from twinlog.topics.pauses import why_suspended
from twinlog.visible import listed


def run(
    flow: FlowSettings, clusters: Clusters, copier: Copier, *, run_id: str, **options: Any
) -> TakeoverReport:
    """Migrate the flow from what copied it until now; `options` are those of `Migration`.

    Raises TerminalError `mm2-running`, `no-positions`, `no-internal-topic` or `phase`, FencedError if another twinlog
    runs the flow, UsageError for a topic that the flow does not replicate, and what clusters refuse. Nothing is written
    then.
    """
    read = partial(read_positions, flow, clusters, copier)
    return steps.run(Migration(flow, clusters, copier, read, run_id, **options), "from-mirror-maker", STEPS)


def _compare(work: Migration) -> Outcome:
    work.prove()
    work.known, unreadable = _readable(read_packed(work.flow, work.clusters.target), work.proved)
    seen = read_ledger(work.flow, work.clusters.target).observed
    work.maps = {
        proved.place: continued(
            work.known.get(proved.place.life),
            by_last_copies(proved.found) if proved.place.life in seen else proved.found,
        )
        for proved in work.proved
        if proved.place.life not in unreadable
    }
    work.notes += [*_notes(work), *_extra(work.flow, work.proved, seen), *map(str, unreadable.values())]
    return work.judged(
        _going_on(proof_of(proved.place, proved.found), work.maps.get(proved.place)) for proved in work.proved
    )


def _going_on(row: PartitionProof, how: Continuation | None) -> PartitionProof:
    """Say how many records the map of a partition is given; refuse one whose map cannot go on."""
    if how is None or row.state is ProofState.REFUSED:
        return row
    if how.fits:
        return replace(row, mapped=sum(run.length for piece in how.segments for run in piece.runs))
    return replace(
        row,
        state=ProofState.REFUSED,
        message=f"twinlog and another program have copied {row.topic}-{row.partition} in turns, for longer than was"
        " compared",
        hint=f"give a greater --depth; or `twinlog topics rebuild --topic {row.topic}` copies it anew",
    )


def _write(work: Migration) -> Outcome:
    """Write positions, the map, and that the flow is active, in one transaction."""
    flow, clusters, proved, owned = work.flow, work.clusters, work.proved, work.owned
    require_unmoved(flow, work.seen, traces(flow, clusters, work.copier, work.copies))
    state, stored, positions, topics = owned.state, owned.grant.progress, work.positions, work.topics
    ends = {it.place.source: it.found.last_upstream for it in proved}
    moved = [
        *(
            progress_record(state, *at, last)
            for at, last in ends.items()
            if last >= 0 and stored.get(at) != last
        ),
        *left_as_they_are(state, stored, work.copier, positions, topics),
    ]
    left = {at: it for at, it in positions.items() if topics is not None and at.topic not in topics} | ends
    ledger = read_behind_fence(flow, clusters.target)
    kept: tuple[TakenOver | MapHole, ...] = (
        *_taken_over(flow, work.known, ledger, work.discovery, proved),
        *left_unmapped(work.known, work.maps, left, clock.now_ms()),
    )
    active = active_again(state, ledger)
    seen = [
        forgotten(state, observed) for observed in ledger.observed.values()
    ]  # the map stays; audits judge from now on
    segments = _map_records(state, work.known, work.maps, ledger)
    owned.write([*moved, *segments, *(noted(state, record) for record in kept), *active, *seen])
    work.written = len(moved)
    if not active:
        work.notes.append(f"it is still {why_suspended(ledger)}; `twinlog resume` lets it copy")
    return done(
        f"{len(moved):,} position(s) written, {sum(row.mapped for row in work.rows):,} record(s) mapped"
    )


STEPS = (
    steps.STOPPED,
    steps.BEGIN,
    steps.comparison("it is proved of every partition where its copy ends", _compare),
    Step(
        StepName.WRITE,
        "writes positions and the first part of the offset map, and lets the flow copy, in one transaction",
        "the next cycle copies what is missing, once",
        "nothing was written: run it again",
        _write,
        lambda work: f"would map {sum(proof.mapped for proof in work.rows):,} record(s)",
    ),
)
"""The steps of a take-over."""


def _notes(work: Migration) -> Iterator[str]:
    known = {topic.topic for topic in work.discovery.topics}
    others = sorted({position.topic for position in work.positions} - known)
    if others:
        yield f"positions of topics this flow does not replicate are left alone: {', '.join(others)}"
    if work.topics is not None and (rest := known - set(work.topics)):
        yield (
            f"{len(rest)} topic(s) were not looked at: their positions stand as MM2 left them, or where twinlog was"
            " before if that is further"
        )


Seen = Mapping[SourceIncarnation, Observed]


def _extra(flow: FlowSettings, proved: Sequence[Proved], seen: Seen) -> Iterator[str]:
    """Say what the audit will find in the copies, though they are proved: no cycle would have copied it."""
    extra = [
        (it.place.source.topic, it.found.duplicates, it.found.aborted if flow.copy.read_committed else 0)
        for it in proved
        if not _passed_over(flow, it, seen)
    ]
    twice, aborted = sum(it[1] for it in extra), sum(it[2] for it in extra)
    if twice or aborted:
        topics = {topic for topic, *counts in extra if any(counts)}
        yield (
            f"the audit will call {twice:,} record(s) that were copied twice, and {aborted:,} of aborted transactions,"
            " `extra`, and the gate says no until they have expired, `twinlog topics rebuild` has copied the topics"
            f" anew, or `audit-equal` is accepted: {listed(sorted(topics))}"
        )


def _passed_over(flow: FlowSettings, it: Proved, seen: Seen) -> bool:
    """Say whether audits pass over what is in a copy twice: no aborted record is in it, nor one of the target's own.

    The latter is known of a copy with a name of its own, and of one that was observed.
    """
    observed = seen.get(it.place.life)
    known = it.place.target.topic != it.place.source.topic or (
        observed is not None and _compared_from(it) <= observed.seen_to
    )
    return known and not (it.found.aborted and flow.copy.read_committed)


def _compared_from(it: Proved) -> int:
    return min((downstream for _, downstream in it.found.pairs), default=it.place.target_offsets.end)


def _readable(
    maps: PackedMaps, proved: Sequence[Proved]
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


def left_as_they_are(
    state: StateTopics,
    progress: Positions,
    copier: Copier,
    positions: Positions,
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
    flow: FlowSettings, known: Known, ledger: Ledger, discovery: Discovery, proved: Sequence[Proved]
) -> Iterator[TakenOver]:
    """Yield how much of each copy is the source's: for audits, and for the reverse flow if the copy keeps its name.

    What an earlier migration left uncompared counts as compared as far as this one reached.  What was observed was
    compared, from its last foreign record on.  If a copy with another name has records of aborted transactions, audits
    go on naming all that is in it twice.
    """
    ids = {
        discovered_topic.topic: discovered_topic.remote.topic_id
        for discovered_topic in discovery.topics
        if discovered_topic.remote is not None
    }
    now = clock.now_ms()
    for it in proved:
        topic, partition = it.place.target
        same = topic == it.place.source.topic
        passed = _passed_over(flow, it, ledger.observed)
        if not same and not passed:
            continue
        packed, seen = known.get(it.place.life), ledger.observed.get(it.place.life)
        first = packed.open().end_downstream if packed is not None and seen is None else 0
        end, compared = it.place.target_offsets.end, _compared_from(it)
        if seen is not None and compared <= seen.seen_to:
            compared = seen.foreign_to
        incarnation = topic, ids.get(it.place.source.topic, ""), partition
        if first < end:
            yield TakenOver(*incarnation, first, max(first, compared), end, now, passed)
        for left in ledger.taken_over if same else ():
            if (left.topic, left.remote_topic_id, left.partition) == incarnation and compared < left.compared:
                yield replace(left, compared=max(left.first, compared), at_ms=now)


def left_unmapped(known: Known, maps: Continued, left: Positions, now_ms: int) -> Iterator[MapHole]:
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
