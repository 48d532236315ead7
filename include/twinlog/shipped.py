"""Find what comes beside the package: Dags, jobs, plugins, examples of configuration, and the note of its commit.

In a work tree they lie at the top, where people look for them; a wheel holds them inside of the package.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Literal

_PACKAGE = Path(__file__).resolve().parent
_IN_WHEEL = _PACKAGE / "_shipped"

Name = Literal["dags", "jobs", "plugins", "config"]


def folder(name: Name) -> Path:
    """Return the folder of that name."""
    if _IN_WHEEL.is_dir():
        return _IN_WHEEL / name
    return _PACKAGE.parent / name if name == "config" else _PACKAGE.parents[1] / name


def commit() -> str:
    """Return the commit that this twinlog was built from or runs in, with `-dirty` if files differ from it.

    It is empty if neither the package (hatch_build.py) nor git tells.
    """
    if _IN_WHEEL.is_dir():
        note = _IN_WHEEL / "COMMIT"
        return note.read_text().strip() if note.is_file() else ""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        done = subprocess.run(
            command, cwd=_PACKAGE.parents[1], capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
