"""Find the folders that come beside the package: Dags, jobs, plugins, and examples of configuration.

In a work tree they lie at the top, where people look for them; a wheel holds them inside of the package.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

_PACKAGE: Final = Path(__file__).resolve().parent
_IN_WHEEL: Final = _PACKAGE / "_shipped"

Name = Literal["dags", "jobs", "plugins", "config"]


def folder(name: Name) -> Path:
    """Return the folder of that name."""
    if _IN_WHEEL.is_dir():
        return _IN_WHEEL / name
    return _PACKAGE.parent / name if name == "config" else _PACKAGE.parents[1] / name
