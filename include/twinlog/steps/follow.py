"""Follow mode: lanes stay open, and a record waits for no scheduler (design.md section 8).

    prepare   see both sides, make the topics and partitions that are missing: beside the window before
    window    fence, settle, pack; one task a lane, for `twinlog.follow.seconds`
    again     until the time is over

Everything but the copy is done beside it, over connections of its own (steps/beside.py): it cannot hold a record
up.  A window that ends in doubt is followed by another at once; one that achieved nothing after a pause, which
grows, because a cluster that is down comes back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace

from twinlog.cluster.clusters import Clusters
from twinlog.cluster.progress import SourceLife, all_runs, read_pieces
from twinlog.cluster.values import PartitionOffsets, TopicPartition
from twinlog.config.settings import FlowSettings
from twinlog.errors import TerminalError, TransientError
from twinlog.relay.spec import Follow, LaneReport, LaneSpec, RangeReport, RangeSpec
from twinlog.steps import discover, sync_topics
from twinlog.steps.copy_result import CopyResult, Tally, result_of
from twinlog.steps.copy_round import PAUSED, TASKS_DIED, LaneRunner, Rounds, lane_specs
from twinlog.steps.discovery import DiscoveredTopic, Discovery
from twinlog.steps.plan_ranges import StoppedPartition, choose, max_bytes, pack
from twinlog.steps.settling import settle_now
from twinlog.steps.two_way import with_echoes

PREPARE_SECONDS = 3.0
"""How long before the end of a window the next one is prepared."""

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 10.0
"""Between windows that achieve nothing."""

MAX_DEATHS = 3
"""Windows in a row whose tasks died without a report before Spark is taken to be gone for good."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a window needs to know of the clusters: the topics to follow, and how large their records may be."""

    discovery: Discovery
    topics: tuple[DiscoveredTopic, ...]
    max_bytes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Window:
    """One window, for people who watch: what it copied, what it could not, and why it ended early."""

    flow: str
    number: int
    partitions: int
    records: int
    bytes: int
    seconds: float
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None

    @property
    def line(self) -> str:
        """What a log says of it."""
        ended = f"; {self.failure}" if self.failure is not None else ""
        stopped = f"; {len(self.stopped)} partitions stopped" if self.stopped else ""
        return (
            f"{self.flow}: window {self.number}: {self.records:,} records, {self.bytes:,} bytes"
            f" of {self.partitions:,} partitions in {self.seconds:,.1f} s{stopped}{ended}"
        )


def run(
    flow: FlowSettings,
    clusters: Clusters,
    runner: LaneRunner,
    *,
    run_id: str,
    seconds: float,
    lanes: int | None = None,
    topics: Collection[str] | None = None,
    on_window: Callable[[Window], None] = lambda window: None,
    stop: threading.Event | None = None,
) -> CopyResult:
    """Follow the source for `seconds`, window after window, with `lanes` lanes (as many as slots if not said).

    Setting `stop` (and cancelling the runner's lanes) ends it early; what the lanes had open is aborted at once.
    `lag_records` of the result counts what was not copied at the end.  Raises FencedError when another twinlog
    runs the flow, TerminalErrors, and the failure of tasks that keep dying; clusters out of reach are waited for.
    """
    began = time.monotonic()
    end = began + seconds
    prepared = prepare(flow, clusters, topics, run_id)
    following = _Following(
        flow, clusters, topics, Rounds.begin(flow, clusters, runner, run_id, lanes), prepared
    )
    pause = 0.0
    deaths = 0
    while True:
        left = end - time.monotonic()
        length = min(left, flow.copy.follow_seconds)
        window = following.window(length)
        on_window(window)
        deaths = deaths + 1 if _died(window) else 0
        if window.failure is not None and deaths == MAX_DEATHS:
            raise window.failure
        idle = not window.records and window.seconds < length / 2
        pause = min(max(FIRST_PAUSE_SECONDS, pause * 2), LONGEST_PAUSE_SECONDS) if idle else 0.0
        if stop is not None and stop.is_set():
            following.count_unreported(window)
            return following.result(replace(window, failure=None), time.monotonic() - began)
        if time.monotonic() + pause >= end:
            return following.result(window, time.monotonic() - began)
        time.sleep(pause)


def prepare(flow: FlowSettings, clusters: Clusters, topics: Collection[str] | None, run_id: str) -> Prepared:
    """Make what is missing on the target, and see both sides.  Raises as the steps sync_topics and discover."""
    sync_topics.run(flow, clusters, run_id=run_id)
    discovery = discover.run(flow, clusters)
    chosen = choose(discovery, topics)
    return Prepared(discovery, chosen, max_bytes(clusters.target, chosen))


