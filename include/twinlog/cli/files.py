"""Files that a command writes beside its answer: tried before the work, so that the work is never in vain."""

from __future__ import annotations

from pathlib import Path

from twinlog.cli.say import say
from twinlog.errors import UsageError


def refuse_unwritable(path: Path | None, option: str) -> None:
    """Raise UsageError when nothing can be written to `path`; what is there stays, and nothing is left there.

    Trying is the only sure way: permissions do not tell of a read-only or a virtual file system.
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
    """Write a file after the answer was shown; what goes wrong even so is a line for people, and False."""
    try:
        path.write_bytes(content)
    except OSError as error:
        say(f"error: {path} could not be written: {error.strerror}")
        return False
    return True
