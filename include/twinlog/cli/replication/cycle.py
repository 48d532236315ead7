"""One cycle of one flow, step by step, as the Dag does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from twinlog.cli.failure import Failure
from twinlog.cli.render import say, warn
from twinlog.errors import ExitCode
from twinlog.jsonable import Json, to_json
from twinlog.kafka_types import PartitionIssue

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.copy import LaneRunner
    from twinlog.copying.progress import CopyProgress
    from twinlog.copying.result import CopyResult
    from twinlog.cycle import Begun, GroupsRun
    from twinlog.duties.plan import DutyReport
    from twinlog.duties.run import Duties
    from twinlog.judge.check import CheckResult
    from twinlog.monitoring.cycle_report import FlowReport
    from twinlog.monitoring.exporter import Board
    from twinlog.observe.lane import ObserveRunner


@dataclass(frozen=True, slots=True)
class Request:
    """The request of a cycle: a name for it, only these source topics, only records before `until_ms`.

    `config` is the digest of the configuration file.
    """

    run_id: str
    topics: frozenset[str] | None = None
    until_ms: int | None = None
    config: str = ""


@dataclass(frozen=True, slots=True)
class FlowRun:
    """The outcome of a flow: its report, its failures, and the checks that did not pass.

    `error` is set if the flow as a whole could not be run; there is no report then.  `broke_off` says that the copy
    ended for a reason that may go away by itself, and that no topic was refused its place beside that.  `windows`
    counts the lane generations of follow mode.  `copy_seconds` is how long the copy took, of the report's seconds.
    `stood_by`: another process led the flow when this one ended.
    `left_to` is the run that follows the flow, to which a cycle left the copy and the duties.
    """

    flow: str
    run_id: str
    report: FlowReport | None = None
    failures: tuple[PartitionIssue, ...] = ()
    failed_checks: tuple[CheckResult, ...] = ()
    latency_ms: int | None = None
    groups: GroupsRun | None = None
    windows: int = 0
    error: Failure | None = None
    broke_off: bool = False
    copy_seconds: float = 0.0
    stood_by: bool = False
    duties: tuple[DutyReport, ...] = ()
    left_to: str = ""

    @property
    def state(self) -> str:
        """Return `done`, `nothing` (to copy), `stood-by` for another process, or `failed`, in whole or in part."""
        if self.stood_by:
            return "stood-by"
        if self.report is None or self.failures or self.error is not None:
            return "failed"
        return self.report.state

    @property
    def succeeded(self) -> bool:
        """Say whether everything was copied, no critical check failed, and the groups could be handled."""
        return self.state != "failed" and not self._found_wanting

    @property
    def exit_code(self) -> ExitCode:
        """Return the exit code that this flow causes; that of an `error` is in the error.

        CLUSTER tells a caller to try again, so it is returned only if nothing else may need a person.
        """
        if self.succeeded:
            return ExitCode.DONE
        return ExitCode.CLUSTER if self.broke_off and not self._found_wanting else ExitCode.SAYS_NO

    @property
    def _found_wanting(self) -> bool:
        """Say whether a critical check or a duty failed, or the groups could not be handled."""
        critical = any(check.severity == "critical" for check in self.failed_checks)
        neglected = any(duty.state == "failed" for duty in self.duties)
        return critical or neglected or bool(self.groups and self.groups.error)

    @property
    def document(self) -> Json:
        """Return the document that programs read in the JSON of `run --once`, with the failures beside it."""
        nothing = {
            "flow": self.flow,
            "run_id": self.run_id,
            "records": 0,
            "bytes": 0,
            "topics": [],
            "gaps": [],
        }
        report = to_json(self.report) if self.report is not None else {**nothing, "seconds": 0}
        more = (
            "state",
            "failures",
            "failed_checks",
            "groups",
            "windows",
            "copy_seconds",
            "duties",
            "left_to",
        )
        return {
            **report,
            **{name: to_json(getattr(self, name)) for name in (*more, "error")},
            "heartbeat_latency_ms": self.latency_ms,
        }


def run_cycle(
    flow: FlowSettings,
    clusters: Clusters,
    request: Request,
    runner: Callable[[], LaneRunner] | None = None,
    on_progress: Callable[[CopyProgress], None] | None = None,
    looks: ObserveRunner | None = None,
    board: Board | None = None,
) -> FlowRun:
    """Run every step of one cycle.  `runner` is called only if there is something to copy.

    If another engine copies the flow, no `runner` is needed: its copies are read with `looks`, in this process if None.
    `board` gets the numbers.

    A partition or a topic that fails is in the result.  Raises errors that stop the flow as a whole: clusters out of
    reach or refusing, another twinlog running the flow, UsageError for a topic that it does not replicate.
    """
    from twinlog.cycle import begin, not_copied, not_synced
    from twinlog.follow.leading import live_leader
    from twinlog.monitoring import heartbeats
    from twinlog.monitoring.exporter import Board
    from twinlog.observe.lane import LocalObserveRunner
    from twinlog.observe.run import run as observe
    from twinlog.steps import copy

    started_ms = round(time.time() * 1000)
    if not_ready := heartbeats.make_ready(flow, clusters.source):
        warn(f"{flow.name}: {not_ready}")
    if (leader := live_leader(flow, clusters.target)) is not None:
        say(f"{flow.name}: {leader.place} leads and follows this flow: the copy is left to it")
        left = conclude(flow, clusters, request, None, (), started_ms, Board(flow))
        return replace(left, left_to=leader.run_id)
    until, topics = request.until_ms, request.topics
    begun = begin(flow, clusters, topics, until, hint="--topic takes names of source topics")
    snapshot, planned = begun.snapshot, begun.planned
    _say_planned(flow, begun)
    reported = snapshot.ledger.last_report
    copied = None
    if flow.observed:
        copied = observe(
            flow,
            clusters,
            looks or LocalObserveRunner(),
            run_id=request.run_id,
            topics=topics,
            snapshot=snapshot,
        )
        say(
            f"{flow.name}: read {copied.records:,} records that the engine has copied in {copied.seconds:,.1f} s"
        )
    elif begun.has_work and runner is not None:
        copied = copy.run(
            flow,
            clusters,
            runner(),
            run_id=request.run_id,
            until_ms=until,
            topics=topics,
            on_progress=on_progress,
            snapshot=snapshot,
        )
        say(
            f"{flow.name}: copied {copied.records:,} records, {copied.bytes:,} bytes in"
            f" {copied.seconds:,.1f} s"
        )
    refused = tuple(not_synced(begun.synced))
    failures = (*refused, *not_copied(copied.stopped if copied is not None else planned.stopped, copied))
    board = board or Board(flow)
    done = conclude(flow, clusters, request, copied, failures, started_ms, board, refused=bool(refused))
    duties = duties_of(flow, request.run_id)
    duties.drills_ms = reported.at_ms if reported is not None else 0  # the last cycle told of those before
    if done.report is not None:
        duties.note(done.report)
    duties.do_all(clusters)
    return replace(done, duties=duties.rows)


def duties_of(flow: FlowSettings, run_id: str) -> Duties:
    """Return the duties of a flow; one that fails is on stderr at once."""
    from twinlog.duties.run import Duties

    return Duties(flow, run_id, lambda name, message: warn(f"{flow.name}: {name.value}: {message}"))


def conclude(
    flow: FlowSettings,
    clusters: Clusters,
    request: Request,
    copied: CopyResult | None,
    failures: tuple[PartitionIssue, ...],
    started_ms: int,
    board: Board,
    windows: int = 0,
    *,
    refused: bool = False,
) -> FlowRun:
    """Write heartbeats, judge and report what was copied since `started_ms` (epoch ms).

    `board` gets the numbers.  `refused`: some of `failures` are about topics that have no place on the target.
    """
    from twinlog.cycle import conclude as conclude_cycle

    done = conclude_cycle(
        flow,
        clusters,
        request.run_id,
        None if copied is None else to_json(copied),
        started_ms,
        board,
        lambda line: warn(f"{flow.name}: {line}"),
        failed=bool(failures),
    )
    return FlowRun(
        flow=flow.name,
        run_id=request.run_id,
        report=done.report,
        failures=failures,
        failed_checks=done.failed_checks,
        latency_ms=done.latency_ms,
        groups=done.groups,
        windows=windows,
        broke_off=copied is not None and copied.broke_off and not refused,
        copy_seconds=copied.seconds if copied is not None else 0.0,
    )


def _say_planned(flow: FlowSettings, begun: Begun) -> None:
    """Print one line per cycle, also for an idle one, to show a watcher that twinlog lives."""
    planned, synced = begun.planned, begun.synced
    for note in synced.notes:
        warn(f"{flow.name}: {note}")
    changes = f", {len(synced.changes):,} changes on {flow.target.alias}" if synced.changes else ""
    say(
        f"{flow.name}: {len(begun.snapshot.discovery.topics):,} topics{changes},"
        f" at most {planned.records:,} records to {flow.work} in {len(planned.ranges):,} partitions"
    )


def follow_failures(copied: CopyResult) -> tuple[PartitionIssue, ...]:
    """Return the problems that a followed flow met, each once."""
    from twinlog.cycle import not_copied

    problems = (
        PartitionIssue(problem.code, problem.topic, problem.message, problem.hint)
        for problem in copied.problems
    )
    refused = (
        PartitionIssue(refusal.code, refusal.name, refusal.message, refusal.hint)
        for refusal in copied.refused
    )
    return (*problems, *refused, *not_copied(copied.stopped, copied))


def say_failures(failures: Iterable[PartitionIssue], flow: str) -> None:
    """Print every failure on stderr."""
    for failure in failures:
        what = f"{failure.where} was not copied" if failure.where else "not everything was copied"
        say(f"{flow}: {what}: {failure.message}" + (f"; {failure.hint}" if failure.hint else ""))
