"""`twinlog run --follow` and `--for`: every flow followed at the same time, over one Spark session.

For each flow this process leads or stands by (twinlog.follow.leading); its session is open in both cases, so that it
can go on within seconds.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from twinlog import __version__
from twinlog.cli.flows import Done, each_flow
from twinlog.cli.render import say, warn
from twinlog.cli.replication.cycle import FlowRun, Request, conclude, duties_of, follow_failures, run_cycle
from twinlog.errors import FencedError, TransientError, TwinlogError, UsageError
from twinlog.spark.session import without_options

if TYPE_CHECKING:
    from twinlog.cluster.api import Clusters
    from twinlog.config.flow.settings import FlowSettings
    from twinlog.copying.copy import LaneRunner
    from twinlog.copying.result import CopyResult
    from twinlog.duties.run import Duties
    from twinlog.follow.leading import Leadership
    from twinlog.follow.report import LaneGeneration
    from twinlog.lane.spec import LaneReport, LaneSpec
    from twinlog.monitoring.cycle_report import FlowReport
    from twinlog.monitoring.exporter import Board
    from twinlog.observe.lane import ObserveRunner
    from twinlog.spark.runner import SparkRunner


BY_HAND_SECONDS = 5.0
"""How long a person's command has the flow to itself; it needs one or two."""


