"""Say what one transaction of a lane costs, by its bytes and the partitions that it touches.  Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from twinlog.sizing.costs import Costs
from twinlog.sizing.load import Load, Rules


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
