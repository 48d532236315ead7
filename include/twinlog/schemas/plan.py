"""Decide what a schema registry lacks to hold what another one holds.  Pure.

Nothing is ever overwritten, and no id changed: what is in the way is a conflict.  It holds back its subject, and every
subject whose schemas refer to what is held back; the others are copied.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from twinlog.grouped import without_keys
from twinlog.schemas.values import OTHER_CONTEXT, Holdings, Mode, Subject, Version

AT_REST = Mode.READONLY.value
"""The mode of a copied subject while its flow follows: nobody else registers there."""

RELEASED = Mode.READWRITE.value
"""The mode of a copied subject once its target is promoted: clients register there."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A version that is to be registered with its id, or was."""

    subject: str
    version: int
    id: int
    type: str
    what: Version = field(repr=False)

    @classmethod
    def of(cls, subject: str, what: Version) -> Registration:
        """Register `what` as a version of a subject."""
        return cls(subject, what.number, what.id, what.schema.type, what)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A version that the source has soft-deleted, and the target not yet."""

    subject: str
    number: int


@dataclass(frozen=True, slots=True)
class LevelChange:
    """The compatibility level of a subject; None: it has that of its registry."""

    subject: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class ModeChange:
    """The mode that a subject is to have in the end; `before` None: it had that of its registry."""

    subject: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class Conflict:
    """Name what is in the way of a subject, by a stable code and a message for people."""

    subject: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A subject of the source that is not copied, and need not be."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """All that is to be done on the target, in this order; `conflicts` hold back their subjects.

    `notes` are differences that no sync changes: a person decides about them.
    """

    registrations: tuple[Registration, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    levels: tuple[LevelChange, ...] = ()
    modes: tuple[ModeChange, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        """Count what is to be done."""
        return len(self.registrations) + len(self.deletions) + len(self.levels) + len(self.modes)

    @property
    def equal(self) -> bool:
        """Say whether the target holds all that the source holds, and nobody else can change it."""
        return not (self.changes or self.conflicts or self.notes)

    @property
    def differences(self) -> tuple[str, ...]:
        """Name each difference between the two registries in a line."""
        return (
            *(f"{conflict.subject}: {conflict.message}" for conflict in self.conflicts),
            *(
                f"{registration.subject}: version {registration.version} (id {registration.id}) is missing"
                for registration in self.registrations
            ),
            *(
                f"{deletion.subject}: version {deletion.number} is deleted on the source only"
                for deletion in self.deletions
            ),
            *(
                f"{level.subject}: compatibility is {level.before or 'not set'},"
                f" {level.after or 'not set'} on the source"
                for level in self.levels
            ),
            *(
                f"{mode.subject}: mode is {mode.before or 'not set'} instead of {mode.after}"
                for mode in self.modes
            ),
            *self.notes,
        )


def make_plan(
    source: Holdings, target: Holdings, here: str, there: str, *, claims: bool = True
) -> SchemaPlan:
    """Plan how `target` comes to hold what `source` holds; `here` and `there` are their aliases, for messages.

    Unless it `claims`, a subject of the target to which clients may register is no copy: the reverse flow follows, too,
    and may copy it.  `target.ids` has to hold every schema of the target whose id a missing version has.
    """
    left_out = tuple(_left_out(source, target, here, there))
    spared = {out.subject for out in left_out}
    wanted = without_keys(source.subjects, spared)
    conflicts = [
        conflict for name in sorted(wanted) for conflict in _conflicts(wanted[name], target, here, there)
    ]
    if not claims:
        conflicts += _on_both_sides(wanted, target, {conflict.subject for conflict in conflicts}, here, there)
    held = {conflict.subject for conflict in conflicts}
    while more := [
        conflict
        for conflict in _held_by_references(wanted, target, held, there)
        if conflict.subject not in held
    ]:
        conflicts += more
        held |= {conflict.subject for conflict in more}
    free = without_keys(wanted, held)
    ordered, circle = in_order([Registration.of(*it) for it in _missing(free, target)])
    if circle:
        named = {registration.subject for registration in circle}
        conflicts += [
            Conflict(it, "schema-circle", "its schemas refer to each other in a circle") for it in named
        ]
        ordered = tuple(registration for registration in ordered if registration.subject not in named)
        free = without_keys(free, named)
    return SchemaPlan(
        registrations=ordered,
        deletions=tuple(_deletions(free, target, ordered)),
        levels=tuple(_levels(free, target)),
        modes=tuple(_modes(free, target)),
        conflicts=tuple(sorted(conflicts, key=lambda it: (it.subject, it.code, it.message))),
        left_out=left_out,
        notes=tuple(_notes(wanted, source, target, here, there)),
    )


def missing_ids(source: Holdings, target: Holdings) -> frozenset[int]:
    """Return the ids that the target would have to give to the source's schemas.  Pure."""
    return frozenset(version.id for _, version in _missing(source.subjects, target))


