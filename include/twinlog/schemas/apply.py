"""Make the changes of a plan on the target's registry: nothing else, and nothing half-done.

A subject is in mode IMPORT only while it is changed.  Every version is read back: an id or a number that the registry
gave instead of the one asked for is taken back, and nothing more is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from twinlog.errors import TerminalError, TwinlogError
from twinlog.policy.selection import NameFilter
from twinlog.schemas.client import Registry
from twinlog.schemas.plan import AT_REST, RELEASED, ModeChange, Registration, SchemaPlan
from twinlog.schemas.values import Mode

_OURS = frozenset({AT_REST, Mode.IMPORT.value})
"""Modes that the sync gives to copies."""


@dataclass(slots=True)
class _Work:
    """Note what this process has done: which subjects it put into mode IMPORT, from which one, and wrote to."""

    opened: dict[str, str | None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


def apply(plan: SchemaPlan, target: Registry, released: Callable[[], bool] = lambda: False) -> None:
    """Make all changes of a plan.

    `released` says whether the target was promoted meanwhile: then clients register there, and copies get that mode.
    A plan that was stopped may be made anew and applied at any time.  Raises what a `Registry` and `released` raise,
    and TerminalError `schema-modes` if the registry takes no mode, `schema-ids` if it gives ids of its own.
    """
    work = _Work()
    try:
        for name in _changed(plan):
            _open(target, name, work)
        for registration in plan.registrations:
            _register(target, registration, work)
        for gone in plan.deletions:
            target.delete(gone.subject, gone.number)
        for level in plan.levels:
            target.set_level(level.subject, level.after)
    except TwinlogError:
        _give_back(target, work)
        with suppress(TwinlogError):  # what stopped it is told
            _end(target, _copies(work), released)
        raise
    _end(target, tuple(dict.fromkeys([*work.opened, *(mode.subject for mode in plan.modes)])), released)


def _changed(plan: SchemaPlan) -> tuple[str, ...]:
    """Return the subjects that have to be in mode IMPORT: a READONLY one takes no change at all."""
    names = [registration.subject for registration in plan.registrations]
    names += [deletion.subject for deletion in plan.deletions] + [level.subject for level in plan.levels]
    return tuple(dict.fromkeys(names))


def _open(target: Registry, name: str, work: _Work) -> None:
    before = target.mode(name)
    work.opened[name] = before
    _set_mode(target, name, Mode.IMPORT.value)


def _set_mode(target: Registry, name: str, mode: str) -> None:
    """Set a mode and read it back: some registries answer well, and keep none."""
    target.set_mode(name, mode)
    found = target.mode(name)
    if found != mode:
        raise TerminalError(
            f"{target.name} takes no mode {mode} for {name}: it says {found or 'none'}",
            hint="copy the registry's topic instead, if it has one; docs/schema-registry.md says which registries can",
            code="schema-modes",
            subject=name,
        )


def _register(target: Registry, it: Registration, work: _Work) -> None:
    """Register a version, and see that it has its id and its number."""
    wanted = it.what
    before = set(target.versions(it.subject, deleted=True))
    given = target.register(it.subject, wanted)
    found = target.version(it.subject, wanted.number) if given == wanted.id else None
    if found is not None and found.id == wanted.id and found.schema.same(wanted.schema):
        work.written.add(it.subject)
        return
    left = _take_back(target, it, given, before)
    what = f"id {given}" if given != wanted.id else f"id {given}, but not as version {wanted.number}"
    raise TerminalError(
        f"{target.name} gave {what} to version {wanted.number} of {it.subject}, which has id {wanted.id} on the source:"
        f" it takes over no ids by this API; {left or 'that version was deleted again, and nothing more was written'}",
        hint="copy the registry's topic instead, if it has one; docs/schema-registry.md says which registries can",
        code="schema-ids",
        subject=it.subject,
        version=wanted.number,
    )


def _take_back(target: Registry, it: Registration, given: int, before: set[int]) -> str:
    """Delete the version that has just come with another id or number; say what could not be deleted.

    A subject that came with it goes, too: Apicurio would keep it without versions.
    """
    try:
        there = set(target.versions(it.subject, deleted=True))
        numbers = [number for number in sorted(there - before) if _is_it(target, it, number, given)]
        if numbers and there == set(numbers):
            target.delete_subject(it.subject)
            return ""
        for number in numbers:
            target.delete(it.subject, number)
            target.delete(it.subject, number, permanent=True)
    except TwinlogError as error:
        return f"delete what is new in {it.subject} there by hand: {error.message}"
    return ""


def _is_it(target: Registry, it: Registration, number: int, given: int) -> bool:
    found = target.version(it.subject, number)
    return found is not None and found.id == given and found.schema.same(it.what.schema)


def _copies(work: _Work) -> tuple[str, ...]:
    """Return the opened subjects that were written to, or were copies before."""
    return tuple(name for name, mode in work.opened.items() if name in work.written or mode in _OURS)


def _give_back(target: Registry, work: _Work) -> None:
    """Give the other opened subjects the mode they had, as far as the registry lets us: nothing of them was changed."""
    for name in work.opened.keys() - set(_copies(work)):
        with suppress(TwinlogError):
            target.set_mode(name, work.opened[name])


def _end(target: Registry, names: Sequence[str], released: Callable[[], bool]) -> None:
    """Give copies their mode, and look again: a promotion that came in between has set its own before.

    One that comes later finds READONLY, and sets its own after.  A registry that does not answer leaves copies in mode
    IMPORT: nobody registers there without saying an id, and the next sync goes on.
    """
    if not names:
        return
    before = released()
    for name in names:
        _set_mode(target, name, RELEASED if before else AT_REST)
    if not before and released():
        for name in names:
            _set_mode(target, name, RELEASED)


def to_release(target: Registry, subjects: NameFilter) -> tuple[ModeChange, ...]:
    """Return the changes that let clients register the copied subjects again.  Raises what a `Registry` raises."""
    modes = {name: target.mode(name) for name in sorted(target.subjects()) if subjects.accepts(name)}
    return tuple(ModeChange(name, mode, RELEASED) for name, mode in modes.items() if mode in _OURS)


def release(target: Registry, changes: Iterable[ModeChange]) -> None:
    """Let everybody register again: each subject of a promoted target gets its mode.  May be repeated."""
    for change in changes:
        _set_mode(target, change.subject, change.after)
