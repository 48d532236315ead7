"""The consumer groups of a fake cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.cluster.admin.groups import (
    GROUP_ACTIVE,
    OFFSET_MOVED,
    CommittedOffset,
    GroupDescription,
    GroupListing,
    GroupPartition,
    GroupState,
    GroupType,
    OffsetChange,
    ShareStart,
)
from twinlog.cluster.values import Answers
from twinlog.errors import ClusterRefused, TransientError, TwinlogError
from twinlog.kafka_types import TopicPartition


@dataclass(slots=True)
class FakeGroup:
    """One group: what it committed, and who is in it."""

    type: GroupType = GroupType.CLASSIC
    state: GroupState = GroupState.EMPTY
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    members: tuple[str, ...] = ()
    assigned: frozenset[TopicPartition] = frozenset()


class FakeGroups:
    """All groups of one cluster."""

    def __init__(self) -> None:
        self._groups: dict[str, FakeGroup] = {}

    def commit(self, group: str, at: TopicPartition, offset: int, metadata: str) -> FakeGroup:
        """Commit an offset; the group appears with its first one."""
        state = self._groups.setdefault(group, FakeGroup())
        state.offsets[at] = CommittedOffset(offset, metadata)
        return state

    def listed(self) -> tuple[GroupListing, ...]:
        """List all groups."""
        return tuple(GroupListing(name, it.type, it.state) for name, it in sorted(self._groups.items()))

    def start_share(self, group: str, at: TopicPartition, offset: int, lag: int = -1) -> FakeGroup:
        """Give a share group a start offset; the group appears with its first one."""
        state = self._groups.setdefault(group, FakeGroup(GroupType.SHARE))
        state.offsets[at] = ShareStart(offset, lag=lag)
        return state

    def started(self, name: str) -> Mapping[TopicPartition, ShareStart]:
        """Return the start offsets of one share group."""
        offsets = self._groups.get(name, FakeGroup()).offsets
        return {it: start for it, start in offsets.items() if isinstance(start, ShareStart)}

    def described(self, name: str) -> GroupDescription:
        """Describe one group."""
        it = self._groups.get(name, FakeGroup(state=GroupState.DEAD))
        return GroupDescription(name, it.type, it.state, it.members, it.assigned)

    def committed(self, name: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return what one group committed."""
        return dict(self._groups.get(name, FakeGroup()).offsets)

    def altered(
        self,
        changes: Mapping[str, Mapping[TopicPartition, OffsetChange]],
        refusals: Mapping[str, TwinlogError],
        calls: list[str],
        *,
        shared: bool = False,
    ) -> Answers[GroupPartition, None]:
        """Commit where the expected position stands and nobody is in the group; note each in `calls`."""
        found: dict[GroupPartition, None] = {}
        refused: dict[GroupPartition, TwinlogError] = {}
        for group, wanted in changes.items():
            for it, change in wanted.items():
                error = refusals.get(group) or self._against(group, it, change)
                if error is not None:
                    refused[GroupPartition(group, *it)] = error
                    continue
                if shared:
                    self.start_share(group, it, change.offset)
                else:
                    self.commit(group, it, change.offset, change.metadata)
                calls.append(
                    f"{'start' if shared else 'commit'} {group} {it.topic}-{it.partition} {change.offset}"
                )
                found[GroupPartition(group, *it)] = None
        return Answers(found, refused)

    def deleted(self, name: str) -> None:
        """Delete one group."""
        self._groups.pop(name, None)

    def _against(self, group: str, it: TopicPartition, change: OffsetChange) -> TwinlogError | None:
        state = self._groups.get(group, FakeGroup())
        if state.state.active:
            return ClusterRefused(f"group {group} has members", code=GROUP_ACTIVE)
        standing = state.offsets.get(it)
        if (standing.offset if standing is not None else None) != change.expected:
            return TransientError(f"group {group} has moved", code=OFFSET_MOVED)
        return None
