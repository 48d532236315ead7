"""Identify the twinlog a process runs by a fingerprint of its sources, so that driver and workers agree on every byte.

A version would not be enough: two checkouts can have the same one, or a Connect server that has run since before an
upgrade.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

import twinlog
from twinlog.errors import TerminalError

OTHER_BUILD = "other-build"
"""Error code of a worker that runs a twinlog other than the driver's."""

_DIGITS = 12


def build_of(package: Traversable) -> str:
    """Return the fingerprint of a package: of its modules' paths and contents, wherever it is installed."""
    result = hashlib.sha256()
    for path, module in sorted(_modules(package, "")):
        content = module.read_bytes()
        result.update(f"{path}\0{len(content)}\0".encode())
        result.update(content)
    return result.hexdigest()[:_DIGITS]


def _modules(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir() and entry.name != "_shipped":  # what a wheel has beside the package
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry


BUILD = f"{twinlog.__version__}+{build_of(files(twinlog))}"
"""The build of this process, read when it starts (30 ms): later changes on the disk do not change what it runs."""


def other_build(driver: str) -> str:
    """If this process runs a twinlog other than the driver's, say which and where; else return ""."""
    if driver == BUILD:
        return ""
    return (
        f"the worker on {socket.gethostname()} runs twinlog {BUILD} ({files(twinlog)}), the driver {driver}"
    )


def refuse_build(difference: str) -> TerminalError:
    """Return the error for a worker's answer about its build."""
    return TerminalError(
        difference,
        hint="install one twinlog on both, and restart what has run since before: Connect server, Spark worker",
        code=OTHER_BUILD,
    )