def _missing(subjects: Mapping[str, Subject], target: Holdings) -> Iterator[tuple[str, Version]]:
    """Yield the versions that the target does not have, each with its subject."""
    for name, subject in subjects.items():
        known = _versions(target, name)
        yield from ((name, it) for it in subject.versions.values() if it.number not in known)


def _versions(holdings: Holdings, name: str) -> Mapping[int, Version]:
    found = holdings.subjects.get(name)
    return found.versions if found is not None else {}


def _left_out(source: Holdings, target: Holdings, here: str, there: str) -> Iterator[LeftOut]:
    """Leave out what is itself a copy of the other side's: the reverse flow has brought it."""
    for name, subject in sorted(source.subjects.items()):
        if _is_copy(subject, target) and not _not_held(subject, target):
            yield LeftOut(name, f"READONLY on {here}: a copy of what {there} has")


def _is_copy(subject: Subject, target: Holdings) -> bool:
    """Say whether a subject of the source looks like a copy: nobody may register there, but on the target."""
    copy = target.subjects.get(subject.name)
    return subject.mode == AT_REST and copy is not None and copy.mode not in {AT_REST, Mode.IMPORT.value}


def _not_held(subject: Subject, target: Holdings) -> list[int]:
    """Return the versions of a subject that the target does not hold as they are."""
    copies = _versions(target, subject.name)
    return [
        number
        for number, it in sorted(subject.versions.items())
        if number not in copies or copies[number].id != it.id or not copies[number].schema.same(it.schema)
    ]


def _conflicts(subject: Subject, target: Holdings, here: str, there: str) -> Iterator[Conflict]:
    """Name what of a subject cannot be copied as it is."""
    if subject.name.startswith(OTHER_CONTEXT):
        yield Conflict(
            subject.name, "schema-context", "subjects of other contexts than the default are not copied"
        )
        return
    if _is_copy(subject, target) and (numbers := _not_held(subject, target)):
        text = (
            f"READONLY on {here}, not on {there}, which lacks version {numbers[0]}: which side is the copy? Set"
            " READWRITE where clients register"
        )
        yield Conflict(subject.name, "schema-read-only", text)
        return
    copies = _versions(target, subject.name)
    for number, version in sorted(subject.versions.items()):
        copy = copies.get(number)
        if copy is None:
            taken = target.ids.get(version.id)
            if taken is not None and not taken.same(version.schema):
                text = f"id {version.id} of version {number} has another schema on {there}"
                yield Conflict(subject.name, "schema-id-taken", text)
        elif copy.id != version.id:
            text = f"version {number} has id {version.id} on {here}, {copy.id} on {there}"
            yield Conflict(subject.name, "schema-version-taken", text)
        elif not copy.schema.same(version.schema):
            text = f"version {number} (id {version.id}) is another schema on {there}"
            yield Conflict(subject.name, "schema-version-taken", text)
        elif copy.deleted and not version.deleted:
            text = f"version {number} is deleted on {there}, not on {here}"
            yield Conflict(subject.name, "schema-deleted-there", text)
    for number in sorted(set(copies) - set(subject.versions)):
        text = f"version {number} (id {copies[number].id}) is on {there} alone"
        yield Conflict(subject.name, "schema-only-there", text)


