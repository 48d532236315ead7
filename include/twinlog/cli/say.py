"""Lines for people, on stderr: stdout belongs to the result."""

from __future__ import annotations

import contextlib
import sys


def say(line: str) -> None:
    """Write one line to stderr at once; nobody listening is no reason to fail."""
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def warn(line: str) -> None:
    """Say something that does not stop the command."""
    say(f"warning: {line}")
