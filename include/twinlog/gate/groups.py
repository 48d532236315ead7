"""Tell the readiness gate of consumer groups: the rows of the suite "groups".

With the source, the rows are what the step `checkpoints` would do now; without it, what that step wrote last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from twinlog.checks.check import Row
from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import Answers, PartitionOffsets, TopicDescription
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown, known
from twinlog.formats.ledger.topics import Incarnation, RebuildPhase
from twinlog.formats.map.packed_map import PackedMap, UnreadableMap
from twinlog.gate import same_record
from twinlog.gate.answer import GroupAtRisk
from twinlog.gate.facts import StandbyState, known_topics
from twinlog.grouped import grouped
from twinlog.groups import checkpoints
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.groups.view import GroupPositions, look
from twinlog.kafka_types import SourceIncarnation, TopicPartition
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints
from twinlog.topics.incarnations import about_incarnation, differ, sources_of_copies
from twinlog.topics.snapshot import FlowSnapshot

REWOUND = frozenset({SyncReason.NEVER_REWIND, SyncReason.WRITTEN})
"""Verdicts on groups beyond their translation: they keep that position, or the next cycle moves them back."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Rows to judge, expected duplicates, and the time of the oldest checkpoint (epoch ms; None if there is none)."""

    rows: tuple[Row, ...]
    at_risk: tuple[GroupAtRisk, ...]
    checkpoint_ms: int | None = None


def read_both(snapshot: FlowSnapshot, positions: GroupPositions, state: StandbyState) -> GroupFacts:
    """Find what of the groups' positions on the source reached the target; they were read before the snapshot.

    Raises ClusterUnreachable, ClusterRefused.
    """
    flow, seen = snapshot.flow, look(snapshot, positions)
    report = checkpoints.preview(flow, seen)
    same = same_record.read(flow, snapshot.clusters, state, report.rows)
    rows = [
        group_row(
            it,
            seen.checkpoints.get(GroupPartition(it.group, it.remote_topic, it.partition)),
            state.offsets,
            same.get(place),
        )
        for place, it in enumerate(report.rows)
    ]
    refused = [it.group for it in report.uncovered if it.refused]
    waiting = sorted(owed(state.ledger, known_topics(flow, state.ledger, state.progress)))
    return GroupFacts(
        (*rows, *(refused_row(group) for group in refused), *map(missing_row, waiting)),
        (*at_risk(report.rows), *(GroupAtRisk(group, None) for group in refused)),
        min((it.at_ms for it in report.ages), default=None),
    )


def group_row(
    row: GroupPartitionRow,
    noted: DatedCheckpoint | None,
    offsets: Mapping[TopicPartition, PartitionOffsets],
    same: bool | None,
) -> Row:
    """Make one row of a finding of the step `checkpoints`; `same` is None if no records were compared.  Pure."""
    return {
        "group": row.group,
        "topic": row.topic,
        "partition": row.partition,
        "wrongly_not": int(row.state is SyncState.WRONGLY_NOT),
        "translated": known(row.downstream_offset, row.text or "it has no translation"),
        "passed_on": known(_passed_on(row, noted), "nothing was passed on"),
        "same_record": None if same is None else int(same),
        "rewound_records": row.records_skipped if row.reason in REWOUND else 0,
        "skipped_records": _skipped(row),
        "missing_records": row.records_missing,
        **_place(offsets.get(TopicPartition(row.remote_topic, row.partition)), row.committed_there),
    }


def _skipped(row: GroupPartitionRow) -> int | Unknown | None:
    """Count what a group skips that was not rewound; None if it stands nowhere on the target."""
    if row.downstream_offset is None:
        return None if row.committed_there is None else Unknown("its position has no translation")
    return 0 if row.reason in REWOUND else row.records_skipped


def refused_row(group: str) -> Row:
    """Make the row of a group whose positions the source refused to tell: its position is unknown.  Pure."""
    return missing_row(GroupPartition(group, "-", -1))


def _passed_on(row: GroupPartitionRow, noted: DatedCheckpoint | None) -> int | None:
    """Return the group's position as the target knows it: the committed position, or else MM2's checkpoint."""
    there = row.committed_there
    if row.reason is SyncReason.WRITTEN:
        return there  # the gate writes nothing: this is what the next cycle would commit
    if there is not None and row.downstream_offset is not None and there >= row.downstream_offset:
        return row.downstream_offset
    return noted.checkpoint.downstream_offset if noted is not None else None


def _place(there: PartitionOffsets | None, position: int | None) -> Row:
    unread = Unknown("the copy's offsets cannot be read")
    return {
        "position": position,
        "target_log_start": there.log_start if there is not None else unread,
        "target_end": there.end if there is not None else unread,
    }


def at_risk(rows: Iterable[GroupPartitionRow]) -> Iterable[GroupAtRisk]:
    """Add up the records that each group would read again; unknown if one partition's count is unknown.  Pure."""
    for group, counts in sorted(grouped((row.group, row.expected_duplicates) for row in rows).items()):
        known = [it for it in counts if it is not None]
        yield GroupAtRisk(group, sum(known) if len(known) == len(counts) else None)


