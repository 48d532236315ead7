"""A lane generation of follow mode: lanes that are open together, from the fence before to the fence after them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from twinlog.copying.copy import judge, lane_specs
from twinlog.copying.ownership import PAUSED, Ownership
from twinlog.copying.packing import assign_open, fixed_lanes, readable_ends
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.resolve import resolve_behind_fence
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.follow.births import born_since, resolve_born
from twinlog.follow.followed import Followed
from twinlog.follow.hold import Hold
from twinlog.follow.lane_totals import LaneTotals
from twinlog.follow.lanes import OpenLanes, OpenLoads, another_assignment_helps
from twinlog.follow.report import LaneGeneration, Prepared
from twinlog.follow.topics import Topics
from twinlog.kafka_types import Positions
from twinlog.lane.spec import Follow, LaneOutcome, LaneSpec, RangeSpec
from twinlog.topics.discovery import DiscoveredTopic
from twinlog.topics.snapshot import with_offsets_now

PREPARE_SECONDS = 3.0
"""How long before lanes may end by themselves the driver prepares the next lane generation."""

STRETCHES = 15
"""Number of topic refreshes after which a lane generation ends in any case."""

SHORTEST_SECONDS = 2.0
"""How long a lane generation with an indeterminate lane stays at least; a new one may be no better."""

FENCE_AGAIN_SECONDS = 1.0
"""Pause before fencing again, if a cluster out of reach kept a fence from stopping the lanes."""

LAST_WORD_SECONDS = 120.0
"""How long lanes may need to end that have to: they may be waiting for a broker, and then for another."""

ATTENTION_SECONDS = 0.5
"""How often the driver checks whether it has been told to stop."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Ranges that a lane generation follows, and partitions that are `stopped`.

    `topics` are as they were read last. `partial` says that a prepared partition is left out: the next topic refresh
    must not take this opening for what it would open again.
    """

    ranges: tuple[RangeSpec, ...]
    stopped: tuple[StoppedPartition, ...]
    topics: tuple[DiscoveredTopic, ...]
    partial: bool


@dataclass(slots=True)
class Following:
    """One flow being followed until `end` (monotonic seconds), at least until `seconds` after its first lanes open.

    - `number` counts the lane generations.
    - `ranges` are those of the newest one, also of topics born since it was opened (births.py); `loads` are its lanes.
    - `least_lanes` is the number of lanes that have turned out to be needed.
    """

    followed: Followed
    topics: Topics
    hold: Hold
    end: float
    seconds: float = 0.0
    number: int = 0
    opened: bool = False
    tally: LaneTotals = field(default_factory=LaneTotals)
    ranges: tuple[RangeSpec, ...] = ()
    loads: OpenLoads = field(default_factory=lambda: OpenLoads(()))
    least_lanes: int = 1

    @property
    def owned(self) -> Ownership:
        """The flow's state as of the newest fence."""
        return self.hold.owned

    def run_lanes(self) -> LaneGeneration:
        """Open the lanes, and attend to them until they have ended."""
        self.number += 1
        began = time.monotonic()
        records, size = self.tally.amounts
        self.ranges = ()
        stopped: tuple[StoppedPartition, ...] = ()
        failure: TransientError | None = None
        taken: FencedError | None = None
        try:
            if (
                self.topics.prepared.discovery.stands_by
            ):  # paused: ask again, after a pause, whether it still is
                failure = self.topics.refresh()
            else:
                if self.number > 1:
                    self._count_slots()
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
            failure = self.topics.refresh()
        self.hold.end()
        self.tally.close_generation()
        now_records, now_size = self.tally.amounts
        seconds = time.monotonic() - began
        if self.ranges and not self.tally.unreported:  # else the next fence tells what they have committed
            self.followed.run_state.ended = self.tally.ended()
        return LaneGeneration(
            flow=self.followed.flow.name,
            number=self.number,
            partitions=len(self.ranges),
            records=now_records - records,
            bytes=now_size - size,
            seconds=seconds,
            stopped=stopped,
            failure=failure,
            taken=taken,
        )

    def _count_slots(self) -> None:
        """Use as many lanes as there are slots by now: one that waits for a slot would copy nothing, for ever.

        A runner that cannot tell is given as many as before: their job says what became of Spark, and whether it died
        again and again is counted by that.
        """
        try:
            lanes = self.followed.most_lanes
        except TransientError:
            return
        if lanes != self.owned.lanes:
            self.followed.tell(f"{lanes} lanes instead of {self.owned.lanes}, as Spark has other slots now")
        self.hold.grant(lanes)
        self.least_lanes = min(self.least_lanes, lanes)

    def _open(self) -> tuple[Sequence[LaneSpec], Opening]:
        """Fence, and assign every partition that can be followed to a lane."""
        flow, clusters = self.followed.flow, self.followed.clusters
        self.hold.open()
        self.tally.count_unreported(self.owned, clusters)
        self.followed.run_state.ended = self.tally.ended(self.owned.grant.mark.at_ms)
        opening = self._resolve()
        self.followed.run_state.stopped = opening.stopped
        self.ranges = ()
        self._note_ranges(opening.ranges)
        self._tell_errors(self.owned.grant.progress, well=())
        packed = assign_open(
            clusters.source,
            opening.ranges,
            opening.topics,
            recent_bytes=self.tally.last,
            least=self.least_lanes,
            most=self.owned.lanes,
            configured=fixed_lanes(flow, self.owned.lanes),
            read_committed=flow.copy.read_committed,
        )
        self.loads = OpenLoads(packed)
        if not self.opened:  # what went before them may have taken as long as a person wants to follow
            self.opened, self.end = True, max(self.end, time.monotonic() + self.seconds)
        return lane_specs(self.owned, packed, self._terms(time.monotonic())), opening

    def _note_ranges(self, ranges: Sequence[RangeSpec]) -> None:
        """Note ranges that lanes are opened for, and for the reports where this run began to copy each."""
        self.ranges += tuple(ranges)
        self.tally.totals.note_ends(ranges)
        begun = {span.topic_partition: span.start for span in ranges}
        self.followed.run_state.starts = {**begun, **self.followed.run_state.starts}

    def _terms(self, began: float) -> Follow:
        """Return until when lanes that open now stay, in a lane generation that `began` (monotonic) then."""
        stretch = self.followed.flow.copy.follow_seconds
        longest = min(began + stretch * STRETCHES, self.end) - time.monotonic()
        return Follow(stretch, max(0.0, longest), self.owned.grant.mark)

    def _resolve(self) -> Opening:
        """Resolve a range for every prepared partition that can be followed, behind the fence.

        Raises TransientError if the source answers for none of them, and as `resolve_behind_fence`.
        """
        prepared, clusters = self.topics.prepared, self.followed.clusters
        # The prepared offsets are older than what the last generation copied: progress beyond an end is no truncation.
        seen = with_offsets_now(clusters.source, prepared.topics)
        resolved = resolve_behind_fence(self.owned, clusters, seen, {}, prepared.max_bytes, follow=True)
        told = {item.topic_partition for found in (resolved.ranges, resolved.stopped) for item in found}
        wanted = {
            (topic.topic, partition.partition) for topic in prepared.topics for partition in topic.provisioned
        }
        # A partition in neither list was paused just now: no error, but it may be resumed before the next refresh.
        return Opening(resolved.ranges, resolved.stopped, seen, bool(resolved.stopped or wanted - told))

    def _run(self, specs: Sequence[LaneSpec], *, renew: bool) -> TransientError | None:
        """Run the lanes to their end; `renew` ends them at the first topic refresh."""
        lanes = OpenLanes.start(self.followed.runner, specs)
        called_back = False
        try:
            try:
                self._attend(lanes, renew=renew)
            finally:  # also if a topic refresh failed: lanes do not hear of that
                called_back = self._call_back(lanes)
        except BaseException:
            if not lanes.over:  # then no fence ends them
                self._cancel()
            raise
        finally:
            reports = lanes.reports()
            self.tally.unreported = tuple(lanes.unreported())
            if called_back:  # then this driver fenced them itself
                reports = tuple(
                    replace(report, state=LaneOutcome.DONE) if report.state is LaneOutcome.FENCED else report
                    for report in reports
                )
            failure = judge(self.owned, self.tally.totals, reports)
        return lanes.death() or failure or self.topics.failure

    def _attend(self, lanes: OpenLanes, *, renew: bool) -> None:
        """Refresh topics at intervals, until the lanes have ended or have to.

        If no partition could be followed, as when all leaders are away, that does not wait for the interval.
        """
        topics, stop, stretch = self.topics, self.followed.stop, self.followed.flow.copy.follow_seconds
        began = time.monotonic()
        idle = renew and not lanes.jobs
        refresh = began + (min(SHORTEST_SECONDS, stretch) if idle else stretch - PREPARE_SECONDS)
        while not self._has_to_end(lanes, time.monotonic() - began):
            if refresh <= time.monotonic() < self.end:
                refresh += stretch
                before = topics.prepared
                topics.refresh()
                alike = not topics.prepared.asks_for_lanes_unlike(before)
                may_go_on = not renew and (alike or self._open_beside(lanes, before, began))
                if not may_go_on or self._take_stock(lanes, began):
                    break
            lanes.wait(ATTENTION_SECONDS) if lanes.jobs else stop.wait(ATTENTION_SECONDS)
        over = stop.is_set() or time.monotonic() >= self.end
        if lanes.jobs and not over and time.monotonic() - topics.read_at > 2 * PREPARE_SECONDS:
            topics.refresh()

    def _open_beside(self, lanes: OpenLanes, before: Prepared, began: float) -> bool:
        """Open a lane for topics born since `before`, if that is all that changed and a slot is free; say whether.

        A throttle is shared between the lanes that were opened, so no other is opened beside them.
        """
        followed, prepared = self.followed, self.topics.prepared
        born = born_since(before, prepared)
        throttled = followed.flow.copy.bytes_per_second is not None
        if not born or throttled or not lanes.jobs or lanes.some_ended:
            return False
        number = len(lanes.specs)
        try:
            if number >= self.owned.lanes or number >= followed.most_lanes:
                return False
            places = {span.topic_partition for span in self.ranges}
            ranges = resolve_born(self.owned, followed.clusters, born, prepared.max_bytes, places)
        except TransientError:
            return False
        if not ranges:
            return False
        spec = lane_specs(self.owned, [*self.loads.lanes, ranges], self._terms(began))[number]
        self._note_ranges(ranges)
        self.loads.add(ranges)
        lanes.open(followed.runner, (spec,))
        topics = ", ".join(topic.topic for topic in born)
        followed.tell(f"lane generation {self.number} has one more lane, for {topics}")
        return True

    def _has_to_end(self, lanes: OpenLanes, age: float) -> bool:
        """Say whether a lane generation opened `age` seconds ago is over, or should be.

        Lanes end by themselves in time. A lane whose process is frozen does not, and Spark does not notice that.
        """
        stop, stretch = self.followed.stop, self.followed.flow.copy.follow_seconds
        if stop.is_set() or not lanes.jobs:
            return stop.is_set() or time.monotonic() >= self.end
        patience = SHORTEST_SECONDS if lanes.in_doubt else stretch
        overdue = STRETCHES * stretch + LAST_WORD_SECONDS
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
                    self.owned.require_not_taken()
                self.hold.fence()
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
            return True
        return False

    def _see_out(self, lanes: OpenLanes) -> None:
        """Wait until the lanes have ended; kill those that do not.

        Behind a fence the target refuses their writes, so only their report is lost.
        """
        if not lanes.ended_within(LAST_WORD_SECONDS):
            self._cancel()

    def _cancel(self) -> None:
        self.followed.runner.cancel(self.followed.flow.name)

    def _take_stock(self, lanes: OpenLanes, began: float) -> bool:
        """Read how far the lanes are, and tell people; return whether to assign the ranges anew.

        With a new assignment the next generation has one more lane, if there may be more. A lane with an error ends
        at its first topic refresh, so lanes that go on after it have none.
        """
        flow = self.followed.flow
        try:
            progress = self.owned.progress_now()
        except TransientError:
            return False
        are_well = time.monotonic() - began > flow.copy.follow_seconds and not lanes.some_ended
        self._tell_errors(progress, well=self.ranges if are_well else ())
        ends = readable_ends(self.topics.prepared.topics, read_committed=flow.copy.read_committed)
        loads = self.loads.refresh(progress, ends)
        most = fixed_lanes(flow, self.owned.lanes) or self.owned.lanes
        if another_assignment_helps(loads, most - len(loads)):
            self.least_lanes = min(self.owned.lanes, len(loads) + 1)
            return True
        self.followed.tell(
            f"lane generation {self.number} goes on: {self.loads.copied():,} offsets"
            f" of {len(self.ranges):,} partitions so far, {sum(load.behind for load in loads):,} to go"
        )
        return False

    def _tell_errors(self, progress: Positions, *, well: Sequence[RangeSpec]) -> None:
        """Keep in the run's state the errors of earlier lane generations that are not over yet."""
        totals = self.tally.totals
        totals.forget_gone({topic.topic for topic in self.topics.prepared.discovery.topics})
        self.followed.run_state.errors = totals.errors(well, progress)