class WarmSpark:
    """At most one open session: a second master in one process would silently get the first one's session."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._master: str | None = None
        self._runner: SparkRunner[LaneSpec, LaneReport] | None = None
        self._opening = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def looks(self, master: str | None) -> ObserveRunner:
        """Return what reads copies of another engine: on `master`, or in this process if none is named."""
        from twinlog.observe.lane import LocalObserveRunner

        return LocalObserveRunner() if master is None else self.runner(master).looks()

    def runner(
        self, master: str, *, warmed: bool = False, wanted: int | None = None
    ) -> SparkRunner[LaneSpec, LaneReport]:
        """Return a runner on `master`; if that is `auto`, on the warm server of `machine spark start` if any.

        If `warmed`, Spark has run a first job before it is returned: a process that stands by shall not pay for it
        when it leads.  A new session takes no more of a standalone master than the slots that are `wanted`.

        Raises UsageError if `master` is not one, TransientError if no session can be opened there.
        """
        with self._opening:
            if self._runner is None or master != self._master:
                from twinlog.spark.runner import open_runner
                from twinlog.spark.server import choose

                self._open.close()
                choice = choose(master)
                say(choice.line or f"opening a Spark session on {without_options(choice.master)}")
                runner = self._open.enter_context(open_runner(choice.master, wanted=wanted))
                if warmed:
                    runner.warm()
                self._runner, self._master = runner, master
            return self._runner

    def cancel(self) -> None:
        """Kill the running lanes, from any thread."""
        if self._runner is not None:
            self._runner.cancel()


def follow_flows(
    flows: Sequence[FlowSettings], asked: Request, spark: WarmSpark, master: str | None, seconds: float
) -> Done[FlowRun]:
    """Follow `flows` for `seconds`; each gets its share of the session's slots.

    The copies of another engine are looked at every `twinlog.follow.seconds`, without a lane.

    Ctrl-C and SIGTERM end it early and in order: committed records count, and are reported.  Raises UsageError if
    there are more flows than slots, or more than one Spark master.
    """
    from twinlog.spark.server import alone

    copying = [flow for flow in flows if not flow.observed]
    masters = sorted({alone(master or flow.copy.spark_master) for flow in copying})
    if len(masters) > 1:
        raise UsageError(
            f"the flows have different Spark masters ({', '.join(map(without_options, masters))})",
            "choose one with --master, or flows with --flow",
        )
    looks = spark.looks(master) if len(copying) < len(flows) else None
    most = [flow.copy.lanes for flow in copying]
    wanted = None if None in most else sum(filter(None, most))  # as many as there are slots
    runner = spark.runner(masters[0], warmed=True, wanted=wanted) if copying else None
    if runner is not None and (slots := runner.slots) < len(copying):
        more = (
            f"use --master 'local[{2 * len(copying)}]'"
            if masters[0].startswith("local")
            else "give Spark more"
        )
        raise UsageError(
            f"{len(copying)} flows cannot be followed with {slots} Spark slots: each needs one at least",
            f"{more}, or choose flows with --flow",
        )
    from twinlog.follow.leading import Leadership
    from twinlog.monitoring.exporter import Board, Endpoints
    from twinlog.state.seats import Member

    boards = {flow.name: Board(flow) for flow in flows}
    leaving = threading.Event()
    this = Member(asked.run_id, socket.gethostname(), os.getpid(), __version__, asked.config)
    parts = {flow.name: Leadership(flow, this, say, leaving) for flow in copying}

    def work(flow: FlowSettings) -> FlowRun:
        board = boards[flow.name]
        if runner is None or flow.observed:
            return _looked(flow, asked, looks, seconds, leaving, board)
        return _followed(flow, asked, runner, len(copying), seconds, parts[flow.name], board)

    def failed(flow: FlowSettings, failure: object) -> FlowRun:
        return FlowRun(flow.name, asked.run_id, error=failure)  # type: ignore[arg-type]

    shown = Endpoints(boards.values(), warn)
    with ThreadPoolExecutor(len(flows)) as pool, _ended_by_signals(leaving), shown:
        futures = {flow.name: pool.submit(each_flow, [flow], work, failed) for flow in flows}
        cancelled = False
        while not all(future.done() for future in futures.values()):
            shown.attend()
            time.sleep(0.1)
            if leaving.is_set() and not cancelled:
                cancelled = all(
                    futures[name].done() or part.ready_to_stop.is_set() for name, part in parts.items()
                )
                if cancelled:
                    spark.cancel()
    return Done.of(future.result() for future in futures.values())


def _looked(
    flow: FlowSettings,
    asked: Request,
    looks: ObserveRunner | None,
    seconds: float,
    leaving: threading.Event,
    board: Board,
) -> FlowRun:
    """Run cycles of a flow that another engine copies, the last one when the time is over; report that one.

    A cycle that a cluster keeps from its end is said, and the next one tries again.
    """
    from twinlog.cluster.api import open_clusters

    until, number = time.monotonic() + seconds, 0
    with open_clusters(flow) as clusters:
        while True:
            number += 1
            last = time.monotonic() >= until or leaving.is_set()
            try:
                looked = replace(asked, run_id=f"{asked.run_id}.{number}")
                done = run_cycle(flow, clusters, looked, looks=looks, board=board)
                if last:
                    return replace(done, windows=number)
            except TransientError as error:
                if last:
                    raise
                warn(f"{flow.name}: {error}")
            leaving.wait(min(flow.copy.follow_seconds, max(0.0, until - time.monotonic())))


def _followed(
    flow: FlowSettings,
    asked: Request,
    runner: LaneRunner,
    sharers: int,
    seconds: float,
    part: Leadership,
    board: Board,
) -> FlowRun:
    """Lead the flow for `seconds`, whenever no other process does; report the last time that this one led."""
    from twinlog.cluster.api import open_clusters
    from twinlog.follow.report import prepare
    from twinlog.monitoring.metrics import LEADS
    from twinlog.topics.snapshot import FlowSnapshot

    with open_clusters(flow) as clusters:
        if clusters.target.describe_topics([flow.offsets_topic]).refused:
            prepare(flow, clusters, asked.topics, asked.run_id)  # the seats are offsets of a topic
        described = clusters.target.describe_topics([flow.offsets_topic]).require()
        places = len(described[flow.offsets_topic].partitions)
        led = FlowRun(flow.name, asked.run_id, stood_by=True)
        duties = duties_of(flow, asked.run_id)
        # What leading loads and asks first is loaded and asked before, or a killed leader would cost a second more.
        from twinlog.follow import background, follow  # noqa: F401

        _ = FlowSnapshot(flow, clusters).discovery
        board.tell("leads", [LEADS.of(0)], math.inf)
        until = time.monotonic() + seconds
        while part.stand_by(clusters, places, until):
            board.tell("leads", [LEADS.of(1)], math.inf)
            copied, started_ms = _lead(flow, clusters, asked, runner, sharers, until, part, duties, board)
            gone_on = bool(copied.taken_over_by)
            if gone_on and not part.leaving.is_set():
                if by_hand(copied):
                    continue
                if not part.handed_on(clusters):
                    raise FencedError(
                        f"another twinlog took over flow {flow.name} (run {copied.taken_over_by})",
                        "let one of them run; what this one committed counts, nothing else was written",
                        flow=flow.name,
                        run_id=copied.taken_over_by,
                    )
                say(f"{flow.name}: run {copied.taken_over_by} leads now")
                led = FlowRun(flow.name, asked.run_id, stood_by=True)
                board.clear()
                board.tell("leads", [LEADS.of(0)], math.inf)
                continue
            failures = follow_failures(copied)
            done = conclude(flow, clusters, asked, copied, failures, started_ms, board, copied.rounds)
            return replace(done, duties=duties.rows)
        return led


def _lead(
    flow: FlowSettings,
    clusters: Clusters,
    asked: Request,
    runner: LaneRunner,
    sharers: int,
    until: float,
    part: Leadership,
    duties: Duties,
    board: Board,
) -> tuple[CopyResult, int]:
    """Follow the flow as its leader; return what was copied, and when that began (epoch ms)."""
    from twinlog.duties.plan import DutyState
    from twinlog.follow import follow
    from twinlog.follow.background import HEAD_START_SECONDS, beside, turns
    from twinlog.follow.report import RunState
    from twinlog.monitoring.samples import of_duties

    def say_trouble(step: str, error: TwinlogError) -> None:
        warn(f"{flow.name}: {step}: {error.message}")

    def on_generation(generation: LaneGeneration) -> None:
        say(generation.line)

    started_ms = round(time.time() * 1000)
    run_state = RunState(asked.run_id, started_ms)
    duties.begin()

    def on_report(report: FlowReport) -> None:
        duties.note(report)
        failed = {duty.name: duty.state is DutyState.FAILED for duty in duties.done.values()}
        board.tell("duties", of_duties(failed))

    listed = turns(flow, run_state, on_report, board)
    with beside(flow, listed, say_trouble, head_start=HEAD_START_SECONDS, duties=duties), part:
        copied = follow.run(
            flow,
            clusters,
            runner,
            run_id=f"{asked.run_id}.{part.led}",
            seconds=until - time.monotonic(),
            sharers=sharers,
            topics=asked.topics,
            on_generation=on_generation,
            on_refresh=say,
            stop=part.ready_to_stop,
            gives_way_to=lambda rival: True,
            run_state=run_state,
        )
        if by_hand(copied):
            say(
                f"{flow.name}: run {copied.taken_over_by} alters the flow; goes on in {BY_HAND_SECONDS:.0f} s"
            )
            part.leaving.wait(BY_HAND_SECONDS)
    return copied, started_ms


def by_hand(copied: CopyResult) -> bool:
    """Say whether a person's command took the flow for a moment, which no process copies now."""
    from twinlog.copying.ownership import BY_HAND

    return BY_HAND.fullmatch(copied.taken_over_by) is not None


@contextmanager
def _ended_by_signals(leaving: threading.Event) -> Iterator[None]:
    """Let SIGINT and SIGTERM end the lanes, and let everything else finish, while the context lasts."""

    def end(number: int, frame: object) -> None:
        say(f"ending on {signal.Signals(number).name}; what is committed counts")
        leaving.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
