"""Decide about a group's position in one partition: commit it on the target, write a checkpoint, or leave it. Pure.

The rules are KIP-545's and those of MM2's MirrorCheckpointTask, made careful (docs/decisions/0006-group-positions.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, GroupState, ShareStart
from twinlog.cluster.values import PartitionOffsets
from twinlog.config.flow.settings import GroupSyncPolicy
from twinlog.errors import FormatError
from twinlog.formats.ledger.observed import Observed
from twinlog.formats.map.packed_map import PackedMap
from twinlog.formats.mm2.records import Checkpoint
from twinlog.groups.place import Place
from twinlog.groups.report import GroupPartitionRow, SyncReason, SyncState
from twinlog.groups.view import Route
from twinlog.offsets.spans import Spans
from twinlog.state.mm2_topics import DatedCheckpoint


@dataclass(frozen=True, slots=True)
class GroupStanding:
    """One group's position in one partition of the source, as both clusters have it.

    - `place` is where `committed` lies on the target, by the maps of `route`.
    - `there` is what is committed on the target.
    - `last` is the last checkpoint about this incarnation of topic and copy.
    - `kept` says that a rebuild keeps the group's position, and has not restored it yet.
    - `observed` is what is known of a copy that another engine makes.
    """

    key: GroupPartition
    topic: str
    route: Route
    committed: CommittedOffset
    place: Place
    there: CommittedOffset | None
    there_state: GroupState
    last: DatedCheckpoint | None
    policy: GroupSyncPolicy
    kept: bool = False
    observed: Observed | None = None

    @property
    def shared(self) -> bool:
        """Say whether it is a share group: its place is a start offset, and MM2 has no checkpoint for it."""
        return isinstance(self.committed, ShareStart)

    def doubled(self, offset: int) -> int:
        """Count what the group has read, and meets again behind an offset of a copy that holds records twice."""
        return 0 if self.observed is None else self.observed.doubled_again(self.committed.offset, offset)

    def again(self, offset: int) -> int:
        """Count the records that the group has read, and meets again if it goes on at `offset`.

        It is an upper bound in a copy that another engine makes: the map knows the last copy of each record alone.
        Raises UnreadableMap.
        """
        place, log = self.place.offset or 0, self.route.target
        start = offset if log is None else max(offset, log.log_start)
        between = max(0, place - start)
        if self.observed is None:
            between = self.route.maps.records_between(start, place)
        return between + self.place.again + self.doubled(max(place, start))

    def skips(self, offset: int) -> int:
        """Count the unread records that the group would never read if it went on at `offset`, behind its place.

        Those that another engine has copied again behind that offset are met there, and those that lay on the target
        while the group worked there were read there.  Raises UnreadableMap.
        """
        packed = self.route.maps.onward
        if self.place.offset is None or (place := max(self.place.offset, self.route.served_to)) >= offset:
            return 0
        if self.observed is None or not isinstance(packed, PackedMap):
            return self.route.maps.records_between(place, offset)
        met = Spans.joined(Spans.between(*it) for it in self.observed.copied_again(offset))
        return Spans.joined([Spans.copied_into(packed.open(), place, offset), met]).count - met.count

    @property
    def ours(self) -> bool:
        """Say whether the position on the target is the one we wrote last, so that it has not been moved since.

        Every position we write is also in the checkpoint. If a position equals the last checkpoint, it is ours, or a
        consumer there stands exactly where we would have put it.
        """
        last = self.last.checkpoint.downstream_offset if self.last is not None else None
        return self.there is not None and self.there.offset == last

    @property
    def beyond_source(self) -> bool:
        """Say whether the position lies behind the source's end."""
        return self.route.source is not None and self.committed.offset > self.route.source.end


@dataclass(frozen=True, slots=True)
class PositionVerdict:
    """The decision about a position: `write` is the offset to commit on the target, None to leave it."""

    state: SyncState
    reason: SyncReason
    text: str
    write: int | None = None


@dataclass(frozen=True, slots=True)
class SyncSwitch:
    """Tell whether positions are written at all, and why not."""

    on: bool
    why_not: str = ""


def judge(standing: GroupStanding, sync: SyncSwitch) -> PositionVerdict:
    """Decide about one position."""
    committed, remote, source = standing.committed.offset, standing.key, standing.route.source
    if standing.beyond_source and source is not None:
        text = f"committed {committed}, beyond the source's end {source.end}: recreated, or truncated"
        return wrong(SyncReason.INVALID_OFFSET, text)
    if standing.route.target is None:
        return wrong(SyncReason.NO_TOPIC, f"{remote.topic}-{remote.partition} does not exist")
    if standing.place.offset is None:
        return wrong(SyncReason.NOT_MAPPED, standing.place.why)
    return _possible(standing, standing.place.offset, standing.route.target, sync)


def _possible(
    standing: GroupStanding, offset: int, log: PartitionOffsets, sync: SyncSwitch
) -> PositionVerdict:
    there = standing.there.offset if standing.there is not None else None
    if there == offset:
        return _synced(SyncReason.UNCHANGED, "its position is the translation")
    if standing.there_state.active:
        return leave(SyncReason.ACTIVE_THERE, "it has members on the target, which commit for themselves")
    if standing.kept and sync.on:
        # The group may have read on there, further than on the source. A position written now would pass for its own
        # choice.
        return leave(
            SyncReason.RESTORING, "its place from before the rebuild waits for the copy to come that far"
        )
    if there is not None and there > offset:
        return _when_before(standing, offset, there, log, sync)
    if not sync.on:
        return leave(SyncReason.SYNC_DISABLED, sync.why_not)
    text = "moved on" if there is not None else "set for the first time"
    return _synced(SyncReason.WRITTEN, text, offset)


