"""Say which steps are left of a run, and who moves it.  Pure.

What was proved before a restart is proved again after it: facts of a moment expire.  So a failover that was stopped
before its promotion does all steps again, each of which changes nothing if it was done already.  After the promotion
only the steps behind it are left.  There is no state "failed": a step that fails leaves the last good one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from twinlog.errors import TerminalError
from twinlog.formats.ledger.accepted import login_on
from twinlog.formats.ledger.recovery import JournalEntry, RecoveryRun, RunState, StepState
from twinlog.procedure import Step, StepName, World


class Tail(StrEnum):
    """Name what becomes, on the way home, of records that the source alone has; they are exported before."""

    KEEP = "keep"


def steps_done(run: RecoveryRun | None) -> frozenset[str]:
    """Return the steps that were done, or skipped, of a run that was promoted; none before: all is proved anew."""
    if run is None or run.state is not RunState.PROMOTED:
        return frozenset()
    return frozenset(
        entry.step for entry in run.journal if entry.state in {StepState.DONE, StepState.SKIPPED}
    )


def left(steps: Iterable[Step[World]], run: RecoveryRun | None) -> tuple[StepName, ...]:
    """Return the steps that are still to be done: all of them until the promotion, then those behind it not done."""
    names = tuple(step.name for step in steps)
    if run is None or run.state is not RunState.PROMOTED:
        return names
    behind = names[names.index(StepName.PROMOTE) + 1 :]
    done = steps_done(run)  # entries from before the promotion are of other steps
    return tuple(name for name in behind if name.value not in done)


def says_yes(only: Collection[StepName]) -> bool:
    """Say whether who asks for `only` these steps is also who says yes; a Dag's first tasks are nobody's yes."""
    return not only or StepName.PROMOTE in only


LIVE_MS = 60_000
"""A run without an entry for so long is not live: its process may be dead, or waits for a person."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The process that moves a failover: its person, a name of its own, `holder`, and its machine.

    A process without a `holder` only looks.  `driver` names what it is one of several tries of, such as a Dag run.
    """

    by: str
    holder: str
    host: str = ""
    driver: str = ""

    @property
    def known_by(self) -> str:
        """Say how the person is known."""
        return f"by Airflow, run {self.driver}" if self.driver else login_on(self.host)

    def works_for(self, driver: str) -> bool:
        """Say whether the process is one of those of `driver`."""
        return self.holder.rpartition("-")[0] == driver


def refuse_live(flow: str, run: RecoveryRun, actor: Actor, now_ms: int) -> None:
    """Raise TerminalError `live-run` if another person, or the same one on another host, is busy with the run."""
    begun = JournalEntry("begin", StepState.DONE, run.at_ms, 0.0, run.by, "")
    last = run.journal[-1] if run.journal else begun
    over = last.state in {StepState.FAILED, StepState.WAITING} or last.step == "abort"
    if not actor.holder or over or abs(now_ms - last.at_ms) >= LIVE_MS:
        return
    elsewhere = bool(last.host and actor.host) and last.host != actor.host
    one_of_ours = bool(actor.driver) and Actor(last.by, run.holder).works_for(actor.driver)
    if one_of_ours or (last.by == actor.by and not elsewhere):
        return
    where = f" on {last.host}" if last.host else ""
    raise TerminalError(
        f"{last.by}{where} is busy with {run.run} of {flow}, {run.mode}: step {last.step}"
        f" {max(0, now_ms - last.at_ms) // 1000} s ago",
        "wait until it ends or a minute passes without an entry, then run the same command again",
        code="live-run",
        flow=flow,
        run=run.run,
    )
