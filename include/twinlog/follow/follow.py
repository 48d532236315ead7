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

from twinlog import clock
from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import TASKS_DIED, LaneRunner
from twinlog.copying.mirror_maker import require_taken_over
from twinlog.copying.ownership import PAUSED, Ownership
from twinlog.copying.ranges import StoppedPartition, choose, unavailable
from twinlog.copying.result import CopyResult, result_of
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.follow.followed import Followed
from twinlog.follow.generation import Following
from twinlog.follow.hold import Hold
from twinlog.follow.report import LaneGeneration, RunState
from twinlog.follow.topics import Topics
from twinlog.monitoring import heartbeats
from twinlog.topics.discovery import ProblemCode
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
    sharers: int = 1,
    topics: Collection[str] | None = None,
    on_generation: Callable[[LaneGeneration], None] = lambda generation: None,
    on_refresh: Callable[[str], None] = lambda line: None,
    stop: threading.Event | None = None,
    gives_way_to: Callable[[str], bool] = lambda run_id: False,
    run_state: RunState | None = None,
) -> CopyResult:
    """Follow the source for `seconds`, one lane generation after another, with a lane for each slot at most.

    The seconds count from the moment the first lanes open, or from the beginning if none can be opened.

    `sharers` flows are followed over the runner, and this one has its part of the slots.  They are counted again for
    each lane generation.

    `on_generation` is called with each lane generation whose lanes could report, `on_refresh` with a line after each
    topic refresh that changes nothing. `run_state` is kept up to date for reports on the run meanwhile
    (follow/report.py). Setting `stop` ends the run early, sooner if the runner's lanes are cancelled as well. Their
    open transactions are aborted at once. `lag_records` of the result counts what was not copied at the end.

    A driver for whose run id `gives_way_to` is true may take over; this run then ends in order. Records that a lane
    commits in the moment it dies are counted in neither run's result. Tasks that keep dying end the run with a failed
    result. Raises FencedError if any other twinlog takes the flow, and TerminalErrors. The run waits for clusters that
    cannot be reached.
    """
    began = time.monotonic()
    if not_ready := heartbeats.make_ready(flow, clusters.source):
        on_refresh(f"{flow.name}: {not_ready}")
    stop = stop or threading.Event()
    run_state = run_state or RunState(run_id, clock.now_ms())
    followed = Followed(flow, clusters, runner, stop, on_refresh, run_state, sharers)
    seen = Topics.read(followed, topics, run_id)
    lanes = followed.most_lanes
    if flow.copy.lanes and flow.copy.lanes > lanes:
        followed.tell(f"{lanes} lanes instead of {flow.copy.lanes}: one that follows keeps its Spark slot")
    require_taken_over(flow, clusters, seen.prepared.discovery)
    owned = Ownership.of(flow, clusters, run_id, lanes)
    owned.read_ahead()
    end = began + seconds  # if no lanes can be opened
    following = Following(followed, seen, Hold(owned, gives_way_to), end, seconds)
    pause = 0.0
    deaths = 0
    while True:
        length = min(following.end - time.monotonic(), flow.copy.follow_seconds)
        generation = following.run_lanes()
        if generation.taken is not None:
            on_generation(generation)
            successor = generation.taken.data.get("run_id", "")
            if not gives_way_to(successor):
                raise generation.taken
            return replace(_result(following, generation, time.monotonic() - began), taken_over_by=successor)
        if stop.is_set():
            # Its lanes were ended, so their failure is no news. What they cannot report is counted by progress.
            generation = replace(generation, failure=None)
            if not following.tally.unreported:
                on_generation(generation)
            _count_unreported(following)
            return _result(following, generation, time.monotonic() - began)
        on_generation(generation)
        failure = generation.failure
        died = failure is not None and failure.code == TASKS_DIED and not generation.records
        deaths = deaths + 1 if died else 0
        if failure is not None and deaths == MAX_DEATHS:
            return _result(following, generation, time.monotonic() - began)
        idle = not generation.records and generation.seconds < length / 2
        pause = min(max(FIRST_PAUSE_SECONDS, pause * 2), LONGEST_PAUSE_SECONDS) if idle else 0.0
        rest = max(pause, owed_seconds(generation, flow.copy.bytes_per_second))
        if time.monotonic() + rest >= following.end:
            return _result(following, generation, time.monotonic() - began)
        stop.wait(rest)


def owed_seconds(generation: LaneGeneration, rate: int | None) -> float:
    """Return how long to send nothing: lanes that are fenced do not wait for the throttle. Pure."""
    return 0.0 if rate is None else max(0.0, generation.bytes / rate - generation.seconds)


def _count_unreported(following: Following) -> None:
    """Fence once more after lanes were ended, and count what they committed but did not report.

    Without the fence, readers would wait for the time-out of the lanes' open transactions. If the flow is paused or
    the target cannot be reached, only what was reported is counted.
    """
    if not (following.ranges or following.tally.unreported):
        return
    try:
        following.owned.take()
        following.tally.count_unreported(following.owned, following.followed.clusters)
    except FencedError:
        raise
    except TransientError:
        return
    except TerminalError as error:
        if error.code != PAUSED:
            raise


def _result(following: Following, last: LaneGeneration, seconds: float) -> CopyResult:
    """Return the result: what was copied in all lane generations, and what is left.

    A topic refresh that failed is repeated if nothing else went wrong: the cluster may have come back meanwhile.
    """
    totals, owned, topics = following.tally.totals, following.owned, following.topics
    flow, clusters = following.followed.flow, following.followed.clusters
    failure = last.failure
    if failure is not None and failure is topics.failure:
        failure = topics.refresh()
    read_committed = flow.copy.read_committed
    unread: list[StoppedPartition] = []
    try:
        discovery = FlowSnapshot(flow, clusters).discovery
        # Whether all of these was copied is not known now: their lane may not have noticed yet.
        unread = [
            unavailable(flow, topic, number)
            for topic in choose(discovery, topics.chosen)
            for number in topic.unread
        ]
    except TransientError:
        # The result keeps what was copied if a cluster is lost; what is left is as of the last topic refresh.
        discovery = topics.prepared.discovery
    there = {topic.topic for topic in discovery.topics}
    totals.forget_gone(there)
    totals.end_at({
        topic.at_source(partition.partition): partition.source.readable_end(read_committed=read_committed)
        for topic in discovery.topics
        for partition in topic.partitions
    })
    # A topic that was just being deleted had no offsets to tell: that is no error.
    stopped = [
        partition
        for partition in last.stopped
        if partition.topic in there or partition.code != ProblemCode.PARTITION_UNAVAILABLE
    ]
    told = {partition.topic_partition for partition in stopped}
    stopped += [partition for partition in unread if partition.topic_partition not in told]
    return result_of(
        flow,
        owned.run_id,
        discovery,
        totals,
        tuple(stopped),
        failure,
        following.number,
        owned.lanes,
        seconds,
        topics.prepared.refused,
    )
