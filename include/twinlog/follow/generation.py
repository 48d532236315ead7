"""A lane generation of follow mode: lanes that are open together, from the fence before to the fence after them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.cluster.open import Clusters
from twinlog.config.flow.settings import FlowSettings, Guarantee
from twinlog.copying.packing import assign_open, readable_ends
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.result import Totals
from twinlog.copying.rounds import PAUSED, Rounds, lane_specs
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.follow.lanes import OpenLanes, OpenLoads, another_assignment_helps
from twinlog.follow.opening import Opening, fixed_lanes, resolve_open
from twinlog.follow.report import Prepared, RunState, prepare
from twinlog.kafka_types import TopicPartition
from twinlog.lane.fence.fence import Grant
from twinlog.lane.spec import Follow, LaneOutcome, LaneSpec, RangeSpec

PREPARE_SECONDS = 3.0
"""How long before lanes may end by themselves the driver prepares the next lane generation."""

STRETCHES = 15
"""Number of topic refreshes after which a lane generation ends in any case."""

SHORTEST_SECONDS = 2.0
"""Shortest life of a lane generation with an indeterminate lane; a new one may be no better."""

FENCE_AGAIN_SECONDS = 1.0
"""Pause before fencing again, if a cluster out of reach kept a fence from stopping the lanes."""

LAST_WORD_SECONDS = 120.0
"""How long lanes may need to end that have to: they may be waiting for a broker, and then for another."""

ATTENTION_SECONDS = 0.5
"""How often the driver checks whether it has been told to stop."""


@dataclass(frozen=True, slots=True)
class LaneGeneration:
    """One lane generation, for people who watch: what it copied, what it could not copy, and why it ended early.

    `taken` says that another driver took the flow; then there is no next lane generation.
    """

    flow: str
    number: int
    partitions: int
    records: int
    bytes: int
    seconds: float
    stopped: tuple[StoppedPartition, ...] = ()
    failure: TransientError | None = None
    taken: FencedError | None = None

    @property
    def line(self) -> str:
        """The line for a log."""
        reason = self.taken or self.failure
        ended = f"; {reason}" if reason is not None else ""
        stopped = f"; {len(self.stopped)} partitions stopped" if self.stopped else ""
        return (
            f"{self.flow}: window {self.number}: {self.records:,} records, {self.bytes:,} bytes"
            f" of {self.partitions:,} partitions in {self.seconds:,.1f} s{stopped}{ended}"
        )


@dataclass(slots=True)
class Following:
    """One flow being followed until `end` (monotonic seconds).

    - `fenced` says that this driver has held the flow once; from then on it gives way to a driver that `gives_way_to`
      accepts.
    - `open_ranges` are those of the newest lane generation, `unreported` those of its lanes that died.
    - `copied` are the bytes of each partition up to that generation's end, `last` those of that generation alone.
    - `grant` is that of the fence which ended it.
    - `looked` is the time of the newest topic refresh, `unprepared` why it failed.
    - `least_lanes` is the number of lanes that have turned out to be needed.
    """

    flow: FlowSettings
    clusters: Clusters
    topics: Collection[str] | None
    rounds: Rounds
    prepared: Prepared
    end: float
    stop: threading.Event
    on_look: Callable[[str], None]
    gives_way_to: Callable[[str], bool]
    run_state: RunState | None
    number: int = 0
    fenced: bool = False
    looked: float = field(default_factory=time.monotonic)
    unprepared: TransientError | None = None
    grant: Grant | None = None
    loads: OpenLoads = field(default_factory=lambda: OpenLoads(()))
    least_lanes: int = 1
    open_ranges: tuple[RangeSpec, ...] = ()
    unreported: tuple[RangeSpec, ...] = ()
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, int] = field(default_factory=dict)

    def window(self) -> LaneGeneration:
        """Open the lanes, and attend to them until they have ended."""
        self.number += 1
        began = time.monotonic()
        records, size = _totals(self.rounds.tally)
        self.open_ranges = self.unreported = ()
        stopped: tuple[StoppedPartition, ...] = ()
        failure: TransientError | None = None
        taken: FencedError | None = None
        try:
            if self.prepared.discovery.stands_by:  # paused: look again, after a pause, whether it still is
                failure = self._look()
            else:
                specs, opening = self._open()
                stopped = opening.stopped
                failure = self._run(specs, renew=opening.partial)
        except FencedError as error:
            taken = error  # this driver gives way, or the two would fence for ever
        except TransientError as error:
            failure = error
        except TerminalError as error:
            if error.code != PAUSED:
                raise
            failure = self._look()
        self._weigh()
        now_records, now_size = _totals(self.rounds.tally)
        return LaneGeneration(
            flow=self.flow.name,
            number=self.number,
            partitions=len(self.open_ranges),
            records=now_records - records,
            bytes=now_size - size,
            seconds=time.monotonic() - began,
            stopped=stopped,
            failure=failure,
            taken=taken,
        )

    def _open(self) -> tuple[Sequence[LaneSpec], Opening]:
        """Fence, and assign every partition that can be followed to a lane."""
        grant, self.grant = self.grant or self._fence(), None
        opening = resolve_open(self.flow, self.clusters, self.rounds, self.prepared, grant)
        self.open_ranges = opening.ranges
        if self.run_state is not None:
            self.run_state.stopped = opening.stopped
        self._tell_troubles(grant.progress, well=())
        self.rounds.tally.settle(opening.ranges)
        packed = assign_open(
            self.clusters.source,
            opening.ranges,
            opening.topics,
            lately=self.last,
            least=self.least_lanes,
            most=self.rounds.lanes,
            configured=fixed_lanes(self.flow, self.rounds.lanes),
            read_committed=self.flow.copy.read_committed,
        )
        self.loads = OpenLoads(packed)
        stretch = self.flow.copy.follow_seconds
        longest = min(stretch * STRETCHES, self.end - time.monotonic())
        terms = Follow(stretch, max(0.0, longest), grant.mark)
        return lane_specs(self.flow, self.rounds.state, grant, packed, terms), opening

    def _fence(self) -> Grant:
        """Fence, unless a driver that we give way to has the flow.

        Raises FencedError if another driver has the flow.
        """
        if self.fenced:
            self.rounds.give_way(self.gives_way_to)
        try:
            grant = self.rounds.fence()
        except FencedError:
            self.rounds.stop_if_taken()  # names the other driver
            raise
        self.fenced = True
        return grant

    def _run(self, specs: Sequence[LaneSpec], *, renew: bool) -> TransientError | None:
        """Run the lanes to their end; `renew` ends them at the first topic refresh."""
        lanes = OpenLanes.start(self.rounds.runner, specs)
        called_back = False
        try:
            try:
                self._attend(lanes, renew=renew)
            finally:  # also if a topic refresh failed: lanes do not hear of that
                called_back = self._call_back(lanes)
        except BaseException:
            if not lanes.over:  # then no fence ends them
                self.rounds.runner.cancel()
            raise
        finally:
            reports = lanes.reports()
            self.unreported = tuple(lanes.unreported())
            if called_back:  # then this driver fenced them itself
                reports = tuple(
                    replace(it, state=LaneOutcome.DONE) if it.state is LaneOutcome.FENCED else it
                    for it in reports
                )
            failure = self.rounds.judge(reports)
        return lanes.death() or failure or self.unprepared

    def _attend(self, lanes: OpenLanes, *, renew: bool) -> None:
        """Refresh topics at intervals, until the lanes have ended or have to."""
        stretch = self.flow.copy.follow_seconds
        began = time.monotonic()
        look = began + stretch - PREPARE_SECONDS
        while not self._has_to_end(lanes, time.monotonic() - began):
            if look <= time.monotonic() < self.end:
                look += stretch
                before = self.prepared
                self._look()
                if renew or self.prepared.asks_for_lanes_unlike(before) or self._take_stock(lanes, began):
                    break
            lanes.wait(ATTENTION_SECONDS) if lanes.jobs else self.stop.wait(ATTENTION_SECONDS)
        over = self.stop.is_set() or time.monotonic() >= self.end
        if lanes.jobs and not over and time.monotonic() - self.looked > 2 * PREPARE_SECONDS:
            self._look()

    def _has_to_end(self, lanes: OpenLanes, age: float) -> bool:
        """Say whether a lane generation opened `age` seconds ago is over, or should be.

        Lanes end by themselves in time. A lane whose process is frozen does not, and Spark does not notice that.
        """
        if self.stop.is_set() or not lanes.jobs:
            return self.stop.is_set() or time.monotonic() >= self.end
        patience = SHORTEST_SECONDS if lanes.in_doubt else self.flow.copy.follow_seconds
        overdue = STRETCHES * self.flow.copy.follow_seconds + LAST_WORD_SECONDS
        late = age >= overdue or time.monotonic() >= self.end + LAST_WORD_SECONDS
        return lanes.over or late or (lanes.some_ended and age >= patience)

    def _call_back(self, lanes: OpenLanes) -> bool:
        """End the lanes that still run, by a new fence; return whether there were any.

        Raises FencedError if another driver has taken the flow, and TerminalError PAUSED if the flow is paused; in
        both cases there was a fence. Other TerminalErrors are raised while lanes run on.
        """
        while not lanes.over:
            try:
                if lanes.some_fenced:
                    self.rounds.stop_if_taken()
                self.grant = self._fence()
            except FencedError:  # the other driver's fence ends the lanes
                self._see_out(lanes)
                raise
            except TransientError:
                lanes.wait(FENCE_AGAIN_SECONDS)
                continue
            except TerminalError as error:
                if error.code == PAUSED:
                    self._see_out(lanes)
                raise
            self._see_out(lanes)
            if self.flow.copy.guarantee is Guarantee.AT_LEAST_ONCE:
                self.grant = None  # its progress is older than what the lanes wrote last
            return True
        return False

    def _see_out(self, lanes: OpenLanes) -> None:
        """Wait until the lanes have ended; kill those that do not.

        Behind a fence the target refuses their writes, so only their report is lost. With the guarantee at least once
        more is lost: killed lanes have written less progress than they copied, as after a death.
        """
        if not lanes.ended_within(LAST_WORD_SECONDS):
            self.rounds.runner.cancel()

    def _look(self) -> TransientError | None:
        """Refresh the topics to follow; return why that failed."""
        self.looked, self.unprepared = time.monotonic(), None
        try:
            self.prepared = prepare(self.flow, self.clusters, self.topics, self.rounds.run_id)
        except TransientError as error:
            self.unprepared = error
        return self.unprepared

    def _take_stock(self, lanes: OpenLanes, began: float) -> bool:
        """Read how far the lanes are, and tell `on_look`; return whether to assign the ranges anew.

        With a new assignment the next generation has one more lane, if `rounds` allows more. A lane with an error ends
        at its first topic refresh, so lanes that go on after it have none.
        """
        try:
            progress = self.rounds.progress()
        except TransientError:
            return False
        are_well = time.monotonic() - began > self.flow.copy.follow_seconds and not lanes.some_ended
        self._tell_troubles(progress, well=self.open_ranges if are_well else ())
        ends = readable_ends(self.prepared.topics, read_committed=self.flow.copy.read_committed)
        loads = self.loads.look(progress, ends)
        most = fixed_lanes(self.flow, self.rounds.lanes) or self.rounds.lanes
        if another_assignment_helps(loads, most - len(loads)):
            self.least_lanes = min(self.rounds.lanes, len(loads) + 1)
            return True
        self.on_look(
            f"{self.flow.name}: window {self.number} goes on: {self.loads.copied():,} offsets"
            f" of {len(self.open_ranges):,} partitions so far, {sum(it.behind for it in loads):,} to go"
        )
        return False

    def _tell_troubles(self, progress: Mapping[TopicPartition, int], *, well: Sequence[RangeSpec]) -> None:
        """Pass to `run_state` the errors of earlier lane generations that are not over yet."""
        tally = self.rounds.tally
        tally.forget_gone({it.topic for it in self.prepared.discovery.topics})
        if self.run_state is not None:
            self.run_state.troubles = tally.troubles(well, progress)

    def _weigh(self) -> None:
        """Note the bytes of each partition in this lane generation, for the packing of the next."""
        total = {TopicPartition(*key): report.bytes for key, report in self.rounds.tally.ranges.items()}
        self.last = {item: size - self.copied.get(item, 0) for item, size in total.items()}
        self.copied = total


def _totals(tally: Totals) -> tuple[int, int]:
    return sum(it.records for it in tally.ranges.values()), sum(it.bytes for it in tally.ranges.values())
