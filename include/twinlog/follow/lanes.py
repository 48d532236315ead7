"""Run the lanes of one lane generation, each as a job of its own, and measure how they progress.

So the driver sees when each lane ends, and between two topic refreshes whether another assignment of the ranges helps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field
from typing import Final

from twinlog.copying.copy import LaneRunner, dead_lanes
from twinlog.errors import TransientError
from twinlog.kafka_types import Positions, TopicPartition
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec, RangeSpec

Job = Future[tuple[LaneReport, ...]]

IN_ORDER = frozenset({LaneOutcome.DONE, LaneOutcome.FAILED})
"""Outcomes of lanes that came to their own end; all others need a new fence."""


@dataclass(slots=True)
class OpenLanes:
    """Lanes that run, or have run. A lane whose job failed has died without a report.

    Only the driver's thread that runs the lane generation opens more of them (`open`).
    """

    specs: tuple[LaneSpec, ...] = ()
    jobs: tuple[Job, ...] = ()

    @classmethod
    def start(cls, runner: LaneRunner, specs: Sequence[LaneSpec]) -> OpenLanes:
        """Start every lane, and do not wait."""
        lanes = cls()
        lanes.open(runner, specs)
        return lanes

    def open(self, runner: LaneRunner, specs: Sequence[LaneSpec]) -> None:
        """Start more lanes beside those that run, and do not wait."""
        pool = ThreadPoolExecutor(max(1, len(specs)))
        self.jobs += tuple(pool.submit(runner.run, (spec,)) for spec in specs)
        self.specs += tuple(specs)
        pool.shutdown(wait=False)  # no more jobs; these go on

    @property
    def over(self) -> bool:
        """Say whether every lane has ended."""
        return all(job.done() for job in self.jobs)

    @property
    def some_ended(self) -> bool:
        """Say whether a lane has ended."""
        return any(job.done() for job in self.jobs)

    @property
    def in_doubt(self) -> bool:
        """Say whether a lane has died, or ended in a way that needs a new fence."""
        return any(_in_doubt(job) for job in self.jobs if job.done())

    @property
    def some_fenced(self) -> bool:
        """Say whether a lane has ended because it was fenced."""
        ended = [job for job in self.jobs if job.done() and not job.exception()]
        return any(report.state is LaneOutcome.FENCED for job in ended for report in job.result())

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the next lane to end, up to `seconds`; without `seconds`, wait for all lanes."""
        running = [job for job in self.jobs if not job.done()]
        wait_for(running, timeout=seconds, **({} if seconds is None else {"return_when": FIRST_COMPLETED}))

    def ended_within(self, seconds: float) -> bool:
        """Wait for all lanes, up to `seconds`; return whether they have ended."""
        return not wait_for(self.jobs, timeout=seconds).not_done

    def reports(self) -> tuple[LaneReport, ...]:
        """Wait for all lanes; return the reports of those that did not die."""
        self.wait()
        return tuple(report for job in self.jobs if not job.exception() for report in job.result())

    def death(self) -> TransientError | None:
        """Wait for all lanes; return why a lane died, None if none did.

        Raises an error that is not a TransientError.
        """
        self.wait()
        for error in filter(None, (job.exception() for job in self.jobs)):
            if not isinstance(error, TransientError):
                raise error
            return error
        return None

    def unreported(self) -> Iterator[LaneSpec]:
        """Wait for all lanes; yield those that died."""
        return dead_lanes(self.specs, self.reports())


def _in_doubt(job: Job) -> bool:
    return bool(job.exception()) or any(report.state not in IN_ORDER for report in job.result())


IDLE_SHARE: Final = 0.1
"""Share of what a lane copies between two refreshes that is too little to be worth a new lane generation."""


@dataclass(frozen=True, slots=True)
class LaneLoad:
    """One lane between two refreshes, in upstream offsets: its backlog at the first, copied since, backlog now.

    `largest` is the backlog of the one partition with the largest: that stays with one lane in any case.
    """

    behind_before: int
    copied: int
    behind: int
    largest: int

    @property
    def overloaded(self) -> bool:
        """Say whether its backlog stays larger than what it copies between two refreshes, and it has a part to give."""
        persists = min(self.behind_before, self.behind) > self.copied
        return persists and self.behind - self.largest > self.copied * IDLE_SHARE

    @property
    def idle(self) -> bool:
        """Say whether it could take more."""
        return self.behind <= self.copied * IDLE_SHARE


def another_assignment_helps(loads: Sequence[LaneLoad], free: int) -> bool:
    """Say whether a lane is overloaded while another is idle, or while `free` more lanes could be opened."""
    return any(load.overloaded for load in loads) and (free > 0 or any(load.idle for load in loads))


@dataclass(slots=True)
class OpenLoads:
    """The lanes of one lane generation, as of the newest topic refresh.

    `reached` is the next upstream offset of each partition, `behind` each lane's backlog. A lane generation that was
    just opened counts as having no backlog, so one refresh alone never shows an overload.
    """

    lanes: Sequence[Sequence[RangeSpec]]
    reached: dict[TopicPartition, int] = field(init=False)
    behind: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.reached = {span.topic_partition: span.start for span in self._ranges()}
        self.behind = [0] * len(self.lanes)

    def refresh(self, progress: Positions, ends: Positions) -> tuple[LaneLoad, ...]:
        """Take in the flow's progress (last copied upstream offsets) and where its partitions end."""
        before = self.reached
        self.reached = {place: max(start, progress.get(place, -1) + 1) for place, start in before.items()}
        loads = []
        for number, ranges in enumerate(self.lanes):
            places = [span.topic_partition for span in ranges]
            behind = [max(0, ends.get(place, 0) - self.reached[place]) for place in places]
            copied = sum(self.reached[place] - before[place] for place in places)
            loads.append(LaneLoad(self.behind[number], copied, sum(behind), max(behind, default=0)))
        self.behind = [load.behind for load in loads]
        return tuple(loads)

    def add(self, ranges: Sequence[RangeSpec]) -> None:
        """Note a lane that was opened beside the others."""
        self.lanes = [*self.lanes, ranges]
        self.reached |= {span.topic_partition: span.start for span in ranges}
        self.behind = [*self.behind, 0]

    def copied(self) -> int:
        """Return the upstream offsets copied since the lane generation was opened."""
        return sum(self.reached[span.topic_partition] - span.start for span in self._ranges())

    def _ranges(self) -> Iterable[RangeSpec]:
        return (span for ranges in self.lanes for span in ranges)
