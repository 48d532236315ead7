"""Say how a step ended, and what that says of the whole."""

from __future__ import annotations

from dataclasses import dataclass

from twinlog.errors import ExitCode, TransientError, TwinlogError
from twinlog.formats.ledger.recovery import StepState


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a step, and what it says of the state of the whole.

    `refused` says that the gate or a person said no, `transient` that the trouble may go away by itself.
    """

    state: StepState
    message: str
    refused: bool = False
    exit_code: ExitCode = ExitCode.SAYS_NO
    transient: bool = False

    @property
    def ends(self) -> bool:
        """Say whether the failover goes no further now."""
        return self.state in {StepState.WAITING, StepState.FAILED}


def done(message: str) -> Outcome:
    """Return the outcome of a step that is done."""
    return Outcome(StepState.DONE, message)


def skipped(message: str) -> Outcome:
    """Return the outcome of a step that has nothing to do."""
    return Outcome(StepState.SKIPPED, message)


def waiting(message: str) -> Outcome:
    """Return the outcome of a step that waits for a person."""
    return Outcome(StepState.WAITING, message)


def failed(message: str, *, refused: bool = False) -> Outcome:
    """Return the outcome of a step that failed."""
    return Outcome(StepState.FAILED, message, refused, ExitCode.SAYS_NO)


def failed_by(error: TwinlogError) -> Outcome:
    """Return the outcome of a step that ended with an error."""
    transient = isinstance(error, TransientError)
    return Outcome(StepState.FAILED, str(error), exit_code=error.exit_code, transient=transient)
