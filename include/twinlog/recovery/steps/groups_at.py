"""The step of `failover --groups-at TIME`: put groups where they stood at that time, by the looks in the ledger.

A *look* is the ledger's record of where all groups stood at a moment.  This is the last step before the promotion.  By
then each group was placed where it would go on now: what it reads again is counted from there, and until the promotion
another command can still place it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from twinlog import clock
from twinlog.clock import iso
from twinlog.cluster.admin.groups import CommittedOffset, GroupPartition, GroupState, OffsetChange
from twinlog.cluster.api import ClusterReader
from twinlog.config.flow.settings import FlowSettings
from twinlog.gate.groups import left_behind
from twinlog.groups.time_machine import Past, Stood, Then, mapped_between, past
from twinlog.kafka_types import TopicPartition
from twinlog.recovery.report import Outcome, PlacedGroup, done, waiting
from twinlog.recovery.steps.scene import Scene
from twinlog.recovery.steps.source_dead import commit, waived
from twinlog.state.ledger import Ledger, read_ledger
from twinlog.state.progress import read_progress
from twinlog.visible import and_more, listed

OPTION = "--groups-at"


@dataclass(frozen=True, slots=True)
class Return:
    """Tell how one group goes back: `then` is where it stood, `there` what is committed on the target now.

    `write` is None if it stands there already, or cannot be placed; `trouble` says why.
    """

    then: Then
    there: CommittedOffset | None
    write: int | None
    trouble: str = ""

    @property
    def key(self) -> GroupPartition:
        """The group and the partition of the copy."""
        return GroupPartition(self.then.group, *self.then.remote)


@dataclass(frozen=True, slots=True)
class Returns:
    """All groups of a moment; `stay` are groups without a known place then, which keep their place of now."""

    at_ms: int
    rows: tuple[Return, ...]
    stay: tuple[str, ...]


def read_returns(
    flow: FlowSettings, target: ClusterReader, ledger: Ledger, at_ms: int, now: Iterable[PlacedGroup]
) -> Returns:
    """Decide for every position of that time; `now` are the places of now.  Raises UsageError for no such time.

    Positions on copies that are gone, and whose topics the flow does not have any more, are left out.
    """
    found = past(flow, target, ledger, at_ms, OPTION)
    copies = target.describe_topics({it.remote.topic for it in found.rows})
    left = left_behind(flow, ledger, read_progress(flow, target), copies)
    found = replace(found, rows=tuple(it for it in found.rows if it.remote.topic not in left))
    groups = {it.group for it in found.rows}
    committed = target.committed_offsets(groups).require() if groups else {}
    states = {it.group: it.state for it in target.groups()} if groups else {}
    return Returns(
        at_ms,
        tuple(_return(it, committed.get(it.group, {}), states, flow) for it in found.rows),
        _stay(found, now),
    )


def _return(
    then: Then,
    committed: Mapping[TopicPartition, CommittedOffset],
    states: Mapping[str, GroupState],
    flow: FlowSettings,
) -> Return:
    there, offset = committed.get(then.remote), then.downstream_offset
    if offset is None:
        return Return(then, there, None, then.text)
    if there is not None and there.offset == offset:
        return Return(then, there, None)
    if states.get(then.group, GroupState.DEAD).active:
        return Return(then, there, None, f"it has members on {flow.target.alias}")
    return Return(then, there, offset)


def _stay(found: Past, now: Iterable[PlacedGroup]) -> tuple[str, ...]:
    then = {(it.group, it.topic, it.partition) for it in found.rows}
    return tuple(sorted({it.group for it in now if (it.group, it.topic, it.partition) not in then}))


def put_back(scene: Scene) -> Outcome:
    """Commit the positions of that time; groups with members on the target are not touched."""
    flow, target, at_ms = scene.flow, scene.clusters.target, scene.groups_at_ms
    assert at_ms is not None  # the step is done only if a time was given
    ledger = read_ledger(flow, target)
    found = read_returns(flow, target, ledger, at_ms, scene.groups)
    spared = frozenset(waived(ledger.waivers, clock.now_ms()))
    blocked = [it for it in found.rows if it.trouble and not spared & {"", it.key.group}]
    if blocked:
        first = blocked[0]
        more = and_more(len(blocked), form=" (and {} positions more)")
        return waiting(
            f"group {first.key.group} on {first.key.topic}-{first.key.partition} cannot be placed as of {iso(at_ms)}:"
            f" {first.trouble}{more}; see to it and run it again, or leave it where it would go on now: twinlog waiver"
            f" add group-covered --for {shlex.quote(first.key.group)}"
        )
    changes: dict[str, dict[TopicPartition, OffsetChange]] = {}
    for it in found.rows:
        if it.write is not None:
            expected, metadata = (None, "") if it.there is None else (it.there.offset, it.there.metadata)
            changes.setdefault(it.key.group, {})[it.key.topic_partition] = OffsetChange(
                it.write, expected, metadata
            )
    if (refused := commit(target, changes)) is not None:
        return refused
    scene.groups = returned(flow, target, ledger, found, scene.groups)
    scene.put_back = {
        it.key: it.then.downstream_offset
        for it in found.rows
        if it.then.downstream_offset is not None and not it.trouble
    }
    return done(told(found, scene.groups))


def returned(
    flow: FlowSettings, target: ClusterReader, ledger: Ledger, found: Returns, now: Sequence[PlacedGroup]
) -> tuple[PlacedGroup, ...]:
    """Return the positions as the report has them: of each group that goes back, with what it reads again."""
    placed = {(it.group, it.topic, it.partition): it for it in now}
    thens = [it.then for it in found.rows if not it.trouble]
    asked = []
    for then in thens:
        old, start = placed.get((then.group, then.topic, then.partition)), then.downstream_offset or 0
        # If a group has no place now, what it has read is not known.
        end = old.downstream_offset if old is not None else None
        asked.append((then.topic, then.remote, start, end))
    for then, count in zip(thens, mapped_between(flow, target, ledger, asked), strict=True):
        key = then.group, then.topic, then.partition
        more = placed[key].again or 0 if key in placed else 0
        again = None if count is None else count + more
        placed[key] = PlacedGroup(*key, then.upstream_offset, then.downstream_offset, again)
    return tuple(placed[key] for key in sorted(placed))


def told(found: Returns, groups: Sequence[PlacedGroup]) -> str:
    """Say in a line what goes back, and what it costs.  Pure."""
    back = {(it.then.group, it.then.topic, it.then.partition) for it in found.rows if not it.trouble}
    counts = [it.again for it in groups if (it.group, it.topic, it.partition) in back]
    total, unknown = sum(it or 0 for it in counts), ", some unknown" if None in counts else ""
    moving = sum(it.then.stood is Stood.MOVING for it in found.rows if not it.trouble)
    left = [it for it in found.rows if it.trouble]
    return (
        f"{len({it[0] for it in back}):,} groups, {len(back):,} positions as of {iso(found.at_ms)};"
        f" {total:,} records are read again{unknown}"
        + (f"; {moving:,} of the positions were moving: they may have stood further on" if moving else "")
        + (f"; left where they go on now, without a place then: {listed(found.stay)}" if found.stay else "")
        + (f"; cannot be placed: {left[0].key.group}: {left[0].trouble}" if left else "")
    )
