"""Say what work costs, as it was measured, and so what one transaction of a lane costs.  Pure.

Each figure has its unit and the measurement that it comes from.

All figures are of one machine of two cores that ran both brokers, too, so they are what a lane does at least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise

from twinlog.sizing.load import Load, Rules


@dataclass(frozen=True, slots=True)
class Cost:
    """One measured figure.  `source` names a file of docs/performance, or the page that explains the figure."""

    value: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A cost that depends on the bytes of a batch: measured points, smallest batch first."""

    points: tuple[tuple[int, float], ...]
    unit: str
    source: str

    def at(self, batch_bytes: float) -> float:
        """Return the cost at a size of batches: on a line between two points over the logarithm of the size.

        Smaller and larger batches than those that were measured cost what the nearest point costs.
        """
        for (low, before), (high, after) in pairwise(self.points):
            if batch_bytes <= high:
                share = math.log(max(batch_bytes, low) / low) / math.log(high / low)
                return before + share * (after - before)
        return self.points[-1][1]


@dataclass(frozen=True, slots=True)
class Costs:
    """Everything that the model is fed with."""

    lane: Curve
    """time of a lane for a MB, sending and the brokers' share of the machine included"""
    lane_cpu: Curve
    """CPU time of a lane's Python worker for a MB"""
    commit: Cost
    """round trips of a transaction: adding partitions, state records, EndTxn"""
    commit_cpu: Cost
    """CPU time of a lane for a transaction"""
    touch: Cost
    """time of a lane for each partition in a transaction"""
    touch_cpu: Cost
    """CPU time of a lane for each partition in a transaction"""
    marker: Cost
    """time of a broker for each marker of a committed transaction"""
    state: Cost
    """progress and map segment of a partition in a transaction, as in the log"""
    extent: Cost
    """what a partition in a transaction adds to the map that is kept"""
    map_reading: Cost
    """how quickly a driver reads the map anew"""
    marker_bytes: Cost
    """one marker in a log"""
    cycle: Cost
    """steps of a cycle in one process, whatever the flow"""
    cycle_partition: Cost
    """the same for each partition"""
    cycle_partition_cpu: Cost
    """CPU time of the driver for each partition, in a cycle or a topic refresh"""
    job: Cost
    """start of a Spark job on a warm Spark"""
    worker_memory: Cost
    """the largest Python worker of a lane, for any kind of topic"""
    driver_memory: Cost
    """driver and Spark's JVM together"""

    def listed(self) -> tuple[tuple[str, Cost | Curve], ...]:
        """Return the costs with their names, in the order of their declaration."""
        return tuple((it.name, getattr(self, it.name)) for it in fields(self))


_RESULTS = "docs/performance/results.json"
_SIZES = (1_076, 16_384, 262_144)
"""Bytes of the batches that were measured: one record of 1 KB, 16 of them, and 256 KB."""

MEASURED = Costs(
    lane=Curve(tuple(zip(_SIZES, (2.19, 2.08, 1.52), strict=True)), "ms/MB", _RESULTS),
    lane_cpu=Curve(tuple(zip(_SIZES, (1.10, 0.98, 0.41), strict=True)), "ms/MB", _RESULTS),
    commit=Cost(6.0, "ms", "docs/performance.md, latency: what a commit tick asks"),
    commit_cpu=Cost(2.0, "ms", "docs/performance.md, latency: cores by commit tick"),
    touch=Cost(0.15, "ms", "estimated"),
    touch_cpu=Cost(0.10, "ms", "estimated"),
    marker=Cost(0.05, "ms", "estimated"),
    state=Cost(560, "bytes", "the records' formats, with a topic name of 30 letters"),
    extent=Cost(5, "bytes", "the map's format"),
    map_reading=Cost(6.0, "MB/s", "docs/performance/year.json"),
    marker_bytes=Cost(78, "bytes", "Kafka's EndTransactionMarker"),
    cycle=Cost(320, "ms", "docs/performance/idle.json"),
    cycle_partition=Cost(0.71, "ms", "docs/performance/idle.json"),
    cycle_partition_cpu=Cost(0.75, "ms", "docs/performance/idle.json"),
    job=Cost(150, "ms", "docs/performance/spark-task.json"),
    worker_memory=Cost(180, "MiB", _RESULTS),
    driver_memory=Cost(710, "MiB", _RESULTS),
)


@dataclass(frozen=True, slots=True)
class LaneModel:
    """One lane of several that share a flow evenly.  Seconds and bytes."""

    load: Load
    lanes: int
    costs: Costs
    rules: Rules

    @property
    def partitions(self) -> int:
        """Return the partitions of the lane that has most."""
        return math.ceil(self.load.partitions / self.lanes)

    @property
    def bytes_per_second(self) -> float:
        """Return what arrives in those partitions."""
        return self.load.bytes_per_second * self.partitions / self.load.partitions

    def touched(self, size: float) -> float:
        """Return how many partitions have some of `size` bytes, if batches arrive anywhere alike."""
        batches = size / self.load.batch_bytes
        return self.partitions * -math.expm1(-batches / self.partitions)

    def seconds(self, size: float, touched: float) -> float:
        """Return how long a transaction takes, until EndTxn is answered."""
        each = self.costs.lane.at(self.load.batch_bytes)
        return (size / 1e6 * each + touched * self.costs.touch.value + self.costs.commit.value) / 1000

    def cpu_seconds(self, size: float, touched: float) -> float:
        """Return the CPU time of the lane's worker for a transaction."""
        each = self.costs.lane_cpu.at(self.load.batch_bytes)
        return (size / 1e6 * each + touched * self.costs.touch_cpu.value + self.costs.commit_cpu.value) / 1000

    def markers(self, touched: float) -> float:
        """Return the markers of a transaction: one in each partition that it wrote to, those of the state too."""
        state = self.rules.state_partitions
        return touched + state * -math.expm1(-2 * touched / state)

    def brokers_seconds(self, markers: float) -> float:
        """Return how long the target's brokers, each with its share, write so many markers."""
        return markers * self.costs.marker.value / self.load.brokers / 1000

    def marker_seconds(self, touched: float) -> float:
        """Return how long they write the markers of a transaction."""
        return self.brokers_seconds(self.markers(touched))

    @property
    def largest_bytes_per_second(self) -> float:
        """Return what a lane copies with a backlog in all of its partitions: full fetches and transactions."""
        size = float(self.rules.transaction_bytes)
        return size / self.seconds(size, size / self.rules.partition_fetch_bytes)

    def busy(self, interval: float) -> float:
        """Return the share of an interval between two commits in which the lane works."""
        size = self.bytes_per_second * interval
        return self.seconds(size, self.touched(size)) / interval
