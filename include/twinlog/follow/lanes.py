"""Run the lanes of one lane generation, each as a job of its own, so that the driver sees when each ends."""

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
"""Outcomes of lanes that came to their own end; all others need a new fence."""


@dataclass(frozen=True, slots=True)
class OpenLanes:
    """Lanes that run, or have run. A lane whose job failed has died without a report."""

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
        """Whether a lane has died, or ended in a way that needs a new fence."""
        return any(_in_doubt(job) for job in self.jobs if job.done())

    @property
    def some_fenced(self) -> bool:
        """Whether a lane has ended because it was fenced."""
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

    def unreported(self) -> Iterator[RangeSpec]:
        """Wait for all lanes; yield the ranges of those that died."""
        self.wait()
        for spec, job in zip(self.specs, self.jobs, strict=True):
            if job.exception():
                yield from spec.ranges


def _in_doubt(job: Job) -> bool:
    return bool(job.exception()) or any(report.state not in IN_ORDER for report in job.result())
