"""Lines for people, on stderr: stdout belongs to the result."""

from __future__ import annotations

import contextlib
import sys

from twinlog.visible import visible_lines


def say(line: str) -> None:
    """Write one line (a list of mistakes has several) to stderr at once; without a reader this does not fail."""
    with contextlib.suppress(BrokenPipeError, ValueError):
        sys.stderr.write(f"{visible_lines(line)}\n")
        sys.stderr.flush()


def warn(line: str) -> None:
    """Print a warning that does not stop the command."""
    say(f"warning: {line}")
