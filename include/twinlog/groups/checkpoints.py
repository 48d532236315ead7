"""Step `checkpoints`: translate every group's position on the source into target offsets.

The step writes MM2's checkpoints (`A.checkpoints.internal`), and commits the positions on the target for groups that
have no members there (KIP-545, `sync.group.offsets.enabled`). Everything is decided in `twinlog.groups.plan`. The
result holds the decision about every position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from twinlog import clock
from twinlog.cluster.admin.groups import GROUP_ACTIVE, OFFSET_MOVED, GroupPartition
from twinlog.cluster.api import Cluster, Clusters
from twinlog.cluster.values import NO_SUCH_TOPIC, InternalRecord
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.grouped import grouped
from twinlog.groups.checkpoint_upkeep import apply_cut, plan_cut
from twinlog.groups.plan import CheckpointPlan, Decided, after_commits, changes_of, make_plan, without
from twinlog.groups.report import CheckpointAge, CheckpointsResult, SyncReason
from twinlog.groups.verdict import PositionVerdict, final_row, leave, wrong
from twinlog.groups.view import GroupView, look, read_positions
from twinlog.lifecycle import rebuild
from twinlog.topics.incarnations import differ
from twinlog.topics.snapshot import FlowSnapshot

CHECKPOINTS_PARTITION = 0


def run(
    flow: FlowSettings, clusters: Clusters, snapshot: FlowSnapshot | None = None, *, dry_run: bool = False
) -> CheckpointsResult:
    """Translate, commit and write checkpoints; with `dry_run` only report what would be done.

    `snapshot` has not read any topics yet: they are read after the positions. Positions that a rebuild has kept come
    first: those that the copy has reached by now are committed. Raises ClusterUnreachable, ClusterRefused, and
    FormatError for an offset map that cannot be read: nothing is written then. An error with one group is in its rows.
    """
    if not dry_run:
        rebuild.restore_reached(flow, clusters)
    positions = read_positions(flow, clusters)
    seen = look(snapshot or FlowSnapshot(flow, clusters), positions)
    if dry_run:
        return preview(flow, seen)
    plan = make_plan(flow, seen)
    plan = without(plan, seen, _not_as_seen(clusters.target, seen, plan))
    refused = _commit(clusters.target, plan.decided)
    plan = after_commits(plan, refused)
    written = _write_checkpoints(flow, clusters.target, plan)
    latency_ms = clock.now_ms() - max(decided.row.at_ms for decided in plan.decided) if written else None
    deleted, note = _delete_old(flow, clusters.target, seen, plan)
    synced = {decided.key for decided in plan.decided if decided.writes} - refused.keys()
    rows = tuple(
        final_row(decided.row, decided.verdict, refused.get(decided.key)) if decided.writes else decided.row
        for decided in plan.decided
    )
    return replace(
        _result(flow, seen, plan),
        rows=rows,
        checkpoints=written,
        committed=len(synced),
        groups_synced=tuple(sorted({it.group for it in synced})),
        notes=(*seen.notes, *filter(None, [note])),
        deleted=deleted,
        latency_ms=latency_ms,
    )


def preview(flow: FlowSettings, seen: GroupView) -> CheckpointsResult:
    """Report what the step would do by what was seen. Pure."""
    return _result(flow, seen, make_plan(flow, seen))


def _not_as_seen(target: Cluster, seen: GroupView, plan: CheckpointPlan) -> Mapping[str, TwinlogError | None]:
    """Return the copies that are gone, or were replaced, since they were read: a rebuild may delete one at any time.

    The result also has the copies that the target no longer shows, with its refusal: they may be gone too. The
    comparison in a commit does not detect this. A deleted topic's positions are forgotten, so a group that had no
    position looks like one that lost it.
    """
    due = {decided.key.topic for decided in plan.decided if decided.writes or decided.checkpoint is not None}
    known = {
        route.remote.topic: route.remote_id for route in seen.routes.values() if route.remote.topic in due
    }
    if not known:
        return {}
    now = target.describe_topics(known)
    found = {name: it.topic_id for name, it in now.found.items()}
    others = [name for name, it in known.items() if name not in found or differ(it, found[name])]
    refused = {name: error for name, error in now.refused.items() if error.code != NO_SUCH_TOPIC}
    return {**dict.fromkeys(others), **refused}


def _commit(target: Cluster, decided: Iterable[Decided]) -> Mapping[GroupPartition, PositionVerdict]:
    """Commit the decided positions; return the verdicts on those that the target refused."""
    refused: dict[GroupPartition, TwinlogError] = {}
    for shared, its in grouped((it.standing.shared, it) for it in decided).items():
        if changes := changes_of(its):
            alter = target.alter_share_starts if shared else target.alter_offsets
            refused |= alter(changes).refused
    return {
        key: leave(SyncReason.ACTIVE_THERE, str(error))
        if error.code == GROUP_ACTIVE
        else wrong(_REFUSED.get(error.code, SyncReason.REFUSED), str(error))
        for key, error in refused.items()
    }


_REFUSED = {OFFSET_MOVED: SyncReason.MOVED_THERE, "metadata-too-large": SyncReason.METADATA_TOO_LONG}


def _write_checkpoints(flow: FlowSettings, target: Cluster, plan: CheckpointPlan) -> int:
    """Write checkpoints; call this after the commits, so that no checkpoint tells of a rewind that failed.

    A checkpoint of a step forward says where the group stands, as MM2's does, whether or not the commit succeeded.
    Checkpoints of groups that are gone get no tombstone: it makes MM2's client fail for every group
    (MirrorClient.remoteConsumerOffsets of Kafka 4.3.1 expects a value in every record).
    """
    at_ms = {decided.row.at_ms for decided in plan.decided}
    due = [decided.checkpoint for decided in plan.decided if decided.checkpoint is not None]
    records = [
        InternalRecord(checkpoint.key(), checkpoint.value(), CHECKPOINTS_PARTITION, max(at_ms))
        for checkpoint in due
    ]
    if records:
        target.produce(flow.checkpoints_topic, records)
    return len(due)


def _delete_old(
    flow: FlowSettings, target: Cluster, seen: GroupView, plan: CheckpointPlan
) -> tuple[int, str]:
    """Delete checkpoints of groups that ended long ago, if the flow is active and all records are checkpoints.

    Return how many were deleted, and what prevented it.
    """
    if not flow.emit_checkpoints or not seen.ledger.copies or seen.notes:
        return 0, ""
    renewed = {decided.key for decided in plan.decided if decided.checkpoint is not None}
    cut = plan_cut(seen.checkpoints, plan.ended, renewed, seen.at_ms)
    note = apply_cut(target, flow.checkpoints_topic, cut) if cut is not None else ""
    return (0 if cut is None or note else cut.ended), note


def _result(flow: FlowSettings, seen: GroupView, plan: CheckpointPlan) -> CheckpointsResult:
    return CheckpointsResult(
        flow=flow.name,
        at_ms=seen.at_ms,
        groups=len({decided.key.group for decided in plan.decided}),
        rows=tuple(decided.row for decided in plan.decided),
        uncovered=tuple(sorted(seen.uncovered, key=lambda it: it.group)),
        ages=tuple(_ages(seen, plan)),
        checkpoints=0,
        ended=len(plan.ended),
        committed=0,
        groups_synced=(),
        notes=seen.notes,
    )


def _ages(seen: GroupView, plan: CheckpointPlan) -> Iterator[CheckpointAge]:
    """Return the age of each group's oldest checkpoint; those written in this step count as new."""
    fresh = {decided.key for decided in plan.decided if decided.checkpoint is not None}
    oldest: dict[str, int] = {}
    for key in {*seen.checkpoints, *fresh} - set(plan.ended):
        at_ms = seen.at_ms if key in fresh else seen.checkpoints[key].at_ms
        oldest[key.group] = min(oldest.get(key.group, at_ms), at_ms)
    for group, at_ms in sorted(oldest.items()):
        yield CheckpointAge(group, at_ms, round(clock.seconds_between(at_ms, seen.at_ms), 3))


def counts(result: CheckpointsResult) -> Mapping[str, int]:
    """Count rows by state and reason, as `synced/unchanged`: a task log and XCom show this of thousands of groups."""
    return dict(sorted(Counter(f"{row.state}/{row.reason}" for row in result.rows).items()))
