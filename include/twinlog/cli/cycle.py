"""One cycle of one flow, step by step, as the Dag does it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twinlog.cli.failure import Failure
from twinlog.cli.progress import shown
from twinlog.cli.say import say, warn
from twinlog.cli.topics import refuse_unknown_topics
from twinlog.errors import ClusterRefused, ExitCode, TwinlogError
from twinlog.jsonable import to_json

if TYPE_CHECKING:
    from twinlog.checks.check import CheckResult
    from twinlog.cluster.open import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.ranges import RangePlan, StoppedPartition
    from twinlog.copying.result import CopyResult
    from twinlog.copying.rounds import LaneRunner
    from twinlog.lifecycle.sync_topics import SyncTopicsResult
    from twinlog.monitoring.cycle_report import FlowReport
    from twinlog.topics.discovery import Discovery


SHOWN = 10
"""Positions of groups that are named on stderr."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a cycle is asked for: a name for it, only these source topics, only records before `until_ms`."""

    run_id: str
    topics: frozenset[str] | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that kept a topic, or one partition of it, from being copied or from being trusted.

    `topic` is empty where it is the flow's copy as a whole that broke off.
    """

    topic: str
    partition: int | None
    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class GroupsRun:
    """What a cycle did for the groups of a flow; `states` counts positions by how they stand.

    `refused` says what a cluster did not allow: the copy goes on without it.  `error` says what went wrong.
    """

    groups: int = 0
    committed: int = 0
    checkpoints: int = 0
    offset_syncs: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    refused: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class FlowRun:
    """What became of a flow: its report, what failed in it, and the checks that did not pass.

    `error` is set when the flow as a whole could not be run; there is no report then.  `broke_off` says that the copy
    ended by what may go away by itself, and that no topic was refused its place beside it.  `windows` counts those of
    follow mode.
    """

    flow: str
    run_id: str
    report: FlowReport | None = None
    failures: tuple[Trouble, ...] = ()
    failed_checks: tuple[CheckResult, ...] = ()
    latency_ms: int | None = None
    groups: GroupsRun | None = None
    windows: int = 0
    error: Failure | None = None
    broke_off: bool = False

    @property
    def state(self) -> str:
        """`done`, `nothing` (to copy), or `failed`, in whole or in part."""
        if self.report is None or self.failures or self.error is not None:
            return "failed"
        return self.report.state

    @property
    def succeeded(self) -> bool:
        """Whether everything was copied, no critical check failed, and groups could be looked after."""
        return self.state != "failed" and not self._found_wanting

    @property
    def exit_code(self) -> ExitCode:
        """What the command ends with for its sake; that of an `error` is in it.

        Who tries again at CLUSTER waits for nobody: only where nothing else may need a person.
        """
        if self.succeeded:
            return ExitCode.DONE
        return ExitCode.CLUSTER if self.broke_off and not self._found_wanting else ExitCode.SAYS_NO

    @property
    def _found_wanting(self) -> bool:
        """Whether a critical check failed, or groups could not be looked after."""
        critical = any(it.severity == "critical" for it in self.failed_checks)
        return critical or bool(self.groups and self.groups.error)

    @property
    def document(self) -> dict[str, Any]:
        """What others rely on in the JSON of `run --once`, with what failed beside it."""
        nothing = {
            "flow": self.flow,
            "run_id": self.run_id,
            "records": 0,
            "bytes": 0,
            "topics": [],
            "gaps": [],
        }
        report = to_json(self.report) if self.report is not None else {**nothing, "seconds": 0}
        return {
            **report,
            "state": self.state,
            "failures": to_json(self.failures),
            "failed_checks": to_json(self.failed_checks),
            "heartbeat_latency_ms": self.latency_ms,
            "groups": to_json(self.groups),
            "windows": self.windows,
            "error": to_json(self.error),
        }


def run_cycle(
    flow: FlowSettings, clusters: Clusters, request: Request, runner: Callable[[], LaneRunner]
) -> FlowRun:
    """Run every step of one cycle.  `runner` is called only when there is something to copy.

    A partition or a topic that fails is in the result.  Raises what stops the flow as a whole: clusters out of
    reach or refusing, another twinlog running the flow, UsageError for a topic that it does not replicate.
    """
    from twinlog.cluster.remembering import remembering
    from twinlog.monitoring import heartbeats
    from twinlog.steps import copy, discover, plan_ranges, sync_topics

    started_ms = round(time.time() * 1000)
    not_ready = heartbeats.make_ready(flow, clusters.source)
    if (
        not_ready and flow.way_back is None
    ):  # the way back tries again at the end of the cycle, and says so then
        warn(f"{flow.name}: {not_ready}")
    with remembering(clusters) as seen:
        discovery = discover.run(flow, seen)
        refuse_unknown_topics(discovery, request.topics)
        synced = sync_topics.run(flow, seen)
        planned = plan_ranges.run(flow, seen, until_ms=request.until_ms, topics=request.topics)
    _say_planned(flow, discovery, synced, planned)
    copied = None
    if planned.ranges or planned.unended:
        until, topics = request.until_ms, request.topics
        with shown() as on_progress:
            copied = copy.run(
                flow,
                clusters,
                runner(),
                run_id=request.run_id,
                until_ms=until,
                topics=topics,
                on_progress=on_progress,
            )
        say(
            f"{flow.name}: copied {copied.records:,} records, {copied.bytes:,} bytes in {copied.seconds:,.1f} s"
        )
    refused = tuple(_not_synced(synced))
    failures = (*refused, *_not_copied(copied.stopped if copied is not None else planned.stopped, copied))
    return conclude(flow, clusters, request, copied, failures, started_ms, refused=bool(refused))


def conclude(
    flow: FlowSettings,
    clusters: Clusters,
    request: Request,
    copied: CopyResult | None,
    failures: tuple[Trouble, ...],
    started_ms: int,
    windows: int = 0,
    *,
    refused: bool = False,
) -> FlowRun:
    """Beat, judge and report what was copied since `started_ms` (epoch ms).

    `refused`: some of `failures` are about topics that have no place on the target.
    """
    from twinlog.cluster.remembering import remembering
    from twinlog.monitoring import heartbeats, publish, validate

    groups = run_groups(flow, clusters)
    beat = heartbeats.run(flow, clusters)
    if beat.warning:
        warn(f"{flow.name}: {beat.warning}")
    with remembering(clusters) as both:
        facts = validate.see(flow, both)
        judged = validate.judge(flow, facts)
        for check in judged.failed:
            warn(f"{flow.name}: {check.name}: {check.message}")
        report = publish.run(
            flow, both, request.run_id, to_json(copied), started_ms, facts.seen, failed=bool(failures)
        )
    return FlowRun(
        flow=flow.name,
        run_id=request.run_id,
        report=report,
        failures=failures,
        failed_checks=judged.failed,
        latency_ms=beat.latency_ms,
        groups=groups,
        windows=windows,
        broke_off=copied is not None and copied.broke_off and not refused,
    )


def run_groups(flow: FlowSettings, clusters: Clusters) -> GroupsRun:
    """Write offset syncs and checkpoints, and commit positions of groups.

    What fails here is in the result and said on stderr: it costs no record of the copy.
    """
    from twinlog.steps import checkpoints, offset_syncs

    try:
        syncs = offset_syncs.run(flow, clusters)
        if syncs.warning:
            warn(f"{flow.name}: {syncs.warning}")
        result = checkpoints.run(flow, clusters)
    except ClusterRefused as error:
        # The rights for it are not among those a copy needs (`twinlog check`).
        warn(f"{flow.name}: groups are not looked after: {error}")
        return GroupsRun(refused=str(error))
    except TwinlogError as error:
        warn(f"{flow.name}: groups: {error}")
        return GroupsRun(error=str(error))
    for row in result.wrongly[:SHOWN]:
        warn(f"{flow.name}: group {row.group} on {row.topic}-{row.partition}: {row.text}")
    if len(result.wrongly) > SHOWN:
        warn(f"{flow.name}: and {len(result.wrongly) - SHOWN} positions more; see `twinlog groups`")
    states = Counter(row.state.value for row in result.rows)
    return GroupsRun(result.groups, result.committed, result.checkpoints, syncs.syncs, dict(states))


def _say_planned(
    flow: FlowSettings, discovery: Discovery, synced: SyncTopicsResult, planned: RangePlan
) -> None:
    """One line a cycle, also for an idle one: somebody who watches sees that it lives."""
    for note in synced.notes:
        warn(f"{flow.name}: {note}")
    changes = f", {len(synced.changes):,} changes on {flow.target.alias}" if synced.changes else ""
    say(
        f"{flow.name}: {len(discovery.topics):,} topics{changes},"
        f" at most {planned.records:,} records to copy in {len(planned.ranges):,} partitions"
    )


def follow_failures(copied: CopyResult) -> tuple[Trouble, ...]:
    """List what a followed flow could not copy, each once."""
    problems = (Trouble(it.topic, None, it.code.value, it.message, it.hint) for it in copied.problems)
    refused = (Trouble(it.name, None, it.code, it.message, it.hint) for it in copied.refused)
    return (*problems, *refused, *_not_copied(copied.stopped, copied))


def _not_synced(synced: SyncTopicsResult) -> Iterator[Trouble]:
    for problem in synced.problems:
        if problem.blocking:
            yield Trouble(problem.topic, None, problem.code.value, problem.message, problem.hint)
    for refusal in synced.refused:
        yield Trouble(refusal.name, None, refusal.code, refusal.message, refusal.hint)


def _not_copied(stopped: Iterable[StoppedPartition], copied: CopyResult | None) -> Iterator[Trouble]:
    for it in stopped:
        yield Trouble(it.topic, it.partition, it.code, it.message)
    if copied is None:
        return
    carried = False
    for partition in copied.partitions:
        code, message = partition.error_code, partition.error
        if message and f"{copied.error}; ".startswith(f"{message}; "):  # what kept it is what ended the copy
            carried, code, message = True, copied.error_code, copied.error
        if message:
            yield Trouble(partition.topic, partition.partition, code, message)
    if copied.error and not carried:  # tasks that died report no partition, and others may be at their end
        yield Trouble("", None, copied.error_code, copied.error)


def say_failures(failures: Iterable[Trouble], flow: str) -> None:
    """Name on stderr everything that failed."""
    for it in failures:
        where = it.topic if it.partition is None else f"{it.topic}-{it.partition}"
        what = f"{where} was not copied" if where else "not everything was copied"
        say(f"{flow}: {what}: {it.message}" + (f"; {it.hint}" if it.hint else ""))
