"""Ask a person before something is dropped or deleted."""

from __future__ import annotations

import sys

import typer

from twinlog.errors import UsageError


def confirm(what: str) -> None:
    """Ask on stderr whether to go on.  Raises UsageError if the answer is no, or if nobody can answer."""
    try:
        agreed = typer.confirm(f"{what}. Go on?", err=True)
    except typer.Abort:
        if sys.stdin.isatty():
            raise  # Ctrl-C was pressed
        agreed = False
    if not agreed:
        raise UsageError("nothing was done", hint="--yes answers beforehand")
