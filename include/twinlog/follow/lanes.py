"""The lanes of one window, each run as a job of its own, so that the driver hears of each when it ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass

from twinlog.copying.rounds import LaneRunner
from twinlog.errors import TransientError
from twinlog.lane.spec import LaneOutcome, LaneReport, LaneSpec, RangeSpec

Job = Future[tuple[LaneReport, ...]]

IN_ORDER = frozenset({LaneOutcome.DONE, LaneOutcome.FAILED})
"""Of lanes that came to their own end; all others want a new fence."""


@dataclass(frozen=True, slots=True)
class OpenLanes:
    """Lanes that run, or have run.  One whose job failed has died without a report."""

    specs: tuple[LaneSpec, ...]
    jobs: tuple[Job, ...]

    @classmethod
    def start(cls, runner: LaneRunner, specs: Sequence[LaneSpec]) -> OpenLanes:
        """Start every lane, and do not wait."""
        pool = ThreadPoolExecutor(max(1, len(specs)))
        jobs = tuple(pool.submit(runner.run, (spec,)) for spec in specs)
        pool.shutdown(wait=False)  # no more jobs; these go on
        return cls(tuple(specs), jobs)

    @property
    def over(self) -> bool:
        """Whether every lane has ended."""
        return all(job.done() for job in self.jobs)

    @property
    def some_ended(self) -> bool:
        """Whether a lane has ended."""
        return any(job.done() for job in self.jobs)

    @property
    def in_doubt(self) -> bool:
        """Whether a lane has died, or ended in a way that wants a new fence."""
        return any(_in_doubt(job) for job in self.jobs if job.done())

    @property
    def some_fenced(self) -> bool:
        """Whether a lane has ended because it was fenced."""
        ended = [job for job in self.jobs if job.done() and not job.exception()]
        return any(report.state is LaneOutcome.FENCED for job in ended for report in job.result())

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the next lane to end, up to `seconds`; without, for all of them."""
        running = [job for job in self.jobs if not job.done()]
        wait_for(running, timeout=seconds, **({} if seconds is None else {"return_when": FIRST_COMPLETED}))

    def ended_within(self, seconds: float) -> bool:
        """Wait for all lanes, up to `seconds`; return whether they have ended."""
        return not wait_for(self.jobs, timeout=seconds).not_done

    def reports(self) -> tuple[LaneReport, ...]:
        """Return what the lanes answered that did not die.  Waits for all."""
        self.wait()
        return tuple(report for job in self.jobs if not job.exception() for report in job.result())

    def death(self) -> TransientError | None:
        """Return why a lane died, None when none did.  Waits for all.  Raises what is no TransientError."""
        self.wait()
        for error in filter(None, (job.exception() for job in self.jobs)):
            if not isinstance(error, TransientError):
                raise error
            return error
        return None

    def unreported(self) -> Iterator[RangeSpec]:
        """Give the ranges of the lanes that died.  Waits for all."""
        self.wait()
        for spec, job in zip(self.specs, self.jobs, strict=True):
            if job.exception():
                yield from spec.ranges


def _in_doubt(job: Job) -> bool:
    return bool(job.exception()) or any(report.state not in IN_ORDER for report in job.result())
