"""Simulate scheduled cycles: each copies what has arrived since the last one began.  Pure."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

from twinlog.sizing.costs import Costs, LaneModel
from twinlog.sizing.load import MOST_SECONDS, Load, Rules

CYCLES: Final = 60
"""Cycles that are simulated."""

SETTLED: Final = 1.001
"""A cycle that takes this many times as long as the one before is not about to settle."""


@dataclass(frozen=True, slots=True)
class Cycled:
    """Tell what the last simulated cycle did.  `seconds` is a cycle from its begin to its end, `copy_seconds` its copy.

    `on_time`: it ended before the next was due.  `keeps_up`: cycles did not get longer and longer.
    """

    lanes: int
    seconds: float
    copy_seconds: float
    every_seconds: float
    transactions_per_second: float
    touched_per_second: float
    markers_per_second: float
    lane_busy: float
    brokers_busy: float
    cpu_cores: float
    on_time: bool
    keeps_up: bool


@dataclass(frozen=True, slots=True)
class _Copy:
    """One copy: its lanes, and what one of them did."""

    lanes: int
    seconds: float
    cpu_seconds: float
    transactions: float
    touched: float


def cycle(load: Load, most: int, costs: Costs, rules: Rules) -> Cycled:
    """Simulate cycles with at most `most` lanes, the first after a whole interval."""
    fixed = (costs.cycle.value + costs.cycle_partition.value * load.partitions) / 1000
    waited = load.every_seconds
    took = before = 0.0
    done = _copy(load, 0.0, most, costs, rules)
    for _ in range(CYCLES):
        done = _copy(load, load.bytes_per_second * waited, most, costs, rules)
        before, took = took, fixed + done.seconds
        waited = max(load.every_seconds, took)
        if took == before or waited > MOST_SECONDS:
            break
    lane = LaneModel(load, done.lanes, costs, rules)
    touched = done.lanes * done.touched
    transactions = done.lanes * done.transactions
    markers = transactions * lane.markers(touched / transactions) if transactions else 0.0
    cpu = done.lanes * done.cpu_seconds + load.partitions * costs.cycle_partition_cpu.value / 1000
    return Cycled(
        lanes=done.lanes,
        seconds=took,
        copy_seconds=done.seconds,
        every_seconds=waited,
        transactions_per_second=transactions / waited,
        touched_per_second=touched / waited,
        markers_per_second=markers / waited,
        lane_busy=done.seconds / waited,
        brokers_busy=lane.brokers_seconds(markers) / waited,
        cpu_cores=cpu / waited,
        on_time=took <= load.every_seconds,
        keeps_up=took <= load.every_seconds or took <= before * SETTLED,
    )


def slots_needed(load: Load, costs: Costs, rules: Rules) -> int:
    """Return the fewest slots with which a cycle ends before the next is due.

    If no number is enough, return as many as twinlog would use.
    """
    most = cycle(load, load.partitions, costs, rules)
    if not most.on_time:
        return most.lanes
    return bisect_left(
        range(load.partitions), True, 1, key=lambda slots: cycle(load, slots, costs, rules).on_time
    )


def _copy(load: Load, size: float, most: int, costs: Costs, rules: Rules) -> _Copy:
    """Copy so many bytes that wait in all partitions: the lane that has most decides how long that takes."""
    if not size:
        return _Copy(1, 0.0, 0.0, 0.0, 0.0)
    lanes = min(most, load.partitions, 1 + int(size) // rules.lane_bytes)
    lane = LaneModel(load, lanes, costs, rules)
    own = size * lane.partitions / load.partitions
    transactions = math.ceil(own / rules.transaction_bytes)
    # A fetch brings up to 4 MiB of a partition: a large backlog of one takes several transactions.
    touches = max(transactions, lane.touched(own), own / rules.partition_fetch_bytes)
    each, touched = own / transactions, touches / transactions
    seconds = lane.seconds(each, touched) + lanes * lane.marker_seconds(touched)
    return _Copy(
        lanes=lanes,
        seconds=costs.job.value / 1000 + transactions * seconds,
        cpu_seconds=transactions * lane.cpu_seconds(each, touched),
        transactions=transactions,
        touched=touches,
    )
