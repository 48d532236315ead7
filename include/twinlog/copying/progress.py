"""Report how far the lanes of a copy are while they run, read from the progress they commit.

This works for any runner, on any Spark: the lanes' tasks answer only when they end, but what they commit is on the
target at once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import TwinlogError
from twinlog.formats.lane_counts import NO_COUNTS, LaneCounts, newest_of_lanes, parse_lane_counts
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import own_progress
from twinlog.lane.spec import LaneSpec, StateTopics
from twinlog.logs.log_reader import StateLog
from twinlog.protocol.brokers import Brokers

READ_SECONDS = 2.0
LINE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class LaneProgress:
    """Progress of one lane: upstream offsets done, of all it was given, and the bytes that it has committed."""

    lane: int
    partitions: int
    done: int
    total: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of all lanes of a round, `seconds` after it began.

    Offsets are an upper bound of records: markers and offset gaps are counted too.
    """

    flow: str
    seconds: float
    lanes: tuple[LaneProgress, ...]

    @property
    def done(self) -> int:
        """Upstream offsets copied in this round."""
        return sum(lane.done for lane in self.lanes)

    @property
    def total(self) -> int:
        """Upstream offsets this round is to copy."""
        return sum(lane.total for lane in self.lanes)

    @property
    def records_per_second(self) -> float:
        """Mean speed since the round began."""
        return self.done / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Mean speed since the round began; 0 before a lane has committed."""
        return sum(lane.bytes for lane in self.lanes) / self.seconds if self.seconds else 0.0

    @property
    def line(self) -> str:
        """The line for a log: all lanes together, and how far each of them is."""
        lanes = ", ".join(f"lane {lane.lane} {lane.done * 100 // max(lane.total, 1)}%" for lane in self.lanes)
        size = f", {self.bytes_per_second / 1e6:,.1f} MB/s" if self.bytes_per_second else ""
        return (
            f"{self.flow}: {self.done:,} records copied, {self.total - self.done:,} to go,"
            f" {self.records_per_second:,.0f} records/s{size} ({lanes})"
        )


class Lines:
    """Writes the progress of copies to a log, a line every LINE_SECONDS for each flow."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._last: dict[str, float] = {}

    def tell(self, progress: CopyProgress) -> None:
        """Write a line if it is time again."""
        began = time.monotonic() - progress.seconds
        if time.monotonic() - self._last.get(progress.flow, began) >= LINE_SECONDS:
            self._last[progress.flow] = time.monotonic()
            self._say(progress.line)


def progress_of(
    flow: str,
    specs: Sequence[LaneSpec],
    copied: Mapping[TopicPartition, int],
    counts: Mapping[int, LaneCounts],
    seconds: float,
) -> CopyProgress:
    """Compare the last copied upstream offset of each partition with the ranges of the lanes. Pure."""
    lanes = []
    for spec in specs:
        done = total = 0
        for item in spec.ranges:
            length = item.end - item.start
            here = min(max(copied.get(item.topic_partition, -1) + 1 - item.start, 0), length)
            done, total = done + here, total + length
        size = counts.get(spec.lane, NO_COUNTS).bytes
        lanes.append(LaneProgress(spec.lane, len(spec.ranges), done, total, size))
    return CopyProgress(flow, seconds, tuple(lanes))


@contextmanager
def watched(
    flow: FlowSettings,
    state: StateTopics,
    specs: Sequence[LaneSpec],
    tell: Callable[[CopyProgress], None] | None,
) -> Iterator[None]:
    """While the lanes run, call `tell` every READ_SECONDS, and once more when they have ended."""
    if tell is None:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(flow, state, specs, tell, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(
    flow: FlowSettings,
    state: StateTopics,
    specs: Sequence[LaneSpec],
    tell: Callable[[CopyProgress], None],
    over: threading.Event,
) -> None:
    log = StateLog(state.offsets_topic)
    began = time.monotonic()
    ended = False
    while not ended:
        ended = over.wait(READ_SECONDS)
        try:
            with Brokers(flow.target.connection) as target:
                seen = log.read(target)
        except TwinlogError:
            continue  # the lanes will report the error; progress is only for display
        told = filter(None, map(parse_lane_counts, seen.headers.values()))
        counts = newest_of_lanes(it for it in told if it.fence_ms == specs[0].fence_ms)
        copied = own_progress(seen.committed, state)
        tell(progress_of(flow.name, specs, copied, counts, time.monotonic() - began))