def _when_before(
    standing: GroupStanding, offset: int, there: int, log: PartitionOffsets, sync: SyncSwitch
) -> PositionVerdict:
    """Decide if the translation lies before the position there: that is a rewind, which only a policy allows."""
    rewinds = standing.policy is GroupSyncPolicy.FORCE or (
        standing.policy is GroupSyncPolicy.FOLLOW and standing.ours
    )
    if rewinds and sync.on:
        return _synced(SyncReason.WRITTEN, f"taken back from {there} ({standing.policy})", offset)
    if there > log.end:
        text = f"its position {there} lies beyond the target's end {log.end}; policy force would correct it"
        return wrong(SyncReason.BEYOND_END, text)
    if standing.ours:
        return leave(
            SyncReason.NEVER_REWIND, "the group was rewound on the source; policy follow would follow it"
        )
    return _synced(SyncReason.READ_ON_THERE, "it has read on there, or was moved there")


def _synced(reason: SyncReason, text: str, write: int | None = None) -> PositionVerdict:
    return PositionVerdict(SyncState.SYNCED, reason, text, write)


def leave(reason: SyncReason, text: str) -> PositionVerdict:
    """Return the decision that nothing is written, and that this is as it should be."""
    return PositionVerdict(SyncState.INTENTIONALLY_NOT, reason, text)


def wrong(reason: SyncReason, text: str) -> PositionVerdict:
    """Return the decision that something must be done, and nothing can be written."""
    return PositionVerdict(SyncState.WRONGLY_NOT, reason, text)


def checkpoint_of(standing: GroupStanding, now_ms: int, repeat_ms: int) -> Checkpoint | None:
    """Make the checkpoint that is due, None if the topic has it already.

    MM2's rule (MirrorCheckpointTask.checkpointIsMoreRecent): a checkpoint is due if it is the first, if the group was
    rewound on the source, or if it moved on on the target. Two rules are twinlog's own. A last checkpoint that points
    beyond the target's end is corrected. One that still holds is repeated after `repeat_ms`, so that its age shows
    when the group was last looked at.
    """
    offset, log = standing.place.offset, standing.route.target
    if offset is None or log is None or standing.beyond_source or standing.shared:
        return None
    committed = standing.committed
    due = Checkpoint(*standing.key, committed.offset, offset, committed.metadata)
    if standing.last is None:
        return due
    last = standing.last.checkpoint
    rewound = due.upstream_offset < last.upstream_offset
    moved = due.downstream_offset > last.downstream_offset
    holds = due.downstream_offset == last.downstream_offset
    old = now_ms - standing.last.at_ms >= repeat_ms
    wrong = last.downstream_offset > log.end
    return due if rewound or moved or wrong or (holds and old) else None


_SKIPS = (
    "; {} record(s) that it has not read on the source lie before its position there: it would skip them, unless it has"
    " read them there"
)
_BEYOND = {SyncReason.READ_ON_THERE, SyncReason.NEVER_REWIND, SyncReason.WRITTEN}
_MISSING_THERE = "; at most {} unread record(s) are not on the target: expired there, or never copied"


def too_long(checkpoint: Checkpoint) -> PositionVerdict | None:
    """Return why a checkpoint cannot be written, None if it can."""
    try:
        checkpoint.key()
        checkpoint.value()
    except FormatError:
        size = len(checkpoint.metadata.encode())
        text = f"its metadata of {size} bytes does not fit into a checkpoint (at most 32767)"
        return wrong(SyncReason.METADATA_TOO_LONG, text)
    return None


def row_of(standing: GroupStanding, verdict: PositionVerdict, at_ms: int) -> GroupPartitionRow:
    """Make the row of the report.  Raises UnreadableMap.

    Skipped are the records from the place to a position beyond it, also if that is to be rewound: it stays until the
    commit.  If another engine put the group there, the place is as exact as it was.
    """
    place, log = standing.place, standing.route.target
    there = standing.there.offset if standing.there is not None else None
    starts = verdict.write if verdict.write is not None else there
    again, skipped = None, 0 if place.offset is not None or there is None else None
    if place.offset is not None and starts is not None and log is not None:
        again = standing.again(starts)
    if place.offset is not None and there is not None and verdict.reason in _BEYOND:
        skipped = standing.skips(there)
    skips = skipped if verdict.write is None and skipped else 0
    text = verdict.text + (_SKIPS.format(skips) if skips else "")
    return GroupPartitionRow(
        group=standing.key.group,
        topic=standing.topic,
        remote_topic=standing.key.topic,
        partition=standing.key.partition,
        upstream_offset=standing.committed.offset,
        downstream_offset=place.offset,
        exact=place.exact and (standing.observed is not None or not skips),
        ahead=place.ahead,
        committed_there=there,
        state=verdict.state,
        reason=verdict.reason,
        text=text + (_MISSING_THERE.format(place.skipped) if place.skipped else ""),
        expected_duplicates=again,
        at_ms=at_ms,
        records_skipped=skipped,
        records_missing=place.skipped,
    )


def final_row(
    row: GroupPartitionRow, verdict: PositionVerdict, refused: PositionVerdict | None
) -> GroupPartitionRow:
    """Put the outcome of a write into the row; if the target accepted the write, no record is skipped any more."""
    if refused is not None:
        # If another user has just committed, the records which that skips are not known.
        skipped = row.records_skipped if refused.reason is SyncReason.REFUSED else 0
        return replace(
            row,
            exact=row.exact and not skipped,
            state=refused.state,
            reason=refused.reason,
            text=refused.text,
            records_skipped=skipped,
        )
    return replace(row, committed_there=verdict.write, records_skipped=0)
