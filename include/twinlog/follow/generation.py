"""A lane generation of follow mode: lanes that are open together, from the fence before to the fence after them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twinlog.cluster.api import Clusters
from twinlog.config.flow.settings import FlowSettings
from twinlog.copying.copy import LaneRunner, count_by_map, judge, lane_specs
from twinlog.copying.ownership import PAUSED, Ownership
from twinlog.copying.packing import assign_open, fixed_lanes, readable_ends
from twinlog.copying.ranges import StoppedPartition
from twinlog.copying.resolve import resolve_behind_fence
from twinlog.copying.result import Totals
from twinlog.errors import FencedError, TerminalError, TransientError
from twinlog.follow.births import born_since, resolve_born
from twinlog.follow.lanes import OpenLanes, OpenLoads, another_assignment_helps
from twinlog.follow.report import EndedLanes, LaneGeneration, Prepared, RunState, prepare
from twinlog.kafka_types import TopicPartition
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


def most_lanes(flow: FlowSettings, runner: LaneRunner, sharers: int) -> int:
    """Return how many lanes of a flow may be open: those that are configured, at most its share of the slots.

    That limit holds also if twinlog.lanes says more: a lane keeps its slot.  Raises TransientError if the runner does
    not tell its slots.
    """
    share = max(1, runner.slots // sharers)
    return min(flow.copy.lanes or share, share)


@dataclass(slots=True)
class Following:
    """One flow being followed until `end` (monotonic seconds), at least until `seconds` after its first lanes open.

    - `taken` says that this driver has owned the flow once; from then on it gives way to a driver that `gives_way_to`
      accepts.
    - `behind_fence` says that the fence which ended the newest lane generation is the next one's fence, too.
    - `open_ranges` are those of the newest lane generation, also of topics born since it was opened (births.py),
      `unreported` those of its lanes that died.
    - `copied` are the bytes of each partition up to that generation's end, `last` those of that generation alone.
    - `refreshed` is the time of the newest topic refresh, `unprepared` why it failed.
    - `least_lanes` is the number of lanes that have turned out to be needed.
    - `told` are the notes that people have been told.
    - `sharers` are the flows, this one with them, that share the runner's slots.
    """

    flow: FlowSettings
    clusters: Clusters
    topics: Collection[str] | None
    owned: Ownership
    runner: LaneRunner
    prepared: Prepared
    end: float
    stop: threading.Event
    on_refresh: Callable[[str], None]
    gives_way_to: Callable[[str], bool]
    run_state: RunState | None
    number: int = 0
    seconds: float = 0.0
    sharers: int = 1
    opened: bool = False
    taken: bool = False
    behind_fence: bool = False
    refreshed: float = field(default_factory=time.monotonic)
    unprepared: TransientError | None = None
    totals: Totals = field(default_factory=Totals)
    loads: OpenLoads = field(default_factory=lambda: OpenLoads(()))
    least_lanes: int = 1
    open_ranges: tuple[RangeSpec, ...] = ()
    unreported: tuple[RangeSpec, ...] = ()
    copied: dict[TopicPartition, int] = field(default_factory=dict)
    last: dict[TopicPartition, int] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)

    def run_lanes(self) -> LaneGeneration:
        """Open the lanes, and attend to them until they have ended."""
        self.number += 1
        began = time.monotonic()
        records, size = _totals(self.totals)
        self.open_ranges = ()
        stopped: tuple[StoppedPartition, ...] = ()
        failure: TransientError | None = None
        taken: FencedError | None = None
        try:
            if self.prepared.discovery.stands_by:  # paused: ask again, after a pause, whether it still is
                failure = self.refresh()
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
            failure = self.refresh()
        self._note_bytes()
        now_records, now_size = _totals(self.totals)
        seconds = time.monotonic() - began
        if self.run_state is not None and self.open_ranges:
            speed = (now_size - size) / seconds if seconds else 0.0
            latency = {
                it.topic_partition: it.latency_ms
                for it in self.totals.ranges.values()
                if it.latency_ms is not None and self.last.get(it.topic_partition)
            }
            self.run_state.ended = EndedLanes(self.copied, self.totals.transactions, speed, latency)
        return LaneGeneration(
            flow=self.flow.name,
            number=self.number,
            partitions=len(self.open_ranges),
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
            lanes = most_lanes(self.flow, self.runner, self.sharers)
        except TransientError:
            return
        if lanes > self.owned.lanes:
            self.behind_fence = False  # it granted fewer
        if lanes != self.owned.lanes:
            self.on_refresh(
                f"{self.flow.name}: {lanes} lanes instead of {self.owned.lanes}, as Spark has other slots now"
            )
        self.owned.lanes, self.least_lanes = lanes, min(self.least_lanes, lanes)

    def _open(self) -> tuple[Sequence[LaneSpec], Opening]:
        """Fence, and assign every partition that can be followed to a lane."""
        if not self.behind_fence:
            self._take()
        self.behind_fence = False
        self.count_unreported()
        opening = self._resolve()
        self.open_ranges = opening.ranges
        if self.run_state is not None:
            self.run_state.stopped = opening.stopped
        self._note_starts(opening.ranges)
        self._tell_errors(self.owned.grant.progress, well=())
        self.totals.note_ends(opening.ranges)
        packed = assign_open(
            self.clusters.source,
            opening.ranges,
            opening.topics,
            recent_bytes=self.last,
            least=self.least_lanes,
            most=self.owned.lanes,
            configured=fixed_lanes(self.flow, self.owned.lanes),
            read_committed=self.flow.copy.read_committed,
        )
        self.loads = OpenLoads(packed)
        if not self.opened:  # what went before them may have taken as long as a person wants to follow
            self.opened, self.end = True, max(self.end, time.monotonic() + self.seconds)
        return lane_specs(self.owned, packed, self._terms(time.monotonic())), opening

    def count_unreported(self) -> None:
        """Count what lanes of the generation before committed that died; call this behind the fence."""
        if self.unreported:
            target, progress = self.clusters.target, self.owned.progress
            count_by_map(self.flow, target, progress, self.unreported, self.totals)
            self.unreported = ()

    def _note_starts(self, ranges: Sequence[RangeSpec]) -> None:
        """Note where this run began to copy each range, for its reports."""
        if self.run_state is not None:
            begun = {it.topic_partition: it.start for it in ranges}
            self.run_state.starts = {**begun, **self.run_state.starts}

    def _terms(self, began: float) -> Follow:
        """Return until when lanes that open now stay, in a lane generation that `began` (monotonic) then."""
        stretch = self.flow.copy.follow_seconds
        longest = min(began + stretch * STRETCHES, self.end) - time.monotonic()
        return Follow(stretch, max(0.0, longest), self.owned.grant.mark)

    def _resolve(self) -> Opening:
        """Resolve a range for every prepared partition that can be followed, behind the fence.

        Raises TransientError if the source answers for none of them, and as `resolve_behind_fence`.
        """
        prepared = self.prepared
        # The prepared offsets are older than what the last generation copied: progress beyond an end is no truncation.
        seen = with_offsets_now(self.clusters.source, prepared.topics)
        resolved = resolve_behind_fence(self.owned, self.clusters, seen, {}, prepared.max_bytes, follow=True)
        told = {it.topic_partition for found in (resolved.ranges, resolved.stopped) for it in found}
        wanted = {(topic.topic, it.partition) for topic in prepared.topics for it in topic.provisioned}
        # A partition in neither list was paused just now: no error, but it may be resumed before the next refresh.
        return Opening(resolved.ranges, resolved.stopped, seen, bool(resolved.stopped or wanted - told))

    def _take(self) -> None:
        """Take the flow, unless a driver that we give way to has it.

        Raises FencedError if another driver has the flow.
        """
        if self.taken:
            self.owned.give_way(self.gives_way_to)
        try:
            self.owned.take()
        except FencedError:
            self.owned.require_not_taken()  # names the other driver
            raise
        self.taken = True

    def _run(self, specs: Sequence[LaneSpec], *, renew: bool) -> TransientError | None:
        """Run the lanes to their end; `renew` ends them at the first topic refresh."""
        lanes = OpenLanes.start(self.runner, specs)
        called_back = False
        try:
            try:
                self._attend(lanes, renew=renew)
            finally:  # also if a topic refresh failed: lanes do not hear of that
                called_back = self._call_back(lanes)
        except BaseException:
            if not lanes.over:  # then no fence ends them
                self.runner.cancel(self.flow.name)
            raise
        finally:
            reports = lanes.reports()
            self.unreported = tuple(lanes.unreported())
            if called_back:  # then this driver fenced them itself
                reports = tuple(
                    replace(it, state=LaneOutcome.DONE) if it.state is LaneOutcome.FENCED else it
                    for it in reports
                )
            failure = judge(self.owned, self.totals, reports)
        return lanes.death() or failure or self.unprepared

    def _attend(self, lanes: OpenLanes, *, renew: bool) -> None:
        """Refresh topics at intervals, until the lanes have ended or have to.

        If no partition could be followed, as when all leaders are away, that does not wait for the interval.
        """
        stretch = self.flow.copy.follow_seconds
        began = time.monotonic()
        idle = renew and not lanes.jobs
        refresh = began + (min(SHORTEST_SECONDS, stretch) if idle else stretch - PREPARE_SECONDS)
        while not self._has_to_end(lanes, time.monotonic() - began):
            if refresh <= time.monotonic() < self.end:
                refresh += stretch
                before = self.prepared
                self.refresh()
                alike = not self.prepared.asks_for_lanes_unlike(before)
                may_go_on = not renew and (alike or self._open_beside(lanes, before, began))
                if not may_go_on or self._take_stock(lanes, began):
                    break
            lanes.wait(ATTENTION_SECONDS) if lanes.jobs else self.stop.wait(ATTENTION_SECONDS)
        over = self.stop.is_set() or time.monotonic() >= self.end
        if lanes.jobs and not over and time.monotonic() - self.refreshed > 2 * PREPARE_SECONDS:
            self.refresh()

    def _open_beside(self, lanes: OpenLanes, before: Prepared, began: float) -> bool:
        """Open a lane for topics born since `before`, if that is all that changed and a slot is free; say whether.

        A throttle is shared between the lanes that were opened, so no other is opened beside them.
        """
        born = born_since(before, self.prepared)
        throttled = self.flow.copy.bytes_per_second is not None
        if not born or throttled or not lanes.jobs or lanes.some_ended:
            return False
        number = len(lanes.specs)
        try:
            if number >= self.owned.lanes or number >= most_lanes(self.flow, self.runner, self.sharers):
                return False
            followed = {it.topic_partition for it in self.open_ranges}
            ranges = resolve_born(self.owned, self.clusters, born, self.prepared.max_bytes, followed)
        except TransientError:
            return False
        if not ranges:
            return False
        spec = lane_specs(self.owned, [*self.loads.lanes, ranges], self._terms(began))[number]
        self.open_ranges += ranges
        self.loads.add(ranges)
        self.totals.note_ends(ranges)
        self._note_starts(ranges)
        lanes.open(self.runner, (spec,))
        topics = ", ".join(it.topic for it in born)
        self.on_refresh(f"{self.flow.name}: lane generation {self.number} has one more lane, for {topics}")
        return True

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
                    self.owned.require_not_taken()
                self._take()
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
            self.behind_fence = True
            return True
        return False

    def _see_out(self, lanes: OpenLanes) -> None:
        """Wait until the lanes have ended; kill those that do not.

        Behind a fence the target refuses their writes, so only their report is lost.
        """
        if not lanes.ended_within(LAST_WORD_SECONDS):
            self.runner.cancel(self.flow.name)

    def tell_notes(self) -> None:
        """Tell `on_refresh` what there is to say of topics and their copies, each note once."""
        for note in self.prepared.notes:
            if note not in self.told:
                self.on_refresh(f"{self.flow.name}: {note}")
        self.told.update(self.prepared.notes)

    def refresh(self) -> TransientError | None:
        """Refresh the topics to follow; return why that failed."""
        self.refreshed, self.unprepared = time.monotonic(), None
        try:
            self.prepared = prepare(self.flow, self.clusters, self.topics, self.owned.run_id)
            self.tell_notes()
        except TransientError as error:
            self.unprepared = error
        return self.unprepared

    def _take_stock(self, lanes: OpenLanes, began: float) -> bool:
        """Read how far the lanes are, and tell `on_refresh`; return whether to assign the ranges anew.

        With a new assignment the next generation has one more lane, if there may be more. A lane with an error ends
        at its first topic refresh, so lanes that go on after it have none.
        """
        try:
            progress = self.owned.progress_now()
        except TransientError:
            return False
        are_well = time.monotonic() - began > self.flow.copy.follow_seconds and not lanes.some_ended
        self._tell_errors(progress, well=self.open_ranges if are_well else ())
        ends = readable_ends(self.prepared.topics, read_committed=self.flow.copy.read_committed)
        loads = self.loads.refresh(progress, ends)
        most = fixed_lanes(self.flow, self.owned.lanes) or self.owned.lanes
        if another_assignment_helps(loads, most - len(loads)):
            self.least_lanes = min(self.owned.lanes, len(loads) + 1)
            return True
        self.on_refresh(
            f"{self.flow.name}: lane generation {self.number} goes on: {self.loads.copied():,} offsets"
            f" of {len(self.open_ranges):,} partitions so far, {sum(it.behind for it in loads):,} to go"
        )
        return False

    def _tell_errors(self, progress: Mapping[TopicPartition, int], *, well: Sequence[RangeSpec]) -> None:
        """Pass to `run_state` the errors of earlier lane generations that are not over yet."""
        totals = self.totals
        totals.forget_gone({it.topic for it in self.prepared.discovery.topics})
        if self.run_state is not None:
            self.run_state.errors = totals.errors(well, progress)

    def _note_bytes(self) -> None:
        """Note the bytes of each partition in this lane generation, for the packing of the next."""
        total = {TopicPartition(*key): report.bytes for key, report in self.totals.ranges.items()}
        self.last = {item: size - self.copied.get(item, 0) for item, size in total.items()}
        self.copied = total


def _totals(totals: Totals) -> tuple[int, int]:
    return sum(it.records for it in totals.ranges.values()), sum(it.bytes for it in totals.ranges.values())
