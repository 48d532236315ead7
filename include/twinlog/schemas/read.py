"""Read what both registries hold of a flow's subjects: in full, each time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from twinlog.errors import TerminalError
from twinlog.policy.selection import NameFilter
from twinlog.schemas.client import Registry
from twinlog.schemas.plan import missing_ids
from twinlog.schemas.values import Holdings, Subject, Version

AT_ONCE = 8
"""Questions that one registry is asked at the same time."""

T = TypeVar("T")
K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class Both:
    """Hold what both registries know of a flow's subjects."""

    source: Holdings
    target: Holdings


def read_both(source: Registry, target: Registry, subjects: NameFilter) -> Both:
    """Read the source's selected subjects, and what the target has in their places.

    Raises what a `Registry` raises, and TerminalError `schema-modes` if the target knows no modes.
    """
    names = tuple(it for it in source.subjects() if subjects.accepts(it))
    held = {name: it for name, it in _subjects(source, names).items() if it.versions}
    here = Holdings(held, level=source.level(), mode=source.mode() or "")
    used = {
        one.subject
        for it in here.subjects.values()
        for version in it.versions.values()
        for one in version.schema.references
    }
    there = Holdings(
        _subjects(
            target, sorted({*held, *used})
        ),  # one without versions may have a level or a mode of its own
        level=target.level(),
        mode=require_modes(target),
    )
    taken = _each(target.schema, sorted(missing_ids(here, there)))
    ids = {schema_id: schema for schema_id, schema in taken.items() if schema is not None}
    return Both(here, replace(there, ids=ids))


def require_modes(registry: Registry) -> str:
    """Return the registry's own mode.  Raises TerminalError `schema-modes` if it knows none: it keeps no ids then."""
    mode = registry.mode()
    if mode is not None:
        return mode
    raise TerminalError(
        f"{registry.name} knows no modes (GET /mode), so it takes over no ids by this API",
        hint="copy the registry's topic instead, if it has one; docs/schema-registry.md says which registries can",
        code="schema-modes",
    )


def read_subject(registry: Registry, name: str) -> Subject:
    """Read one subject with all its versions, soft-deleted ones too."""
    every, alive = registry.versions(name, deleted=True), set(registry.versions(name, deleted=False))
    versions: dict[int, Version] = {}
    for number in every:
        found = registry.version(name, number)
        if found is not None:  # else it was deleted for good meanwhile
            versions[number] = replace(found, deleted=number not in alive)
    return Subject(name, versions, registry.level(name), registry.mode(name))


def _subjects(registry: Registry, names: Sequence[str]) -> dict[str, Subject]:
    return _each(lambda name: read_subject(registry, name), names)


def _each(ask: Callable[[K], T], keys: Sequence[K]) -> dict[K, T]:
    if not keys:
        return {}
    with ThreadPoolExecutor(min(AT_ONCE, len(keys))) as threads:
        return dict(zip(keys, threads.map(ask, keys), strict=True))
