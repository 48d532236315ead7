"""Do the steps that are left of a failover, or of a way home, note each in the ledger, and tell how it ended."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from twinlog import clock
from twinlog.config.flow.settings import FlowSettings
from twinlog.errors import ExitCode, TwinlogError
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.jsonable import Json
from twinlog.procedure import Outcome, Step, StepName, StepReport, done, silent, walk
from twinlog.recovery import transitions
from twinlog.recovery.procedure import left
from twinlog.recovery.report import seconds_of
from twinlog.recovery.steps.world import World

WRITES_ITSELF = frozenset({StepName.BEGIN, StepName.PROMOTE, StepName.REPORT})
"""Steps whose journal entry is in the transaction that is the step."""


def go(
    world: World, steps: Sequence[Step[World]], taken: RecoveryRun, began: float, doing: str
) -> tuple[World, Outcome | None]:
    """Do the steps that are left of a run that this process has `taken`.

    Return the world behind them, and the outcome that ended it, if one did.  It `began` at this `time.monotonic()`.
    Each step's row is kept in the world, and noted in the journal.
    """
    only, told = world.request.only, world.tools.told
    todo = {name for name in left(steps, taken) if not only or name in only}
    world = replace(world, steps=_rows_before(steps, taken, todo))
    if StepName.BEGIN in todo:
        word = "goes on with" if taken.journal else "began"
        begun = done(f"{word} {taken.run}{taken.changed_mode}; {world.flow.name} is {doing}")
        row = StepReport(StepName.BEGIN, begun.state, round(time.monotonic() - began, 3), begun.message)
        world = world.after(row, begun)
        note(world, row)
        told(StepName.BEGIN, begun)
    wanted = [step for step in steps if step.name in todo and step.do is not None]
    walked = walk(wanted, world, told, keep=_noted)
    return walked.world, next(iter(walked.stopped), None)


def _noted(world: World, row: StepReport, outcome: Outcome) -> World:
    world = world.after(row, outcome)
    if row.name not in WRITES_ITSELF or outcome.ends:
        note(world, row)
    return world


def note(world: World, step: StepReport) -> None:
    """Write a step into the journal.

    If the target does not take it, the step counts as not done: the next command does it again.  A process that was
    relieved stops here, also with a step that failed: otherwise its scheduler would try again, and take the failover
    back.
    """
    entry = world.entry(step.name, step.state, step.seconds, step.message)
    try:
        world.move(lambda run, _: transitions.note(run, entry, world.found.answered))
    except TwinlogError as error:
        if step.state is not StepState.FAILED or error.code == "relieved":
            raise


def look(
    world: World, steps: Sequence[Step[World]], under_way: RecoveryRun | None
) -> tuple[World, Outcome | None]:
    """Say what each step would do now, with the numbers, and change nothing.

    Return the world with a row for each, and what kept it from looking, if something did.
    """
    todo, ends = left(steps, under_way), (world.flow.source.alias, world.flow.target.alias)
    world = replace(world, steps=_rows_before(steps, under_way, todo))
    looking = [step.looking(*ends) for step in steps if step.name in todo]
    walked = walk(looking, world, silent, keep=World.after, goes_on=lambda _, outcome: outcome.error is None)
    return walked.raised().world, next(reversed(walked.stopped), None)


def _rows_before(
    steps: Iterable[Step[World]], run: RecoveryRun | None, todo: Collection[StepName]
) -> tuple[StepReport, ...]:
    """Return the rows of steps that were done, and are not done again."""
    before = done_before(steps, run) if run is not None else ()
    return tuple(row for row in before if row.name not in todo)


def done_before(steps: Iterable[Step[World]], run: RecoveryRun) -> list[StepReport]:
    """Return the last outcome of each step that was done, of a run that another process began."""
    newest = {
        entry.step: entry for entry in run.journal if entry.state in {StepState.DONE, StepState.SKIPPED}
    }
    return [
        StepReport(step.name, found.state, found.seconds, found.message)
        for step in steps
        if (found := newest.get(step.name.value)) is not None
    ]


def ended(
    world: World, steps: Iterable[Step[World]], stopped: Outcome | None
) -> tuple[RecoveryRun | None, bool, Json]:
    """Return the run as it is now, whether it was promoted, and what every report says of it.

    `stopped` is the outcome that ended it, if one did.  If the ledger cannot be read, what this process did counts.
    """
    run: RecoveryRun | None = None
    promoted = any(step.name is StepName.PROMOTE and step.state is StepState.DONE for step in world.steps)
    with suppress(TwinlogError):
        run = world.noted
    if run is not None:  # also if the answer to the promotion was lost
        promoted = run.promoted_ms is not None
    seen = {step.name for step in world.steps}
    not_done = [StepReport(step.name, StepState.PLANNED, 0.0, "") for step in steps if step.name not in seen]
    there = run if promoted else None
    return (
        run,
        promoted,
        {
            "flow": world.flow.name,
            "run": world.run,
            "dry_run": False,
            "steps": (*world.steps, *not_done),
            "rto_seconds": seconds_of(there, clock.now_ms()) if there is not None else None,
            "rpo_seconds": there.rpo_seconds if there is not None else None,
            "evidence": run.evidence if run is not None else "",
            "by": world.journal.actor.by,
            "cost": world.found.cost,
            "exit_code": stopped.exit_code if stopped is not None else ExitCode.DONE,
            "transient": stopped is not None and stopped.transient,
        },
    )


def over(flow: FlowSettings, steps: Iterable[Step[World]], run: RecoveryRun) -> Json:
    """Return what every report says of a run that is over, as the ledger tells it: nothing was looked at.  Pure."""
    return {
        "flow": flow.name,
        "run": run.run,
        "dry_run": False,
        "steps": tuple(done_before(steps, run)),
        "rto_seconds": seconds_of(run, run.at_ms),
        "rpo_seconds": run.rpo_seconds,
        "evidence": run.evidence,
        "by": run.by,
    }
