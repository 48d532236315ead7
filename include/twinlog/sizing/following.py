"""Simulate follow mode: lanes that commit what has gathered, and brokers that write the markers.  Pure.

Time passes from event to event: the next lane that is ready copies what has arrived since it last looked, waits for its
answers, and for the markers, which the brokers write one after the other for all lanes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from twinlog.sizing.costs import Costs, LaneModel
from twinlog.sizing.load import Load, Rules

ROOM: Final = 0.8
"""The share of its time that a lane, or a broker's markers, may be busy: the rest is for uneven loads."""

TRANSACTIONS: Final = 150
"""Transactions of each lane that are simulated; the first half is the start and does not count."""

SIMULATED: Final = 64
"""Lanes that are simulated: of more, each stands for several, which are alike."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Tell what the simulated lanes did, per second.  `keeps_up`: no lane had more and more to copy."""

    lanes: int
    transactions_per_second: float
    interval_seconds: float
    touched_per_second: float
    markers_per_second: float
    lane_busy: float
    brokers_busy: float
    cpu_cores: float
    keeps_up: bool


def lanes_needed(load: Load, costs: Costs, rules: Rules) -> int:
    """Return the fewest lanes that commit what arrives at least every 0.36 s, with a fifth of their time to spare.

    At most one for each partition: then a lane would be late even so.
    """

    def keeps_up(lanes: int) -> bool:
        return LaneModel(load, lanes, costs, rules).busy(rules.backlog_seconds) <= ROOM

    return bisect_left(range(load.partitions), True, 1, key=keeps_up)


def brokers_busy(lane: LaneModel) -> float:
    """Return the share of their time that the target's brokers write markers, at the longest interval."""
    touched = lane.touched(lane.bytes_per_second * lane.rules.backlog_seconds)
    return lane.lanes * lane.marker_seconds(touched) / lane.rules.backlog_seconds


def follow(lane: LaneModel) -> Followed:
    """Simulate the lanes of a followed flow until each has committed some hundred transactions."""
    rate = lane.bytes_per_second
    if not rate:
        return Followed(lane.lanes, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, True)
    seen = _Simulation(lane, min(lane.lanes, SIMULATED))
    began = seen.run(TRANSACTIONS // 2)
    work, cpu, touched = seen.work, seen.cpu, seen.touched
    seconds = seen.run(TRANSACTIONS // 2) - began
    transactions = seen.lanes * (TRANSACTIONS // 2) / seconds
    touches = (seen.touched - touched) / seconds
    each = lane.lanes / seen.lanes
    markers = each * transactions * lane.markers(touches / transactions)
    return Followed(
        lanes=lane.lanes,
        transactions_per_second=each * transactions,
        interval_seconds=seen.lanes / transactions,
        touched_per_second=each * touches,
        markers_per_second=markers,
        lane_busy=min(1.0, (seen.work - work) / seconds / seen.lanes),
        brokers_busy=lane.brokers_seconds(markers),
        cpu_cores=each * (seen.cpu - cpu) / seconds,
        keeps_up=seen.latest() <= 2 * max(lane.rules.backlog_seconds, lane.load.batch_bytes / rate),
    )


class _Simulation:
    """Lanes at work.  `work`, `cpu` (seconds) and `touched` partitions add up from the start."""

    def __init__(self, lane: LaneModel, lanes: int) -> None:
        self._lane = lane
        self.lanes = lanes
        self._ready: list[tuple[float, int]] = [
            (lane.rules.tick_seconds * number / lanes, number) for number in range(lanes)
        ]
        self._copied: list[float] = [0.0] * lanes
        """the moment up to which each lane has copied what arrived"""
        self._brokers_free = 0.0
        self.work = self.cpu = self.touched = 0.0

    def run(self, transactions: int) -> float:
        """Let each lane commit so many times on average; return when the last of these began."""
        now = 0.0
        for _ in range(transactions * self.lanes):
            now = self._step()
        return now

    def latest(self) -> float:
        """Return how long the oldest records that wait have waited."""
        return max(when - self._copied[number] for when, number in self._ready)

    def _step(self) -> float:
        """Let the next lane that is ready copy what has arrived, at least a batch; return when."""
        lane, rate = self._lane, self._lane.bytes_per_second
        when, number = heapq.heappop(self._ready)
        when = max(when, self._copied[number] + lane.load.batch_bytes / rate)
        size = min((when - self._copied[number]) * rate, float(lane.rules.transaction_bytes))
        self._copied[number] += size / rate
        touched = max(1.0, lane.touched(size))
        work = lane.seconds(size, touched)
        markers = lane.marker_seconds(touched) * lane.lanes / self.lanes
        self._brokers_free = max(when + work, self._brokers_free) + markers
        heapq.heappush(self._ready, (max(when + lane.rules.tick_seconds, self._brokers_free), number))
        self.work += work
        self.cpu += lane.cpu_seconds(size, touched)
        self.touched += touched
        return when
