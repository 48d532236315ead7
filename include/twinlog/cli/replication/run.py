"""`twinlog run`: without Airflow, one whole cycle, or lanes that follow the source."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from twinlog import clock
from twinlog.cli import options
from twinlog.cli.flows import Done, each_flow, flows_at_once, read_configuration, select_flows, to_clusters
from twinlog.cli.options import option
from twinlog.cli.render import Grid, parts, say, show, shown
from twinlog.cli.replication.cycle import FlowRun, Request, run_cycle, say_failures
from twinlog.cli.replication.follow import WarmSpark, follow_flows
from twinlog.errors import TransientError, UsageError

if TYPE_CHECKING:
    from twinlog.cli.failure import Failure
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.copy import LaneRunner
    from twinlog.lane.spec import LaneReport, LaneSpec
    from twinlog.monitoring.cycle_report import FlowReport

MOST_ROWS = 200
"""The most partitions that get a row of their own in a table for people."""

MasterOption = Annotated[
    str | None, option("--master URL", "Spark master, or sc://host:port. Default: the configured one.")
]


def run(
    *,
    config: options.ConfigOption,
    flow: options.FlowOption = None,
    once: Annotated[bool, option("--once", "One cycle of each flow, several at the same time.")] = False,
    duration: Annotated[
        str | None, option("--for TIME", "Follow the source for so long: 90s, 10m, 1h30m.")
    ] = None,
    follow: Annotated[
        bool, option("--follow", "Follow the source until SIGTERM or Ctrl-C, as --for without an end.")
    ] = False,
    clusters: Annotated[
        str, option("--clusters B,C", "Only flows whose target is one of these, as MM2's option.")
    ] = "",
    topics: options.TopicsOption = None,
    until: options.UntilOption = None,
    master: MasterOption = None,
) -> int:
    """Run a replication cycle here, or follow the source, without Airflow.

    Copies records, translates and commits the offsets of consumer groups, writes heartbeats, validates the copies and
    reports. Its duties: topic configs, ACLs and quotas are synced, what is new is audited when twinlog.audit.schedule
    says so, and an alarm goes to twinlog.alert.url. It runs no twinlog gate. If several follow one flow, one leads and
    the others stand by.

    Example: `twinlog run --once --flow 'A->B'`. Next: `twinlog status`.
    """
    seconds = _seconds(duration, once=once, follow=follow)
    if until and seconds:
        raise UsageError("--until bounds one cycle, it does not go with --for or --follow", "use --once")
    asked = Request(
        new_run_id(), options.parse_topics(topics), options.parse_moment(until) if until else None
    )
    configuration = read_configuration(config)
    flows = select_flows(configuration, flow)
    if clusters:
        flows = to_clusters(configuration, flows, clusters)
    asked = replace(asked, config=configuration.sha256)
    with WarmSpark() as spark:
        done = (
            follow_flows(flows, asked, spark, master, seconds)
            if seconds
            else run_once(flows, asked, spark, master)
        )
    observed = {flow_settings.name for flow_settings in flows if flow_settings.observed}
    show(
        {"flows": [flow_run.document for flow_run in done.results]},
        (g for flow_run in done.results for g in _grids(flow_run, observed=flow_run.flow in observed)),
    )
    for result in done.results:
        say_failures(result.failures, result.flow)
    return max([done.exit_code, *(flow_run.exit_code for flow_run in done.results)])


def _seconds(duration: str | None, *, once: bool, follow: bool) -> float:
    """Return how long to follow, 0 for one cycle.  Raises UsageError if not exactly one of the three is asked for."""
    if once and duration is not None:
        raise UsageError("--once is one cycle and --for follows: not both", "leave one of them out")
    if follow and (once or duration is not None):
        raise UsageError("--follow has no end, and goes with neither --once nor --for", "leave one out")
    if once:
        return 0
    if follow:
        return math.inf
    if duration is None:
        raise UsageError("run needs --once, --for or --follow", "such as: twinlog run --once")
    if not (seconds := options.parse_duration(duration)):
        raise UsageError(f"--for: {duration} is no time to follow", "--once runs one cycle")
    return seconds


def new_run_id() -> str:
    """Return the name of a run of this command that begins now."""
    return clock.new_run_name("cli")


def _by_partition(title: str, report: FlowReport, words: tuple[str, str]) -> Grid:
    """Show what was copied, or read, one row per partition."""
    done, left = words
    columns = (
        f"topic | to topic: remote_topic | partition | {done}: copied_records | last offset: last_upstream_offset"
        f" | {left}: lag_records | undecided: undecided_records"
    )
    return Grid.of(title, columns, parts(report.topics), "the flow replicates no topic yet")


def _by_topic(title: str, report: FlowReport, words: tuple[str, str]) -> Grid:
    """Show what was copied, or read, one row per topic."""
    done, left = words
    columns = (
        f"topic | to topic: remote_topic | partitions | {done}: copied | {left}: lag"
        " | undecided: undecided_records"
    )
    return Grid.of(
        title,
        columns,
        report.topics,
        partitions=lambda it: len(it.partitions),
        copied=lambda it: sum(part.copied_records for part in it.partitions),
        lag=lambda it: sum(part.lag_records for part in it.partitions),
    )


def _grids(run: FlowRun, *, observed: bool) -> Iterator[Grid]:
    """Show a flow; of one that is `observed`, the records of the copy that were read, and what has no copy yet."""
    columns = "duty: name | state | seconds | what: message"
    yield Grid.of(f"{run.flow}: duties", columns, run.duties)
    report = run.report
    if report is None:
        return
    # If a signal ended the lanes, only the records are known, from the map.
    size = f" and {report.bytes:,} bytes" if (report.bytes or not report.records) and not observed else ""
    words = ("read", "no copy yet") if observed else ("copied", "lag")
    read, left = (" of the copy read", "have no copy yet") if observed else ("", "to go")
    behind = "not known how many" if report.lag_records is None else f"{report.lag_records:,}"
    title = (
        f"{run.flow}: {run.state}, {report.records:,} records{read}{size}"
        f" in {report.seconds:,.1f} s, {behind} records {left}{_not_said(report)}"
    )
    partitions = sum(len(topic.partitions) for topic in report.topics)
    show_rows = _by_partition if partitions <= MOST_ROWS else _by_topic
    yield show_rows(title, report, words)
    columns = "topic | partition | from offset: first_offset | to offset: last_offset | cause"
    yield Grid.of(f"{run.flow}: gaps", columns, report.gaps)
    columns = "severity | check: name | found: observed | expected | what it means: message"
    yield Grid.of(f"{run.flow}: checks that did not pass", columns, run.failed_checks)


def _not_said(report: FlowReport) -> str:
    """Describe the records that are neither copied nor counted as still to go."""
    undecided = f", {report.undecided_records:,} undecided" if report.undecided_records else ""
    unseen = f", {report.unseen_partitions:,} partitions not seen" if report.unseen_partitions else ""
    return undecided + unseen


AT_ONCE = 8
"""The most cycles at the same time: they wait for brokers most of the time.  Their lanes wait for slots."""


def run_once(
    flows: Sequence[FlowSettings], asked: Request, spark: WarmSpark, master: str | None
) -> Done[FlowRun]:
    """Run one cycle of each flow; flows on different Spark masters one after the other, as there is one session.

    Ctrl-C kills the lanes and ends the cycles that have begun; what is committed counts.
    """
    from twinlog.cluster.api import open_clusters

    interrupted = threading.Event()

    def runner(flow: FlowSettings) -> LaneRunner:
        return Interruptible(spark.runner(master or flow.copy.spark_master), interrupted)

    def cycle(flow: FlowSettings) -> FlowRun:
        with open_clusters(flow) as clusters:
            looks = spark.looks(master) if flow.observed else None
            return run_cycle(flow, clusters, asked, lambda: runner(flow), on_progress, looks)

    def failed(flow: FlowSettings, failure: Failure) -> FlowRun:
        return FlowRun(flow.name, asked.run_id, error=failure)

    def interrupt() -> None:
        say("ending on Ctrl-C; what is committed counts")
        interrupted.set()
        spark.cancel()

    with shown() as on_progress:
        if len(flows) == 1 or len({master or flow.copy.spark_master for flow in flows}) > 1:
            try:
                return each_flow(flows, cycle, failed)
            except KeyboardInterrupt:
                interrupt()
                raise
        return flows_at_once(flows, cycle, failed, AT_ONCE, interrupt)


@dataclass(frozen=True, slots=True)
class Interruptible:
    """A runner whose lanes are not run again once `interrupted` is set: a copy would begin another round."""

    runner: LaneRunner
    interrupted: threading.Event

    @property
    def slots(self) -> int:
        """Return how many lanes can run at once."""
        return self.runner.slots

    def run(self, lanes: Sequence[LaneSpec]) -> tuple[LaneReport, ...]:
        """Run every lane to its end.  Raises KeyboardInterrupt in place of any error after an interruption."""
        if self.interrupted.is_set():
            raise KeyboardInterrupt
        try:
            return self.runner.run(lanes)
        except TransientError:
            if self.interrupted.is_set():
                raise KeyboardInterrupt from None
            raise

    def cancel(self, flow: str | None = None) -> None:
        """Kill all running lanes, or those of one flow, from another thread."""
        self.runner.cancel(flow)