@dataclass(slots=True)
class _Following:
    """One flow being followed.

    `open_ranges` are those of the newest window.  `copied` are the bytes of each partition up to its end, `last`
    those of that window alone.
    """

    flow: FlowSettings
    clusters: Clusters
    topics: Collection[str] | None
    rounds: Rounds
    prepared: Prepared
    number: int = 0
    open_ranges: tuple[RangeSpec, ...] = ()
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, int] = field(default_factory=dict)

    def window(self, seconds: float) -> Window:
        """Open the lanes for `seconds`; prepare the next window meanwhile."""
        self.number += 1
        began = time.monotonic()
        records, size = _totals(self.rounds.tally)
        specs: Sequence[LaneSpec] = ()
        stopped: tuple[StoppedPartition, ...] = ()
        try:
            if self.prepared.discovery.stands_by:  # paused: look again, after a pause, whether it still is
                failure = self._prepare()
            else:
                specs, stopped = self._open(seconds)
                failure = self._run(specs, began + seconds)
        except TransientError as error:
            failure = error
        except TerminalError as error:
            if error.code != PAUSED:
                raise
            failure = self._prepare()
        self._weigh()
        now_records, now_size = _totals(self.rounds.tally)
        return Window(
            flow=self.flow.name,
            number=self.number,
            partitions=sum(len(spec.ranges) for spec in specs),
            records=now_records - records,
            bytes=now_size - size,
            seconds=time.monotonic() - began,
            stopped=stopped,
            failure=failure,
        )

    def count_unreported(self, window: Window) -> None:
        """Fence once more after lanes were cancelled, and count by the map what they committed but did not report.

        Without the fence, readers would wait for the time-out of what the lanes had open.
        """
        grant = self.rounds.fence()
        if window.failure is None or window.failure.code != TASKS_DIED:
            return
        pieces = read_pieces(self.flow, self.clusters.target)
        for item in self.open_ranges:
            life = SourceLife(item.topic, item.topic_id, item.partition)
            copied = sum(
                max(0, run.upstream_end - max(run.upstream, item.start))
                for run in all_runs(pieces.get(life, ()))
            )
            reached = grant.progress.get((item.topic, item.partition), item.start - 1) + 1
            report = RangeReport(item.topic, item.remote_topic, item.partition, copied, 0, reached, -1)
            self.rounds.tally.add(LaneReport(0, "done", (report,)))

    def result(self, last: Window, seconds: float) -> CopyResult:
        """Say what was copied in all windows, and what is left."""
        tally, rounds = self.rounds.tally, self.rounds
        discovery = discover.run(self.flow, self.clusters)
        for topic in discovery.topics:
            for item in topic.partitions:
                read = item.source.stable_end if self.flow.copy.read_committed else item.source.end
                tally.ends[topic.topic, item.partition] = read
        return result_of(
            self.flow,
            rounds.run_id,
            discovery,
            tally,
            last.stopped,
            last.failure,
            self.number,
            rounds.lanes,
            seconds,
        )

    def _open(self, seconds: float) -> tuple[Sequence[LaneSpec], tuple[StoppedPartition, ...]]:
        """Fence, and give every partition that can be followed to a lane, the busiest of the last window first."""
        grant = self.rounds.fence()
        progress = {TopicPartition(*key): last for key, last in grant.progress.items()}
        settled = settle_now(
            self.flow, self.clusters, self._seen_now(), progress, {}, self.prepared.max_bytes, follow=True
        )
        self.open_ranges = settled.ranges
        self.rounds.tally.settle(settled.ranges)
        ranges = with_echoes(self.flow, self.clusters.source, settled.ranges)
        packed = pack([self._weighed(item) for item in ranges], self.rounds.lanes)
        specs = lane_specs(self.flow, self.rounds.state, grant, packed, Follow(seconds))
        return specs, settled.stopped

    def _seen_now(self) -> tuple[DiscoveredTopic, ...]:
        """Where the source's logs begin and end behind the fence.

        What was prepared is older than what the last window copied, and progress beyond the end of a log would
        look like a truncated log.
        """
        names = [
            TopicPartition(topic.topic, it.partition)
            for topic in self.prepared.topics
            for it in topic.partitions
        ]
        return with_offsets(self.prepared.topics, self.clusters.source.offsets(names).found)

    def _run(self, specs: Sequence[LaneSpec], end: float) -> TransientError | None:
        """Run the lanes, and shortly before they end see what the next window will follow."""
        with ThreadPoolExecutor(1) as pool:
            lanes: Future[TransientError | None] | None = (
                pool.submit(self.rounds.run, specs) if specs else None
            )
            early = end - PREPARE_SECONDS - time.monotonic()
            if lanes is not None:
                wait_for([lanes], timeout=max(0.0, early))
            unprepared = self._prepare()
            # The lanes' answer comes first: it may say that another driver has taken the flow over.
            return (lanes.result() if lanes is not None else None) or unprepared

    def _prepare(self) -> TransientError | None:
        try:
            self.prepared = prepare(self.flow, self.clusters, self.topics, self.rounds.run_id)
        except TransientError as error:
            return error
        return None

    def _weighed(self, item: RangeSpec) -> RangeSpec:
        return replace(item, estimated_bytes=1 + self.last.get(TopicPartition(item.topic, item.partition), 0))

    def _weigh(self) -> None:
        """Note how much each partition had in this window, for the packing of the next."""
        total = {TopicPartition(*key): report.bytes for key, report in self.rounds.tally.ranges.items()}
        self.last = {item: size - self.copied.get(item, 0) for item, size in total.items()}
        self.copied = total


def with_offsets(
    topics: Iterable[DiscoveredTopic], offsets: Mapping[TopicPartition, PartitionOffsets]
) -> tuple[DiscoveredTopic, ...]:
    """Put newer source offsets into discovered topics; partitions without any are left out.  Pure."""
    return tuple(
        replace(
            topic,
            partitions=tuple(
                replace(it, source=offsets[TopicPartition(topic.topic, it.partition)])
                for it in topic.partitions
                if TopicPartition(topic.topic, it.partition) in offsets
            ),
        )
        for topic in topics
    )


def _died(window: Window) -> bool:
    return not window.records and window.failure is not None and window.failure.code == TASKS_DIED


def _totals(tally: Tally) -> tuple[int, int]:
    return sum(it.records for it in tally.ranges.values()), sum(it.bytes for it in tally.ranges.values())
