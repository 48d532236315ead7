"""What the readiness gate knows of consumer groups: rows of the suite "groups".

With the source they are what the step `checkpoints` would do now; without it, what it wrote last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twinlog.checks.check import Row
from twinlog.cluster.admin.group import CommittedOffset, GroupPartition
from twinlog.cluster.api import ClusterReader
from twinlog.cluster.open import Clusters
from twinlog.cluster.values import PartitionOffsets, TopicPartition
from twinlog.config.flow.settings import FlowSettings
from twinlog.formats.ledger.topics import Incarnation, RebuildPhase
from twinlog.gate import same_record
from twinlog.gate.answer import GroupAtRisk
from twinlog.gate.facts import StandbyState, known_topics
from twinlog.groups import checkpoints
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.state.ledger import Ledger
from twinlog.state.mm2_topics import DatedCheckpoint, newest_checkpoints
from twinlog.topics.incarnations import about_incarnation, differ, sources_of_copies

REWOUND = frozenset({SyncReason.NEVER_REWIND, SyncReason.WRITTEN})
"""Of groups that stand beyond their translation, those that are to keep that place, or to be taken back by a cycle."""


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """Rows to judge, duplicates to expect, and when the oldest checkpoint was written (epoch ms, None: none)."""

    rows: tuple[Row, ...]
    at_risk: tuple[GroupAtRisk, ...]
    checkpoint_ms: int | None = None


def read_both(flow: FlowSettings, clusters: Clusters, state: StandbyState) -> GroupFacts:
    """Ask both clusters what the groups have committed, and what of it was passed on.

    Raises ClusterUnreachable, ClusterRefused.
    """
    report = checkpoints.run(flow, clusters, dry_run=True)
    noted, _ = newest_checkpoints(flow, clusters.target)
    same = same_record.read(clusters, state, report.rows)
    rows = [
        group_row(
            it,
            noted.get(GroupPartition(it.group, it.remote_topic, it.partition)),
            state.offsets,
            same.get(place),
        )
        for place, it in enumerate(report.rows)
    ]
    refused = [it.group for it in report.uncovered if it.refused]
    waiting = sorted(owed(state.ledger, known_topics(flow, state)))
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
    """Make one row of what the step `checkpoints` found; `same` is None where records were not compared.  Pure."""
    return {
        "group": row.group,
        "topic": row.topic,
        "partition": row.partition,
        "wrongly_not": int(row.state is SyncState.WRONGLY_NOT),
        "translated": row.downstream_offset,
        "passed_on": _passed_on(row, noted),
        "same_record": None if same is None else int(same),
        "rewound_records": row.records_skipped if row.reason in REWOUND else 0,
        "skipped_records": row.records_skipped,
        "missing_records": row.records_missing,
        **_place(offsets.get(TopicPartition(row.remote_topic, row.partition)), row.committed_there),
    }


def refused_row(group: str) -> Row:
    """Make the row of a group whose positions the source would not tell: it stands nobody knows where.  Pure."""
    return missing_row(GroupPartition(group, "-", -1))


def _passed_on(row: GroupPartitionRow, noted: DatedCheckpoint | None) -> int | None:
    """What the target knows of where the group stands: its committed position, or MM2's checkpoint beside it."""
    there = row.committed_there
    if row.reason is SyncReason.WRITTEN:
        return there  # the gate writes nothing: it is what the next cycle would do
    if there is not None and row.downstream_offset is not None and there >= row.downstream_offset:
        return row.downstream_offset
    return noted.checkpoint.downstream_offset if noted is not None else None


def _place(there: PartitionOffsets | None, position: int | None) -> Row:
    return {
        "position": position,
        "target_log_start": there.log_start if there is not None else None,
        "target_end": there.end if there is not None else None,
    }


