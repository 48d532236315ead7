"""Load the library that was made of kernel.c, if this installation has one for this machine.

A wheel has one for each of four platforms, and an editable install the one that it needs (hatch_build.py). Elsewhere
`LIBRARY` is None, and numpy does the same work. A library is taken only if it was made of the kernel.c beside it: a
tree whose kernel.c has changed since is slower until it is built again, never wrong.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
SOURCE = FOLDER / "kernel.c"
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


def library_file() -> Path:
    """Return where a build puts the library for this machine."""
    machine = platform.machine().lower()
    return FOLDER / "_library" / f"{sys.platform}-{_MACHINES.get(machine, machine)}.so"


def source_digest(source: Path = SOURCE) -> str:
    """Return the fingerprint of kernel.c, which a library made of it tells."""
    return hashlib.sha256(source.read_bytes()).hexdigest()[:16]


def load(file: Path, digest: str) -> Any:
    """Load a library and prepare it; return None if it is missing, for another machine, or made of another source."""
    try:
        library = ctypes.CDLL(str(file))
        library.twinlog_source.restype = ctypes.c_char_p
        if library.twinlog_source() != digest.encode():
            return None
        library.twinlog_begin(0)
    except (OSError, AttributeError):
        return None
    return library


LIBRARY = load(library_file(), source_digest()) if library_file().is_file() else None
