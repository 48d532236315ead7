"""One whole cycle of a flow around its copy.

Before: give every topic its place on the target, and plan what there is to copy.  After: look after the groups, write
heartbeats, judge the copies, report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import RangePlan, StoppedPartition, what_to_do
from twinlog.copying.result import CopyResult
from twinlog.errors import ClusterRefused, TransientError, TwinlogError
from twinlog.facts.observe import observe
from twinlog.jsonable import Json
from twinlog.judge import validate
from twinlog.judge.check import CheckResult, in_lines
from twinlog.kafka_types import PartitionIssue
from twinlog.lifecycle.sync_topics import SyncTopicsResult, as_left
from twinlog.monitoring import heartbeats, publish, samples
from twinlog.monitoring.cycle_report import FlowReport
from twinlog.monitoring.exporter import Board
from twinlog.steps import checkpoints, offset_syncs, plan_ranges, sync_topics
from twinlog.topics.discovery import refuse_unknown_topics
from twinlog.topics.snapshot import FlowSnapshot
from twinlog.visible import first_few


@dataclass(frozen=True, slots=True)
class Begun:
    """Hold what a cycle found before its copy; `snapshot` is what both clusters had once topics were synced."""

    snapshot: FlowSnapshot
    synced: SyncTopicsResult
    planned: RangePlan

    @property
    def has_work(self) -> bool:
        """Say whether there is something to copy, or a transaction that an earlier copy left open.

        There is always something to observe: a copy may change without its source, and time makes positions exact.
        """
        return bool(self.planned.ranges or self.planned.unended) or self.snapshot.flow.observed


def begin(
    flow: FlowSettings,
    clusters: Clusters,
    topics: Collection[str] | None,
    until_ms: int | None,
    *,
    hint: str,
) -> Begun:
    """Sync the topics and plan the copy, of `topics` (None: all of the flow), up to `until_ms` (epoch ms).

    Raises UsageError with `hint` for a topic that the flow does not replicate, and errors of clusters that cannot be
    reached or refuse.
    """
    snapshot = FlowSnapshot(flow, clusters)
    refuse_unknown_topics(snapshot.discovery, topics, hint)
    synced = sync_topics.run(flow, clusters, snapshot=snapshot)
    snapshot = as_left(snapshot, synced)
    planned = plan_ranges.run(flow, clusters, until_ms=until_ms, topics=topics, snapshot=snapshot)
    return Begun(snapshot, synced, planned)


def not_synced(synced: SyncTopicsResult) -> Iterator[PartitionIssue]:
    """Return the topics that have no place on the target."""
    for problem in synced.problems:
        if problem.blocking:
            yield PartitionIssue(problem.code, problem.topic, problem.message, problem.hint)
    for refusal in synced.refused:
        yield PartitionIssue(refusal.code, refusal.name, refusal.message, refusal.hint)


def not_copied(stopped: Iterable[StoppedPartition], copied: CopyResult | None) -> Iterator[PartitionIssue]:
    """Return the partitions that were not copied; what ended the copy as a whole is told once."""
    for stopped_partition in stopped:
        yield PartitionIssue(
            stopped_partition.code,
            stopped_partition.topic,
            stopped_partition.message,
            stopped_partition.hint,
            stopped_partition.partition,
        )
    if copied is None:
        return
    carried = False
    for partition in copied.partitions:
        code, message = partition.error_code, partition.error
        if message and f"{copied.error}; ".startswith(f"{message}; "):  # this problem is what ended the copy
            carried, code, message = True, copied.error_code, copied.error
        if message:
            hint = what_to_do(code, partition.topic)
            yield PartitionIssue(code, partition.topic, message, hint, partition.partition)
    if copied.error and not carried:  # tasks that died report no partition, and others may be at their end
        yield PartitionIssue(copied.error_code, "", copied.error)


SHOWN = 10
"""Positions of groups that are warned of one by one."""

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class GroupsRun:
    """The results of a cycle for the groups of a flow; `states` counts positions by state.

    `refused` says what a cluster did not allow: the copy goes on without it.  `error` says what failed, `transient`
    whether that may go away by itself.
    """

    groups: int = 0
    committed: int = 0
    checkpoints: int = 0
    offset_syncs: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""
    error: str = ""
    transient: bool = False


@dataclass(frozen=True, slots=True)
class Concluded:
    """The outcome of everything that follows the copy."""

    report: FlowReport
    failed_checks: tuple[CheckResult, ...]
    latency_ms: int | None
    groups: GroupsRun


def conclude(
    flow: FlowSettings,
    clusters: Clusters,
    run_id: str,
    copied: Json | None,
    started_ms: int,
    board: Board,
    warn: Warn,
    *,
    failed: bool,
) -> Concluded:
    """Write heartbeats, judge and report what was copied since `started_ms` (epoch ms).

    `copied` is a CopyResult as JSON, None if there was nothing to copy.  `failed` says that not everything was copied.
    `board` gets the numbers, `warn` a line for everything that a person should know.
    """
    snapshot = FlowSnapshot(flow, clusters)
    groups = run_groups(flow, clusters, snapshot, board, warn)
    beat = heartbeats.run(flow, clusters, begun=True)
    if beat.warning:
        warn(beat.warning)
    facts = observe(snapshot)
    judged = validate.judge(flow, facts)
    for line in in_lines(judged.failed):
        warn(line)
    board.tell("checks", samples.of_checks(judged.checks))
    report = publish.run(
        flow, clusters, run_id, copied, started_ms, facts, failed=failed, board=board, tells=True
    )
    return Concluded(report, judged.failed, beat.latency_ms, groups)


def run_groups(
    flow: FlowSettings, clusters: Clusters, snapshot: FlowSnapshot, board: Board, warn: Warn
) -> GroupsRun:
    """Write offset syncs and checkpoints, and commit positions of groups; the snapshot has no topics yet.

    A failure here is in the result and a warning; it costs no record of the copy.
    """
    try:
        syncs = offset_syncs.run(flow, clusters, snapshot)
        if syncs.warning:
            warn(syncs.warning)
        result = checkpoints.run(flow, clusters, snapshot)
    except ClusterRefused as error:
        # A copy does not need the ACLs for it (`twinlog check`).
        warn(f"groups are not looked after: {error}")
        return GroupsRun(refused=str(error))
    except TwinlogError as error:
        warn(f"groups: {error}")
        return GroupsRun(error=str(error), transient=isinstance(error, TransientError))
    board.tell("groups", samples.of_groups(result.groups, result.states, result.latency_ms))
    if result.untold:
        warn(result.untold)
    lines = [f"group {row.group} on {row.topic}-{row.partition}: {row.text}" for row in result.wrongly]
    for line in first_few(lines, SHOWN, "and {} positions more; see `twinlog groups`"):
        warn(line)
    states = Counter(row.state.value for row in result.rows)
    return GroupsRun(
        groups=result.groups,
        committed=result.committed,
        checkpoints=result.checkpoints,
        offset_syncs=syncs.syncs,
        states=dict(states),
        refused=result.untold,
    )
