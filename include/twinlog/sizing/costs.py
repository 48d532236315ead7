"""Say what work costs, as it was measured: each figure with its unit and the measurement that it comes from.  Pure.

All figures are of one machine of two cores that ran both brokers, too, so they are what a lane does at least.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from itertools import pairwise


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