def read_target(flow: FlowSettings, target: ClusterReader, state: StandbyState) -> GroupFacts:
    """Find where every group would start, from the checkpoints and the target's own groups.

    How many records it would read again depends on what it has read on the source since, which cannot be asked.
    """
    checkpoints = of_this_incarnation(flow, newest_checkpoints(flow, target)[0], state.ledger)
    copies = target.describe_topics({it.topic for it in checkpoints})
    left = left_behind(flow, state.ledger, state.progress, copies)
    noted = {place: it for place, it in checkpoints.items() if place.topic not in left}
    waiting = frozenset(owed(state.ledger, known_topics(flow, state.ledger, state.progress)))
    groups = sorted({it.group for it in (*noted, *waiting)})
    committed = target.committed_offsets(groups).found if groups else {}
    noted_here = [it for place, it in noted.items() if place not in waiting]
    return GroupFacts(
        (
            *known_rows(flow, noted_here, committed, state),
            *(missing_row(it) for it in sorted(waiting)),
        ),
        tuple(GroupAtRisk(group, None) for group in groups),
        min((it.at_ms for it in noted.values()), default=None),
    )


def left_behind(
    flow: FlowSettings,
    ledger: Ledger,
    progress: Mapping[TopicPartition, int],
    copies: Answers[str, TopicDescription],
) -> frozenset[str]:
    """Return those copies that the target has lost and that the flow does not miss.  Pure.

    What was noted of groups outlives their topics.  The flow does not miss a copy whose topic was deleted on the
    source, was forgotten, or is left out by a filter.  A copy that is hidden, or does not answer, may be there.
    """
    source_of, known = sources_of_copies(flow, ledger), set(known_topics(flow, ledger, progress))
    return frozenset(topic for topic in copies.absent if (source_of(topic) or topic) not in known)


def of_this_incarnation(
    flow: FlowSettings, noted: Mapping[GroupPartition, DatedCheckpoint], ledger: Ledger
) -> Mapping[GroupPartition, DatedCheckpoint]:
    """Leave out checkpoints from before a topic was recreated: they do not fit the present copy.  Pure."""
    source_of = sources_of_copies(flow, ledger)

    def life(topic: str) -> Incarnation | None:
        source = source_of(topic)
        return ledger.incarnations.get(source) if source is not None else None

    return {
        place: it for place, it in noted.items() if about_incarnation(it.at_ms, life(it.checkpoint.topic))
    }


def owed(ledger: Ledger, topics: Iterable[str]) -> Iterator[GroupPartition]:
    """Yield the positions on copies of `topics` that a rebuild has taken from groups and not yet restored.  Pure."""
    for topic in topics:
        rebuild, life = ledger.rebuilds.get(topic), ledger.incarnations.get(topic)
        if rebuild is None:
            continue
        # While the copy is deleted, the ledger still has the incarnation before; later another one may have followed.
        emptying = rebuild.phase is RebuildPhase.DELETING
        if emptying or life is None or not differ(rebuild.topic_id, life.topic_id):
            for place in rebuild.groups:
                if place.awaited:
                    yield GroupPartition(place.group, rebuild.remote_topic, place.partition)


def missing_row(place: GroupPartition) -> Row:
    """Make the row of a group that lacks a position it should have: nothing else of it can be judged.  Pure."""
    return {
        **dict.fromkeys(_OF_A_POSITION),
        "group": place.group,
        "topic": place.topic,
        "partition": place.partition,
        "wrongly_not": 1,
    }


_OF_A_POSITION = (
    *("translated", "passed_on", "same_record", "rewound_records", "skipped_records", "missing_records"),
    *("position", "target_log_start", "target_end"),
)
"""The columns of a row that only a group with a position has."""


def known_rows(
    flow: FlowSettings,
    noted: Iterable[DatedCheckpoint],
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    state: StandbyState,
) -> tuple[Row, ...]:
    """Make one row per checkpoint.  Pure.

    If a position should have been committed and is missing, or lies before its checkpoint, it counts as wrongly not
    synced.  If it lies behind it, the group skips what it has not read since on the source.  Without
    `sync.group.offsets.enabled` clients translate by the checkpoint, so the checkpoint is the position.
    """
    rows, source_of = [], sources_of_copies(flow, state.ledger)
    for it in (one.checkpoint for one in noted):
        at = it.topic_partition
        found = committed.get(it.group, {}).get(at)
        there = found.offset if found is not None else None
        behind = there is None or there < it.downstream_offset
        position = there if flow.sync_group_offsets else max(it.downstream_offset, there or 0)
        life = known_life(state.ledger, source_of(it.topic) or it.topic, it.partition)
        rows.append({
            "group": it.group,
            "topic": it.topic,
            "partition": it.partition,
            "wrongly_not": int(flow.sync_group_offsets and behind),
            "skipped_records": records_between(state.maps.seen(life), it.downstream_offset, there or 0),
            **_place(state.offsets.get(at), position),
        })
    return tuple(rows)


def known_life(ledger: Ledger, topic: str, partition: int) -> SourceIncarnation:
    """Return the incarnation of a source partition that is copied now, by the ledger.  Pure."""
    life = ledger.incarnations.get(topic)
    return SourceIncarnation(topic, life.topic_id if life is not None else "", partition)


def records_between(packed: PackedMap | UnreadableMap | None, start: int, end: int) -> int:
    """Count the copied records at offsets [start, end) of a copy; offsets, if no map can be read.  Pure."""
    if isinstance(packed, PackedMap):
        with suppress(UnreadableMap):
            return packed.records_between(start, end) if start < end else 0
    return max(0, end - start)