def _on_both_sides(
    wanted: Mapping[str, Subject], target: Holdings, held: set[str], here: str, there: str
) -> Iterator[Conflict]:
    """Name subjects that clients may register to on both sides."""
    for name in sorted(set(wanted) - held):
        copy = target.subjects.get(name)
        if copy is not None and copy.versions and copy.mode not in {AT_REST, Mode.IMPORT.value}:
            text = (
                f"clients may register on {here} and on {there}, and {there}->{here} follows, too: set READONLY where"
                " they do not"
            )
            yield Conflict(name, "schema-both-sides", text)


def _held_by_references(
    wanted: Mapping[str, Subject], target: Holdings, held: set[str], there: str
) -> Iterator[Conflict]:
    """Name subjects that refer to what will not be on the target."""
    for name in sorted(set(wanted) - held):
        for version in wanted[name].versions.values():
            if version.number in _versions(target, name):
                continue
            for reference in version.schema.references:
                comes = (
                    reference.subject in wanted
                    and reference.subject not in held
                    and reference.version in wanted[reference.subject].versions
                )
                if not comes and reference.version not in _versions(target, reference.subject):
                    text = (
                        f"version {version.number} refers to version {reference.version} of {reference.subject},"
                        f" which is not on {there} and is not copied"
                    )
                    yield Conflict(name, "schema-reference", text)


def in_order(
    missing: Sequence[Registration],
) -> tuple[tuple[Registration, ...], tuple[Registration, ...]]:
    """Order registrations: what is referred to before what refers to it, versions upwards, else by id.

    The second result is what refers to itself in a circle.  Pure.
    """
    by_name = {(registration.subject, registration.version): registration for registration in missing}
    waits = {
        key: {(one.subject, one.version) for one in it.what.schema.references} & by_name.keys()
        for key, it in by_name.items()
    }
    for earlier, later in pairwise(sorted(by_name)):
        if earlier[0] == later[0]:
            waits[later].add(earlier)
    sorter = TopologicalSorter(waits)
    with suppress(CycleError):  # what is no part of a circle, and waits for none, can still be ordered
        sorter.prepare()
    ready: list[tuple[int, tuple[str, int]]] = []
    ordered: list[Registration] = []
    while sorter.is_active():
        for key in sorter.get_ready():
            heapq.heappush(ready, (by_name[key].id, key))
        _, key = heapq.heappop(ready)
        ordered.append(by_name.pop(key))
        sorter.done(key)
    return tuple(ordered), tuple(by_name.values())


def _deletions(
    free: Mapping[str, Subject], target: Holdings, ordered: Sequence[Registration]
) -> Iterator[Deletion]:
    """Yield what is to be soft-deleted: what refers to others first, as they were registered last."""
    yield from (
        Deletion(registration.subject, registration.version)
        for registration in reversed(ordered)
        if registration.what.deleted
    )
    there = [
        (version.id, name, version.number)
        for name, subject in free.items()
        for version in subject.versions.values()
        if version.deleted and version.number in _versions(target, name)
        if not _versions(target, name)[version.number].deleted
    ]
    yield from (Deletion(name, number) for _, name, number in sorted(there, reverse=True))


def _levels(free: Mapping[str, Subject], target: Holdings) -> Iterator[LevelChange]:
    for name in sorted(free):
        copy = target.subjects.get(name)
        before, after = copy.level if copy is not None else None, free[name].level
        if before != after:
            yield LevelChange(name, before, after)


def _modes(free: Mapping[str, Subject], target: Holdings) -> Iterator[ModeChange]:
    for name in sorted(free):
        copy = target.subjects.get(name)
        before = copy.mode if copy is not None else None
        if before != AT_REST:
            yield ModeChange(name, before, AT_REST)


def _notes(
    wanted: Mapping[str, Subject], source: Holdings, target: Holdings, here: str, there: str
) -> Iterator[str]:
    """Name what no sync changes: the registry's own compatibility, where a subject relies on it."""
    if source.level != target.level and any(subject.level is None for subject in wanted.values()):
        yield (
            f"the compatibility of all subjects is {source.level} on {here}, {target.level} on {there}; a person sets"
            f" it (PUT /config)"
        )
