"""Which twinlog a process runs: a print of its sources, so that driver and workers agree on every byte.

A version would not do: two checkouts, or a Connect server that has run since before an upgrade, have the same.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import twinlog
from twinlog.errors import TerminalError

OTHER_BUILD: Final = "other-build"
"""Code of the error of a worker that runs another twinlog than the driver."""

_DIGITS = 12


def build_of(package: Traversable) -> str:
    """Return the print of a package: of the paths and the contents of its modules, wherever it is installed."""
    result = hashlib.sha256()
    for path, module in sorted(_modules(package, "")):
        content = module.read_bytes()
        result.update(f"{path}\0{len(content)}\0".encode())
        result.update(content)
    return result.hexdigest()[:_DIGITS]


def _modules(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield f"{prefix}{entry.name}", entry


BUILD: Final = f"{twinlog.__version__}+{build_of(files(twinlog))}"
"""This process's, taken when it starts (30 ms): what lies on the disk later is not what it runs."""


def other_build(driver: str) -> str:
    """Say which twinlog this process runs, and where, if it is not the driver's; else return an empty string."""
    if driver == BUILD:
        return ""
    return (
        f"the worker on {socket.gethostname()} runs twinlog {BUILD} ({files(twinlog)}), the driver {driver}"
    )


def refuse_build(difference: str) -> TerminalError:
    """Return the error for what a worker said of itself."""
    return TerminalError(
        difference,
        hint="install one twinlog on both, and restart what has run since before: Connect server, Spark worker",
        code=OTHER_BUILD,
    )
