"""Follow mode: lanes stay open, and a record waits for no scheduler (docs/architecture.md).

    prepare      read both sides, create the topics and partitions that are missing
    generation   fence, resolve the ranges, assign them to lanes; one job for each lane
    refresh      every `twinlog.follow.seconds`, prepare again; if nothing has changed, the lanes just go on
    again        if something has changed: fence anew, which the lanes hear of (lane/copy/fence_watch.py), and
                 open another lane generation

All tasks but the copy run in the background, over connections of their own (follow/background.py), so they cannot
delay a record. After a lane generation with an indeterminate outcome another follows at once. After one that achieved
nothing, there is a pause first, which grows, because a cluster that is down comes back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import replace

from twinlog.checks.coverage import copied_from
from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.ranges import StoppedPartition, choose, unavailable
from twinlog.copying.result import CopyResult, result_of
from twinlog.copying.rounds import PAUSED, TASKS_DIED, LaneRunner, Rounds
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.follow.generation import Following, LaneGeneration
from twinlog.follow.report import RunState, prepare
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import LaneOutcome, LaneReport, RangeReport
from twinlog.monitoring import heartbeats
from twinlog.state.progress import SourceIncarnation, read_packed
from twinlog.topics.discovery import Discovery, ProblemCode
from twinlog.topics.snapshot import FlowSnapshot

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 10.0
"""Longest pause between lane generations that achieve nothing."""

MAX_DEATHS = 3
"""Lane generations in a row whose tasks died without a report, before Spark is taken to be gone for good."""


def run(
    flow: FlowSettings,
    clusters: Clusters,
    runner: LaneRunner,
    *,
    run_id: str,
    seconds: float,
    lanes: int | None = None,
    topics: Collection[str] | None = None,
    on_window: Callable[[LaneGeneration], None] = lambda window: None,
    on_look: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
    gives_way_to: Callable[[str], bool] = lambda run_id: False,
    run_state: RunState | None = None,
) -> CopyResult:
    """Follow the source for `seconds`, one lane generation after another, with at most `lanes` lanes (else slots).

    That limit holds also if twinlog.lanes says more: a lane never gives its slot back, so a lane without a slot would
    copy nothing.

    `on_window` is called with each lane generation whose lanes could report, `on_look` with a line after each topic
    refresh that changes nothing. `run_state` is kept up to date for reports on the run meanwhile (follow/report.py).
    Setting `stop` ends the run early, sooner if the runner's lanes are cancelled as well. Their open transactions are
    aborted at once. `lag_records` of the result counts what was not copied at the end.

    A driver for whose run id `gives_way_to` is true may take over; this run then ends in order. Records that a lane
    commits in the moment it dies are counted in neither run's result. Tasks that keep dying end the run with a failed
    result. Raises FencedError if any other twinlog takes the flow, and TerminalErrors. The run waits for clusters that
    cannot be reached.
    """
    began = time.monotonic()
    end = began + seconds
    if not_ready := heartbeats.make_ready(flow, clusters.source):
        on_look(f"{flow.name}: {not_ready}")
    prepared = prepare(flow, clusters, topics, run_id)
    stop = stop or threading.Event()
    share = lanes or runner.slots
    wanted = flow.copy.lanes or share
    if wanted > share:
        on_look(f"{flow.name}: {share} lanes instead of {wanted}: one that follows keeps its Spark slot")
    rounds = Rounds.begin(flow, clusters, runner, run_id, min(wanted, share))
    rounds.read_ahead()
    following = Following(
        flow, clusters, topics, rounds, prepared, end, stop, on_look, gives_way_to, run_state
    )
    pause = 0.0
    deaths = 0
    while True:
        length = min(end - time.monotonic(), flow.copy.follow_seconds)
        window = following.window()
        if window.taken is not None:
            on_window(window)
            successor = window.taken.data.get("run_id", "")
            if not gives_way_to(successor):
                raise window.taken
            return replace(_result(following, window, time.monotonic() - began), taken_over_by=successor)
        if stop.is_set():
            # Its lanes were ended, so their failure is no news. Records that they cannot report are counted by the
            # map.
            window = replace(window, failure=None)
            if not following.unreported:
                on_window(window)
            _count_unreported(following)
            return _result(following, window, time.monotonic() - began)
        on_window(window)
        deaths = deaths + 1 if _died(window) else 0
        if window.failure is not None and deaths == MAX_DEATHS:
            return _result(following, window, time.monotonic() - began)
        idle = not window.records and window.seconds < length / 2
        pause = min(max(FIRST_PAUSE_SECONDS, pause * 2), LONGEST_PAUSE_SECONDS) if idle else 0.0
        rest = max(pause, owed_seconds(window, flow.copy.bytes_per_second))
        if time.monotonic() + rest >= end:
            return _result(following, window, time.monotonic() - began)
        stop.wait(rest)


def owed_seconds(window: LaneGeneration, rate: int | None) -> float:
    """Return how long to send nothing: lanes that are fenced do not wait for the throttle. Pure."""
    return 0.0 if rate is None else max(0.0, window.bytes / rate - window.seconds)


def _count_unreported(following: Following) -> None:
    """Fence once more after lanes were ended, and count by the map what they committed but did not report.

    Without the fence, readers would wait for the time-out of the lanes' open transactions. If the flow is paused or
    the target cannot be reached, only what was reported is counted.
    """
    if not following.open_ranges:
        return
    try:
        grant = following.rounds.fence()
        if following.unreported:
            _count(following, grant)
    except FencedError:
        raise
    except TransientError:
        return
    except TerminalError as error:
        if error.code != PAUSED:
            raise


def _count(following: Following, grant: Grant) -> None:
    maps = read_packed(following.flow, following.clusters.target)
    for item in following.unreported:
        life = SourceIncarnation(item.topic, item.topic_id, item.partition)
        copied = copied_from(maps, life, item.start)
        reached = grant.progress.get(item.topic_partition, item.start - 1) + 1
        report = RangeReport(item.topic, item.remote_topic, item.partition, copied, 0, reached)
        following.rounds.tally.add(LaneReport(0, LaneOutcome.DONE, (report,)))


def _result(following: Following, last: LaneGeneration, seconds: float) -> CopyResult:
    """Return the result: what was copied in all lane generations, and what is left."""
    tally, rounds = following.rounds.tally, following.rounds
    read_committed = following.flow.copy.read_committed
    unread: tuple[StoppedPartition, ...] = ()
    try:
        discovery = FlowSnapshot(following.flow, following.clusters).discovery
        unread = _unread(following, discovery)
    except TransientError:
        # The result keeps what was copied if a cluster is lost; what is left is as of the last topic refresh.
        discovery = following.prepared.discovery
    there = {it.topic for it in discovery.topics}
    tally.forget_gone(there)
    tally.end_at({
        TopicPartition(topic.topic, it.partition): it.source.readable_end(read_committed=read_committed)
        for topic in discovery.topics
        for it in topic.partitions
    })
    # A topic that was just being deleted had no offsets to tell: that is no error.
    stopped = [it for it in last.stopped if it.topic in there or it.code != ProblemCode.PARTITION_UNAVAILABLE]
    told = {it.topic_partition for it in stopped}
    stopped += [it for it in unread if it.topic_partition not in told]
    return result_of(
        following.flow,
        rounds.run_id,
        discovery,
        tally,
        tuple(stopped),
        last.failure,
        following.number,
        rounds.lanes,
        seconds,
        following.prepared.refused,
    )


def _unread(following: Following, discovery: Discovery) -> tuple[StoppedPartition, ...]:
    """Return partitions for which it is unknown now whether all was copied: their lane may not have noticed yet."""
    return tuple(
        unavailable(following.flow, topic, number)
        for topic in choose(discovery, following.topics)
        for number in topic.unread
    )


def _died(window: LaneGeneration) -> bool:
    return not window.records and window.failure is not None and window.failure.code == TASKS_DIED
