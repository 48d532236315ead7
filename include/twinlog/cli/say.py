"""Lines and questions for people, on stderr: stdout belongs to the result."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
from enum import StrEnum
from typing import TYPE_CHECKING

import typer

from twinlog.errors import UsageError
from twinlog.visible import visible

if TYPE_CHECKING:
    from twinlog.recovery.report import Outcome


def say(*lines: str) -> None:
    """Write lines to stderr at once, whatever names in them hold; without a reader this does not fail."""
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stderr.write("".join(f"{visible(line)}\n" for line in lines))
        sys.stderr.flush()


def warn(line: str) -> None:
    """Print a warning that does not stop the command."""
    say(f"warning: {line}")


def say_step(name: StrEnum, outcome: Outcome | None) -> None:
    """Print that a step of a procedure begins (None), or how it ended."""
    say(f"{name.value} ..." if outcome is None else f"{name.value}: {outcome.state.value}: {outcome.message}")


def confirm(what: str) -> None:
    """Ask on stderr whether to go on.  Raises UsageError if the answer is no, or if nobody can answer."""
    try:
        agreed = typer.confirm(f"{visible(what)}. Go on?", err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C was pressed
        typer.echo(err=True)  # ends the line of the question
        agreed = False
    if not agreed:
        raise UsageError("nothing was done", hint="--yes answers beforehand")


def login() -> str:
    """Return the name of the person at this terminal, or the user's number, which in a container may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
