"""The step that places every group on the target: where it stands on the source, exactly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from twinlog.config.flow.settings import FlowSettings, GroupSyncPolicy, GroupSyncSettings
from twinlog.gate.ask import see
from twinlog.groups import checkpoints
from twinlog.groups.report import CheckpointsResult, GroupPartitionRow
from twinlog.kafka_types import TopicPartition
from twinlog.offset_sync import emit
from twinlog.procedure import Outcome, Step, StepName, done, planned, waiting
from twinlog.recovery.report import placed, skips
from twinlog.recovery.steps.world import World
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import and_more, listed

LOOK_SECONDS = 1.0
"""Pause between two looks at groups that still read."""


def place_groups(world: World) -> Outcome:
    """Pass on the positions of all groups, once those with members on the source have read to its end there."""
    flow = placing(world.flow)
    deadline = time.monotonic() + flow.failover.wait_seconds
    emit.run(flow, world.clusters)
    while True:
        result = checkpoints.run(flow, world.clusters)
        found = replace(world.found, groups=placed(result.rows))
        reading = still_reading(world, result.rows)
        if not reading and not misplaced(result.rows):
            break
        if time.monotonic() >= deadline:
            return waiting(_why_not_placed(flow, reading, misplaced(result.rows)), found)
        world.tools.sleep(LOOK_SECONDS)
    texts = [_placed_text(result), result.untold, skips(found.groups)]
    return done("; ".join(filter(None, texts)), found)


def placing(flow: FlowSettings) -> FlowSettings:
    """Return the flow with group sync on: a failover places every group, also if cycles leave them alone.

    Where another engine has put a group does not count against its place.
    """
    policies = GroupSyncSettings(GroupSyncPolicy.FORCE) if flow.observed else flow.group_sync
    return replace(flow, sync_group_offsets=True, group_sync=policies)


def misplaced(rows: Sequence[GroupPartitionRow]) -> tuple[GroupPartitionRow, ...]:
    """Return the positions that are not where the group would go on: wrong, active there, or not exact.  Pure."""
    return tuple(row for row in rows if row.misplaced)


def still_reading(world: World, rows: Sequence[GroupPartitionRow]) -> tuple[str, ...]:
    """Return the groups that have members on the source, and unread records there: their positions will move."""
    active = {listing.group for listing in world.clusters.source.groups() if listing.state.active}
    at = {
        (row.group, TopicPartition(row.topic, row.partition)): row.upstream_offset
        for row in rows
        if row.group in active
    }
    found: list[str] = []
    for group in sorted({group for group, _ in at}):
        starts = {place: offset for (name, place), offset in at.items() if name == group}
        unread = world.clusters.source.read_records(starts, 1)
        if any(unread.get(place) for place in starts):
            found.append(group)
    return tuple(found)


def _why_not_placed(flow: FlowSettings, reading: Sequence[str], rows: Sequence[GroupPartitionRow]) -> str:
    if reading:
        return (
            f"still reading on {flow.source.alias}: {listed(reading)}; let them read to the end, or stop them, and run"
            " it again"
        )
    first = rows[0]
    more = and_more(len(rows), form=" (and {} positions more)")
    return (
        f"group {first.group} on {first.remote_topic}-{first.partition} is not in its place: {first.text}{more};"
        f" stop it on {flow.target.alias} if it runs there, and run it again"
    )


def _placed_text(result: CheckpointsResult) -> str:
    again = [row.expected_duplicates for row in result.rows]
    total = sum(it for it in again if it is not None)
    unknown = ", some unknown" if None in again else ""
    exact = sum(row.exact for row in result.rows)
    without = sum(not group.refused for group in result.uncovered)
    others = f"; {without} groups have no offsets to place" if without else ""
    return (
        f"{result.groups:,} groups, {len(result.rows):,} positions, {exact:,} of them exact;"
        f" {total:,} records would be read again{unknown}{others}"
    )


def look_groups(world: World) -> Outcome:
    """Say where groups would go on."""
    seen = world.found.observed or see(FlowSnapshot(world.flow, world.clusters))
    found = checkpoints.preview(placing(world.flow), seen.groups)
    groups, wrong = placed(found.rows), misplaced(found.rows)
    text = f"{len({row.group for row in found.rows}):,} groups, {len(found.rows):,} positions"
    if wrong:
        text += f"; {len(wrong):,} cannot be placed now: {wrong[0].group}: {wrong[0].text}"
    text = "; ".join(filter(None, [text, found.untold, skips(groups)]))
    return planned(text, replace(world.found, groups=groups))


GROUPS = Step(
    StepName.GROUPS,
    "writes offset syncs and checkpoints, and commits the position of every group on the target",
    "every group exactly placed",
    "a group is active on the target, or still reads on the source: stop it and run it again",
    place_groups,
    look_groups,
)