def at_risk(rows: Iterable[GroupPartitionRow]) -> Iterable[GroupAtRisk]:
    """Add up what each group would read again; unknown when one partition's is.  Pure."""
    duplicates: defaultdict[str, list[int | None]] = defaultdict(list)
    for row in rows:
        duplicates[row.group].append(row.expected_duplicates)
    for group, counts in sorted(duplicates.items()):
        known = [it for it in counts if it is not None]
        yield GroupAtRisk(group, sum(known) if len(known) == len(counts) else None)


def read_target(flow: FlowSettings, target: ClusterReader, state: StandbyState) -> GroupFacts:
    """Tell from the checkpoints and the target's own groups where every group would start.

    How much it would read again depends on what it read on the source since, which nobody can ask.
    """
    noted = of_this_incarnation(flow, newest_checkpoints(flow, target)[0], state.ledger)
    waiting = frozenset(owed(state.ledger, known_topics(flow, state)))
    groups = sorted({it.group for it in (*noted, *waiting)})
    committed = target.committed_offsets(groups).found if groups else {}
    placed = [it for place, it in noted.items() if place not in waiting]
    return GroupFacts(
        (*known_rows(flow, placed, committed, state.offsets), *(missing_row(it) for it in sorted(waiting))),
        tuple(GroupAtRisk(group, None) for group in groups),
        min((it.at_ms for it in noted.values()), default=None),
    )


def of_this_incarnation(
    flow: FlowSettings, noted: Mapping[GroupPartition, DatedCheckpoint], ledger: Ledger
) -> Mapping[GroupPartition, DatedCheckpoint]:
    """Leave out what was written before a topic was made anew: it places nobody in the copy that is there.  Pure."""
    source_of = sources_of_copies(flow, ledger)

    def life(topic: str) -> Incarnation | None:
        source = source_of(topic)
        return ledger.incarnations.get(source) if source is not None else None

    return {
        place: it for place, it in noted.items() if about_incarnation(it.at_ms, life(it.checkpoint.topic))
    }


def owed(ledger: Ledger, topics: Iterable[str]) -> Iterator[GroupPartition]:
    """Name the places on copies of `topics` that a rebuild has taken from their groups and not restored yet.  Pure."""
    for topic in topics:
        rebuild, life = ledger.rebuilds.get(topic), ledger.incarnations.get(topic)
        if rebuild is None:
            continue
        # While the copy is deleted the ledger still has the life before; later on another one may have followed.
        emptying = rebuild.phase is RebuildPhase.DELETING
        if emptying or life is None or not differ(rebuild.topic_id, life.topic_id):
            for place in rebuild.groups:
                if place.awaited:
                    yield GroupPartition(place.group, rebuild.remote_topic, place.partition)


def missing_row(place: GroupPartition) -> Row:
    """Make the row of a group without a place where it should have one: it would start nobody knows where.  Pure."""
    return {
        "group": place.group,
        "topic": place.topic,
        "partition": place.partition,
        "wrongly_not": 1,
        "rewound_records": 0,
    }


def known_rows(
    flow: FlowSettings,
    noted: Iterable[DatedCheckpoint],
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
    offsets: Mapping[TopicPartition, PartitionOffsets],
) -> tuple[Row, ...]:
    """Make one row per checkpoint.  Pure.

    A position that should have been committed and is not there, or lies before its checkpoint, is wrongly not
    synced.  Without `sync.group.offsets.enabled` clients translate by the checkpoint, which then is the position.
    """
    rows = []
    for it in (one.checkpoint for one in noted):
        at = TopicPartition(it.topic, it.partition)
        found = committed.get(it.group, {}).get(at)
        there = found.offset if found is not None else None
        behind = there is None or there < it.downstream_offset
        position = there if flow.sync_group_offsets else max(it.downstream_offset, there or 0)
        rows.append({
            "group": it.group,
            "topic": it.topic,
            "partition": it.partition,
            "wrongly_not": int(flow.sync_group_offsets and behind),
            **_place(offsets.get(at), position),
        })
    return tuple(rows)
