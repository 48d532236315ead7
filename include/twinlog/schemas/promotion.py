"""Let clients register on a promoted target: the copied subjects become READWRITE."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.policy.selection import NameFilter
from twinlog.schemas.client import Registry
from twinlog.schemas.plan import AT_REST, RELEASED, ModeChange
from twinlog.schemas.values import Mode

_OURS = frozenset({AT_REST, Mode.IMPORT.value})
"""Modes that the sync gives to copies."""


def to_release(modes: Mapping[str, str | None]) -> tuple[ModeChange, ...]:
    """Return the changes that let clients register; `modes` are those of the copied subjects.  Pure."""
    return tuple(ModeChange(name, mode, RELEASED) for name, mode in sorted(modes.items()) if mode in _OURS)


def read_modes(target: Registry, subjects: NameFilter) -> dict[str, str | None]:
    """Return the mode of each subject of the target that the flow copies.  Raises what a `Registry` raises."""
    return {name: target.mode(name) for name in target.subjects() if subjects.accepts(name)}
