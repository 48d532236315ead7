"""Name filters: MM2's include and exclude lists as one question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts a name that an include pattern matches as a whole and no exclude pattern does."""

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
