"""The state of every group's position on the target: one row per group and partition, and groups not covered.

The `checkpoints` step makes these rows; the readiness gate and `twinlog groups` read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.cluster.admin.groups import GroupType
from twinlog.kafka_types import OfPartition, TopicPartition
from twinlog.visible import and_more


class SyncState(StrEnum):
    """Say whether the group would go on at the right record on the target.

    `synced`: its position there is the translation, or beyond it because it read on there.
    `intentionally-not`: it is not, and it should not be (see the reason).
    `wrongly-not`: it is not, and something must be done.
    """

    SYNCED = "synced"
    INTENTIONALLY_NOT = "intentionally-not"
    WRONGLY_NOT = "wrongly-not"


class SyncReason(StrEnum):
    """Name why a position has its state."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    READ_ON_THERE = "read-on-there"
    SYNC_DISABLED = "sync-disabled"
    ACTIVE_THERE = "active-there"
    NEVER_REWIND = "never-rewind"
    RESTORING = "restoring"
    MOVED_THERE = "moved-there"
    NOT_COPIED = "not-copied"
    NOT_MAPPED = "not-mapped"
    MAP_UNREADABLE = "map-unreadable"
    RECREATED = "recreated"
    INVALID_OFFSET = "invalid-offset"
    BEYOND_END = "beyond-end"
    NO_TOPIC = "no-topic"
    METADATA_TOO_LONG = "metadata-too-long"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class GroupPartitionRow(OfPartition):
    """One group's position in one partition.

    - `topic` is the source's name, `remote_topic` the target's.
    - `upstream_offset` is committed on the source; `downstream_offset` is its translation (None: there is none).
    - `committed_there` is the offset committed on the target (None: nothing).
    - `exact`: the translation is the first record the group has not read, and the group skips none; if another engine
      copies, it is said of the translation alone.
    - `ahead`: the group had read beyond what is copied.
    - `expected_duplicates` counts the records the group would read again if it started on the target now. It is exact
      if `exact` and not `ahead`, at most this many otherwise, None if unknown.
    - `records_skipped` counts the records the group would not read any more, though its position on the source is
      before them. It is counted if `committed_there` is beyond the translation and the group has no members there. If
      a policy rewinds the position, it is counted until the rewind is written. It is None if there is no translation.
    - `records_missing` is an upper bound of the records that the group has not read and the source still has, but not
      the target: they expired there, or were never copied.

    A `committed_there` below the translation costs duplicates, never records.
    """

    group: str
    topic: str
    remote_topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int | None
    exact: bool
    ahead: bool
    committed_there: int | None
    state: SyncState
    reason: SyncReason
    text: str
    expected_duplicates: int | None
    at_ms: int
    records_skipped: int | None = 0
    records_missing: int = 0

    @property
    def remote(self) -> TopicPartition:
        """The partition on the target."""
        return TopicPartition(self.remote_topic, self.partition)

    @property
    def misplaced(self) -> bool:
        """Say whether a failover must not leave the group so: it is wrong, or held by its members or a rebuild."""
        held = self.reason not in {SyncReason.NEVER_REWIND, SyncReason.NO_TOPIC}
        return self.state is SyncState.WRONGLY_NOT or (self.state is SyncState.INTENTIONALLY_NOT and held)

    @property
    def goes_on_at(self) -> int | None:
        """Return where a failover leaves the group: at its translation, or further on where it stands there."""
        place, there = self.downstream_offset, self.committed_there
        stays = place is not None and there is not None and self.reason is not SyncReason.WRITTEN
        return max(place or 0, there or 0) if stays else place


@dataclass(frozen=True, slots=True)
class UncoveredGroup:
    """A group of the source whose progress, or a part of it, is not passed on, and why.

    `refused`: it may well have positions, but the source does not tell them.  `ours` is false if nobody can say whether
    the flow's patterns mean it; without its progress, one of ours keeps the flow from being ready.
    """

    group: str
    type: GroupType
    reason: str
    refused: bool = False
    ours: bool = True


@dataclass(frozen=True, slots=True)
class CheckpointAge:
    """Tell how long ago the oldest of a group's checkpoints was written; `at_ms` is its time."""

    group: str
    at_ms: int
    age_seconds: float


@dataclass(frozen=True, slots=True)
class CheckpointsResult:
    """The result of the step `checkpoints`.

    `rows` are in order of group, topic, partition. `checkpoints` counts records written to `A.checkpoints.internal`.
    `ended` counts the checkpoints there of groups that are gone, or of partitions that a group has left. `deleted`
    counts the oldest of these, which this step deleted (twinlog.groups.checkpoint_upkeep). `committed` counts
    positions committed on the target; `groups_synced` names their groups. `latency_ms`
    is how long after its position was read the newest checkpoint was on the target, None if none was written.
    """

    flow: str
    at_ms: int
    groups: int
    rows: tuple[GroupPartitionRow, ...]
    uncovered: tuple[UncoveredGroup, ...]
    ages: tuple[CheckpointAge, ...]
    checkpoints: int
    ended: int
    committed: int
    groups_synced: tuple[str, ...]
    notes: tuple[str, ...] = ()
    deleted: int = 0
    latency_ms: int | None = None

    @property
    def states(self) -> Mapping[str, int]:
        """Count the rows of every state, those without any too."""
        return {state.value: sum(row.state is state for row in self.rows) for state in SyncState}

    @property
    def untold(self) -> str:
        """Say whose positions the source does not tell, and why; "" if it tells those of all groups it lists."""
        refused = [group for group in self.uncovered if group.refused]
        if not refused:
            return ""
        first, more = refused[0], and_more(len(refused), form=" (and {} groups more)")
        return f"the positions of group {first.group} are not told: {first.reason}{more}"

    @property
    def wrongly(self) -> tuple[GroupPartitionRow, ...]:
        """The rows that need action."""
        return tuple(row for row in self.rows if row.state is SyncState.WRONGLY_NOT)
