"""Tell the readiness gate of consumer groups: the rows of the suite "groups".

With the source, the rows are what the step `checkpoints` would do now; without it, what that step wrote last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from twinlog.cluster.admin.groups import GroupPartition
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import FlowSettings
from twinlog.fact import Unknown, known
from twinlog.facts.flow import FlowFacts
from twinlog.facts.recall import still_copied
from twinlog.gate.answer import GroupAtRisk
from twinlog.grouped import grouped
from twinlog.groups import checkpoints, same_record
from twinlog.groups.plan import Decided, make_plan
from twinlog.groups.recall import recall
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.groups.verdict import GroupStanding
from twinlog.groups.view import GroupView
from twinlog.judge.check import Row
from twinlog.judge.table import GROUPS
from twinlog.kafka_types import Positions
from twinlog.lifecycle.reader_positions import owed
from twinlog.observe.observed_copy import EnginePosition
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint
from twinlog.state.progress import PackedMaps
from twinlog.topics.snapshot import FlowSnapshot

REWOUND = frozenset({SyncReason.NEVER_REWIND, SyncReason.WRITTEN})
"""Verdicts on groups beyond their translation: they keep that position, or the next cycle moves them back."""


UNTOLD = Unknown(
    "the engine that copies leaves no checkpoints: nobody knows where groups stand on the source"
)


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Rows to judge, expected duplicates, and the time of the oldest checkpoint (epoch ms; None if there is none).

    `engine` says where the engine that copies would let groups go on, if twinlog only observes it.
    """

    rows: tuple[Row, ...]
    at_risk: tuple[GroupAtRisk, ...]
    checkpoint_ms: int | None = None
    engine: tuple[EnginePosition, ...] = ()


def read_both(snapshot: FlowSnapshot, seen: GroupView, facts: FlowFacts) -> GroupFacts:
    """Find what of the groups' positions on the source reached the target; they were read before the snapshot.

    Raises ClusterUnreachable, ClusterRefused.
    """
    flow = snapshot.flow
    report = checkpoints.preview(flow, seen)
    same = same_record.read(flow, snapshot.clusters, facts.ledger, facts.maps, facts.copies, report.rows)
    rows = [
        group_row(
            it,
            seen.checkpoints.get(GroupPartition(it.group, it.remote_topic, it.partition)),
            facts.copies.get(it.remote),
            same.get(place),
        )
        for place, it in enumerate(report.rows)
    ]
    unplaced = sorted({group.group for group in report.uncovered if group.ours})
    waiting = sorted(dict(owed(facts.ledger, still_copied(flow, facts.ledger, facts.progress))))
    return GroupFacts(
        (*rows, *map(missing_row, (*(GroupPartition(group, "-", -1) for group in unplaced), *waiting))),
        (
            *(risk for risk in at_risk(report.rows) if risk.group not in unplaced),
            *(GroupAtRisk(group, None) for group in unplaced),
        ),
        min((age.at_ms for age in report.ages), default=None),
        tuple(engine_positions(make_plan(flow, seen).decided)) if flow.observed else (),
    )


def group_row(
    row: GroupPartitionRow, noted: DatedCheckpoint | None, log: PartitionOffsets | None, same: bool | None
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
        **_place(log, row.committed_there),
    }


def _skipped(row: GroupPartitionRow) -> int | Unknown | None:
    """Count what a group skips that was not rewound; None if it stands nowhere on the target."""
    if row.downstream_offset is None:
        return None if row.committed_there is None else Unknown("its position has no translation")
    return 0 if row.reason in REWOUND else row.records_skipped


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
        known = [count for count in counts if count is not None]
        yield GroupAtRisk(group, sum(known) if len(known) == len(counts) else None)


def read_target(flow: FlowSettings, every: Iterable[Decided], facts: FlowFacts) -> GroupFacts:
    """Say where every group would start, as `recalled` has decided.  Pure.

    How many records it would read again depends on what it has read on the source since, which cannot be asked.
    """
    judged = [decided for decided in every if not decided.gone]
    untold = [] if judged or not flow.untold_groups else [missing_row(GroupPartition("-", "-", -1), UNTOLD)]
    return GroupFacts(
        (*(recalled_row(flow, it, facts.copies.get(it.row.remote)) for it in judged), *untold),
        tuple(GroupAtRisk(group, None) for group in sorted({decided.key.group for decided in judged})),
        min(
            (decided.standing.last.at_ms for decided in judged if decided.standing.last is not None),
            default=None,
        ),
        tuple(engine_positions(judged)) if flow.observed else (),
    )


def recalled(
    flow: FlowSettings,
    target: ClusterReader,
    ledger: Ledger,
    progress: Positions,
    maps: PackedMaps,
) -> tuple[Decided, ...]:
    """Decide about all positions from the target alone.  Raises errors of the target."""
    return recall(flow, target, ledger, maps, still_copied(flow, ledger, progress))


def missing_row(place: GroupPartition, wrongly_not: int | Unknown = 1) -> Row:
    """Make the row of a group that lacks a place it should have: nothing else of it can be judged.  Pure."""
    return {
        **dict.fromkeys(column for check in GROUPS for column in check.columns),
        "group": place.group,
        "topic": place.topic,
        "partition": place.partition,
        "wrongly_not": wrongly_not,
    }


def recalled_row(flow: FlowSettings, decided: Decided, log: PartitionOffsets | None) -> Row:
    """Make the row of a position that the target alone tells of.  Pure.

    If a position should have been committed and is missing, or lies before its checkpoint, it counts as wrongly not
    synced.  If it lies behind it, the group skips what it has not read since on the source.  Without
    `sync.group.offsets.enabled` clients translate by the checkpoint, so the checkpoint is the position.
    """
    row, last = decided.row, decided.standing.last
    if decided.standing.kept or last is None:
        return missing_row(decided.key)
    noted, there = last.checkpoint.downstream_offset, row.committed_there
    behind = flow.sync_group_offsets and (there is None or there < noted)
    position = there if flow.sync_group_offsets else max(noted, there or 0)
    return {
        "group": row.group,
        "topic": row.remote_topic,
        "partition": row.partition,
        "wrongly_not": int(behind or row.state is SyncState.WRONGLY_NOT),
        "skipped_records": row.records_skipped,
        **_place(log, position),
    }


def engine_positions(decided: Iterable[Decided]) -> Iterator[EnginePosition]:
    """Compare where the engine's own translation puts groups with where the offset map puts them.  Pure."""
    for it in decided:
        standing, row = it.standing, it.row
        theirs, by = _of_engine(standing)
        ours, again, skipped, by_map = standing.place.offset, None, None, None
        if ours is not None and standing.place.exact:
            by_map = standing.again(ours)
            if theirs is not None:
                again = standing.again(theirs)
                skipped = standing.skips(theirs)
        yield EnginePosition(
            row.group,
            row.topic,
            row.remote_topic,
            row.partition,
            row.upstream_offset,
            ours,
            standing.place.exact,
            theirs,
            by,
            again,
            skipped,
            by_map,
        )


def _of_engine(standing: GroupStanding) -> tuple[int | None, str]:
    if standing.there is not None:
        return standing.there.offset, "committed"
    if standing.last is not None:
        return standing.last.checkpoint.downstream_offset, "checkpoint"
    return None, ""
