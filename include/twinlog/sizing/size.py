"""Answer `twinlog size`: what a flow needs in both rhythms, what bounds it, and what breaks first.  Pure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from twinlog.sizing import cycles, following
from twinlog.sizing.costs import MEASURED, Costs, LaneModel
from twinlog.sizing.load import Load, Rules, check

MOST_TIMES: Final = 1024.0
"""Loads up to so many times the one in question are tried."""


@dataclass(frozen=True, slots=True)
class Limit:
    """One bound: `used` is the share of it that the flow takes, above 1 if it is exceeded; `knob` moves it."""

    name: str
    used: float
    knob: str


@dataclass(frozen=True, slots=True)
class Break:
    """Tell what breaks first as the flow grows: at how many times its partitions and MB/s.

    `times` None: not at 1,024 times.  `days`: when that is, if partitions are added every day; None if they are not.
    """

    name: str
    knob: str
    times: float | None
    days: float | None


def worst(limits: tuple[Limit, ...]) -> Limit:
    """Return the bound of which most is used."""
    return max(limits, key=lambda it: it.used)


def first_break(limits_at: Callable[[float], tuple[Limit, ...]], growth_per_day: float) -> Break:
    """Search the load at which the first bound is exceeded; `limits_at` says what is used at so many times the load.

    `growth_per_day` is the share of the load that is added each day.
    """
    high = 1.0
    while worst(limits_at(high)).used <= 1:
        high *= 2
        if high > MOST_TIMES:
            nearest = worst(limits_at(MOST_TIMES))
            return Break(nearest.name, nearest.knob, None, None)
    low = 0.0 if high == 1 else high / 2
    while high - low > max(0.01, high / 100):
        middle = (low + high) / 2
        if worst(limits_at(middle)).used > 1:
            high = middle
        else:
            low = middle
    first = worst(limits_at(high))
    days = max(0.0, high - 1) / growth_per_day if growth_per_day else math.inf
    return Break(first.name, first.knob, round(high, 2), days if math.isfinite(days) else None)


DAY: Final = 86_400

START_SECONDS: Final = 3_600
"""How long a driver may read state before it copies: what is longer than an outage of an hour is one."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """Tell what a flow needs in one rhythm: `follow`, or a cycle at an interval.

    `fits`: it keeps up, within all limits.  `lanes_needed` keep up, `lanes` run: fewer if there are no slots for more.
    `cycle_seconds` is 0 in follow mode, which has no cycles, and None if each takes longer than the one before.
    `commit_seconds` is the time between two commits of a lane.  `state_mb_per_day` is what is written to state topics
    before they are compacted, `map_mb` what the offset map holds in the end, for as long as copies keep their records.
    `markers_mb_per_day` is written to the copies and the state topics.  `catch_up_seconds` None: never.
    """

    rhythm: str
    fits: bool
    lanes_needed: int
    lanes: int
    lane_busy: float
    cores: float
    cycle_seconds: float | None
    commit_seconds: float
    transactions_per_second: float
    markers_per_second: float
    brokers_busy: float
    state_mb_per_day: float
    map_mb: float
    markers_mb_per_day: float
    memory_mib_per_lane: float
    memory_mib: float
    catch_up_seconds: float | None
    limits: tuple[Limit, ...]
    breaks_first: Break


@dataclass(frozen=True, slots=True)
class Sized:
    """The answer for a load: followed, and in cycles."""

    load: Load
    rhythms: tuple[Sizing, ...]

    @property
    def fits(self) -> bool:
        """Say whether at least one rhythm fits."""
        return any(it.fits for it in self.rhythms)


def size(load: Load, rules: Rules | None = None, costs: Costs = MEASURED) -> Sized:
    """Size a flow in both rhythms.  Raises UsageError for a load that cannot be."""
    check(load)
    model = _Model(load, rules or Rules(), costs)
    return Sized(load, (model.followed(), model.in_cycles()))


@dataclass(frozen=True, slots=True)
class _Model:
    load: Load
    rules: Rules
    costs: Costs

    def followed(self) -> Sizing:
        needed = following.lanes_needed(self.load, self.costs, self.rules)
        lanes = min(needed, self.load.slots or needed)
        done = following.follow(LaneModel(self.load, lanes, self.costs, self.rules))
        refresh = (
            self.load.partitions * self.costs.cycle_partition_cpu.value / 1000 / self.rules.follow_seconds
        )
        limits = self.follow_limits(1.0)
        return self._sizing(
            rhythm="follow",
            fits=done.keeps_up and all(it.used <= 1 for it in limits),
            needed=needed,
            done=done,
            cores=done.cpu_cores + refresh,
            cycle_seconds=0.0,
            commit_seconds=done.interval_seconds,
            limits=limits,
            breaks=first_break(self.follow_limits, self._growth),
        )

    def in_cycles(self) -> Sizing:
        needed = cycles.slots_needed(self.load, self.costs, self.rules)
        done = cycles.cycle(self.load, self.load.slots or needed, self.costs, self.rules)
        limits = self.cycle_limits(1.0)
        return self._sizing(
            rhythm=f"a cycle every {self.load.every_seconds:g} s",
            fits=done.on_time and all(it.used <= 1 for it in limits),
            needed=needed,
            done=done,
            cores=done.cpu_cores,
            cycle_seconds=done.seconds if done.keeps_up else None,
            commit_seconds=done.every_seconds,
            limits=limits,
            breaks=first_break(self.cycle_limits, self._growth),
        )

    @property
    def _growth(self) -> float:
        return self.load.new_partitions_per_day / self.load.partitions

    def follow_limits(self, times: float) -> tuple[Limit, ...]:
        load = self.load.times(times)
        needed = following.lanes_needed(load, self.costs, self.rules)
        lane = LaneModel(load, needed, self.costs, self.rules)
        alone = LaneModel(load, load.partitions, self.costs, self.rules)
        refresh = load.partitions * self.costs.cycle_partition.value / 1000
        return (
            *self._slots(needed),
            self._map(following.follow(lane).touched_per_second),
            Limit(
                "a lane for each partition",
                alone.busy(self.rules.backlog_seconds) / following.ROOM,
                "more partitions; larger batches (batch.size, linger.ms of producers)",
            ),
            Limit(
                "markers on the target's brokers",
                following.brokers_busy(lane) / following.ROOM,
                "twinlog.guarantee=at_least_once (no markers); cycles (twinlog run --once); more brokers",
            ),
            Limit(
                "a topic refresh within twinlog.follow.seconds",
                refresh / self.rules.follow_seconds,
                "twinlog.follow.seconds; several flows, each with some of the topics",
            ),
        )

    def cycle_limits(self, times: float) -> tuple[Limit, ...]:
        load = self.load.times(times)
        needed = cycles.slots_needed(load, self.costs, self.rules)
        done = cycles.cycle(load, self.load.slots or load.partitions, self.costs, self.rules)
        fixed = (self.costs.cycle.value + load.partitions * self.costs.cycle_partition.value) / 1000
        return (
            *self._slots(needed),
            self._map(done.touched_per_second),
            Limit(
                "a cycle's own steps within the interval",
                fixed / load.every_seconds,
                "twinlog.schedule; following (twinlog run --for); several flows",
            ),
            Limit(
                "a cycle within the interval",
                done.seconds / load.every_seconds,
                "twinlog.schedule; twinlog.lanes; following (twinlog run --for)",
            ),
            Limit(
                "markers on the target's brokers",
                done.brokers_busy / following.ROOM,
                "twinlog.transaction.bytes; more brokers",
            ),
        )

    def _map_mb(self, touched_per_second: float) -> float:
        return touched_per_second * self.load.retention_seconds * self.costs.extent.value / 1e6

    def _map(self, touched_per_second: float) -> Limit:
        return Limit(
            "an hour to read the offset map at a start",
            self._map_mb(touched_per_second) / self.costs.map_reading.value / START_SECONDS,
            "cycles (twinlog run --once) with more time between them; shorter retention.ms",
        )

    def _slots(self, needed: int) -> tuple[Limit, ...]:
        if self.load.slots is None:
            return ()
        return (Limit("Spark slots", needed / self.load.slots, "more executors or cores; twinlog.lanes"),)

    def _sizing(
        self,
        *,
        rhythm: str,
        fits: bool,
        needed: int,
        done: following.Followed | cycles.Cycled,
        cores: float,
        cycle_seconds: float | None,
        commit_seconds: float,
        limits: tuple[Limit, ...],
        breaks: Break,
    ) -> Sizing:
        touches = done.touched_per_second * DAY / 1e6
        return Sizing(
            rhythm=rhythm,
            fits=fits,
            lanes_needed=needed,
            lanes=done.lanes,
            lane_busy=done.lane_busy,
            cores=cores,
            cycle_seconds=cycle_seconds,
            commit_seconds=commit_seconds,
            transactions_per_second=done.transactions_per_second,
            markers_per_second=done.markers_per_second,
            brokers_busy=done.brokers_busy,
            state_mb_per_day=touches * self.costs.state.value,
            map_mb=self._map_mb(done.touched_per_second),
            markers_mb_per_day=done.markers_per_second * DAY / 1e6 * self.costs.marker_bytes.value,
            memory_mib_per_lane=self.costs.worker_memory.value,
            memory_mib=self.costs.driver_memory.value + done.lanes * self.costs.worker_memory.value,
            catch_up_seconds=self._catch_up(self.load.slots or needed),
            limits=limits,
            breaks_first=breaks,
        )

    def _catch_up(self, most: int) -> float | None:
        """Return how long it takes to copy what an outage has left, while records go on to arrive."""
        left = self.load.bytes_per_second * self.load.outage_seconds
        if not left:
            return 0.0
        lanes = min(most, self.load.partitions, 1 + math.floor(left) // self.rules.lane_bytes)
        spare = (
            lanes * LaneModel(self.load, lanes, self.costs, self.rules).largest_bytes_per_second
            - self.load.bytes_per_second
        )
        return left / spare if spare > 0 else None
