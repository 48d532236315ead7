"""Files that a command writes beside its answer: tested before the work, so that no work is lost."""

from __future__ import annotations

from pathlib import Path

from twinlog.cli.say import say
from twinlog.errors import UsageError


def refuse_unwritable(path: Path | None, option: str) -> None:
    """Raise UsageError if nothing can be written to `path`; an existing file stays, and no file is left behind.

    A trial is the only sure way: permissions do not reveal a read-only or a virtual file system.
    """
    if path is None or path.is_fifo() or path.is_char_device():
        return
    try:
        new = not path.exists()
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", hint=f"check {option}", file=str(path)
        ) from None


def written(path: Path, content: bytes) -> bool:
    """Write a file after the answer was shown; if that fails, print a line and return False."""
    try:
        path.write_bytes(content)
    except OSError as error:
        say(f"error: {path} could not be written: {error.strerror}")
        return False
    return True
