"""Say what a step of a procedure is, how it ends, and walk steps in their order.

A procedure is a tuple of steps: its dry run, its progress, its report and its runbook come from them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Any, Generic, TypeVar

from twinlog.errors import ExitCode, TransientError, TwinlogError
from twinlog.formats.ledger.recovery import RecoveryRun, StepState
from twinlog.visible import singular


class StepName(StrEnum):
    """Name the steps of all procedures."""

    BEGIN = "begin"
    FENCE_PRODUCERS = "fence-producers"
    DRAIN = "drain"
    GROUPS = "groups"
    AUDIT = "audit"
    LOSS = "loss"
    GATE = "gate"
    APPROVE = "approve"
    RIGHTS = "rights"
    PROMOTE = "promote"
    SCHEMAS = "schemas"
    SWITCH_CLIENTS = "switch-clients"
    CANARY = "canary"
    REPORT = "report"
    COMPARE = "compare"
    EXPORT_TAIL = "export-tail"
    WRITE_FILES = "write-files"
    BRING_HOME = "bring-home"
    FOLLOW = "follow"
    TIDY = "tidy"
    CHOOSE = "choose"
    PLACE = "place"
    READ = "read"
    AT_RISK = "at-risk"
    CLEAN_UP = "clean-up"
    STOPPED = "stopped"
    WRITE = "write"
    NOTE = "note"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step, and what it says of the state of the whole.

    `refused` says that the gate or a person said no, `transient` that the trouble may go away by itself;
    `error` is what ended it.  `found` is what the steps behind it know by it, None if that is nothing new.
    """

    state: StepState
    message: str
    found: Any = None
    refused: bool = False
    exit_code: ExitCode = ExitCode.SAYS_NO
    transient: bool = False
    error: TwinlogError | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", singular(self.message))

    @property
    def ends(self) -> bool:
        """Say whether the procedure goes no further now."""
        return self.state in {StepState.WAITING, StepState.FAILED}


done = partial(Outcome, StepState.DONE)
"""Make the outcome of a step that is done."""

skipped = partial(Outcome, StepState.SKIPPED)
"""Make the outcome of a step that has nothing to do."""

waiting = partial(Outcome, StepState.WAITING)
"""Make the outcome of a step that waits for a person."""

failed = partial(Outcome, StepState.FAILED)
"""Make the outcome of a step that failed."""

planned = partial(Outcome, StepState.PLANNED)
"""Make the outcome of a step that was only looked at."""


def failed_by(error: TwinlogError, found: object = None) -> Outcome:
    """Return the outcome of a step that ended with an error."""
    return Outcome(
        StepState.FAILED,
        str(error),
        found,
        exit_code=error.exit_code,
        transient=isinstance(error, TransientError),
        error=error,
    )


def learned(outcome: Outcome, found: object) -> Outcome:
    """Return the outcome with what is known by it."""
    return replace(outcome, found=found)


World = TypeVar("World")
Other = TypeVar("Other")
Look = Callable[[World], str | Outcome]


@dataclass(frozen=True, slots=True)
class Step(Generic[World]):
    """One step: what it does, what is to be expected of it, and what to do otherwise; A is the source, B the target.

    `do` does it; the first step of a run has none.  `look` says what it would do now, with the numbers, "" if there are
    none; a look that finds something for the steps behind it returns an outcome.
    `undo` takes back what it did for a run that is over, and returns what is left for a person; it may be repeated.
    """

    name: StepName
    does: str
    expected: str
    otherwise: str
    do: Callable[[World], Outcome] | None = None
    look: Look[World] | None = None
    undo: Callable[[World, RecoveryRun], list[str]] | None = None

    def on(self, do: Callable[[Other], Outcome], look: Look[Other] | None = None) -> Step[Other]:
        """Return the step as another procedure does it."""
        return Step(self.name, self.does, self.expected, self.otherwise, do, look)

    def does_for(self, source: str, target: str) -> str:
        """Say what it does with the aliases of a flow."""
        return re.sub(r"\b[AB]\b", lambda found: {"A": source, "B": target}[found[0]], self.does)

    def looking(self, source: str, target: str) -> Step[World]:
        """Return the step as a dry run does it: it says what it would do now, and changes nothing."""

        def look(world: World) -> Outcome:
            told = self.look(world) if self.look is not None else ""
            outcome = told if isinstance(told, Outcome) else planned(told)
            return outcome if outcome.message else replace(outcome, message=self.does_for(source, target))

        return replace(self, do=look)


@dataclass(frozen=True, slots=True)
class StepReport:
    """The outcome of a step and the seconds it took."""

    name: StepName
    state: StepState
    seconds: float
    message: str


Told = Callable[[StepName, Outcome | None], None]
"""Hears of a step that begins (None), and of its outcome."""


@dataclass(frozen=True, slots=True)
class Walked(Generic[World]):
    """Tell what a walk has left: the world behind the last step, a row for each, and the outcomes that ended one."""

    world: World
    rows: tuple[StepReport, ...]
    stopped: tuple[Outcome, ...]

    def raised(self) -> Walked[World]:
        """Return it, or raise the error that ended a step."""
        for outcome in self.stopped:
            if outcome.error is not None:
                raise outcome.error
        return self


def walk(
    steps: Iterable[Step[World]],
    world: World,
    told: Told,
    *,
    keep: Callable[[World, StepReport, Outcome], World] = lambda world, _, outcome: outcome.found or world,
    goes_on: Callable[[World, Outcome], bool] = lambda _world, _outcome: False,
) -> Walked[World]:
    """Do steps in their order, each in the world that the one before has left.

    `keep` makes that world of what a step has found, `goes_on` says whether the next step is done although this one
    failed or waits.  Raises FencedError `relieved` if another process goes on with the run: this one has nothing to
    report.
    """
    rows, stopped = list[StepReport](), list[Outcome]()
    for step in steps:
        outcome, row = _done(step, world, told)
        rows.append(row)
        world = keep(world, row, outcome)
        if outcome.ends:
            stopped.append(outcome)
            if not goes_on(world, outcome):
                break
    return Walked(world, tuple(rows), tuple(stopped))


def _done(step: Step[World], world: World, told: Told) -> tuple[Outcome, StepReport]:
    assert step.do is not None
    told(step.name, None)
    began = time.monotonic()
    try:
        outcome = step.do(world)
    except TwinlogError as error:
        if error.code == "relieved":
            raise
        outcome = failed_by(error)
    told(step.name, outcome)
    return outcome, StepReport(step.name, outcome.state, round(time.monotonic() - began, 3), outcome.message)


def but_errors(told: Told) -> Told:
    """Tell of everything but an error that is raised: who catches it tells of it."""

    def tell(name: StepName, outcome: Outcome | None) -> None:
        if outcome is None or outcome.error is None:
            told(name, outcome)

    return tell


def silent(_name: StepName, _outcome: Outcome | None) -> None:
    """Tell nobody of a step."""
