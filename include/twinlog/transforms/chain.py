"""Define the chain of what is made of a record: Connect's transforms.  Pure.

MM2's records have bytes as key, value and header values, so a transform of Connect sees three things of a record: the
name of its topic on the target, whether its value is null, and the names of its headers.  It either drops the record or
keeps some of its headers; key, value, timestamp and the order of headers stay.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from twinlog.policy.java_regex import compile_java


@dataclass(frozen=True, slots=True)
class RecordIsTombstone:
    """True for a record whose value is null."""


@dataclass(frozen=True, slots=True)
class HasHeaderKey:
    """True for a record with a header of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class TopicNameMatches:
    """True for every record of a topic whose name on the target matches a Java regex as a whole."""

    pattern: str

    def matches(self, topic: str) -> bool:
        """Say whether the name of a topic on the target matches."""
        return compile_java(self.pattern).match(topic) is not None


Predicate = RecordIsTombstone | HasHeaderKey | TopicNameMatches


@dataclass(frozen=True, slots=True)
class Filter:
    """Drops a record."""


@dataclass(frozen=True, slots=True)
class DropHeaders:
    """Removes every header with one of these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One transform, applied if its predicate holds (with `negate`: does not hold); without a predicate, always."""

    transform: Filter | DropHeaders
    predicate: Predicate | None = None
    negate: bool = False

    def applies(self, tombstone: bool, headers: Sequence[str]) -> bool:
        """Say whether the transform is applied to a record with a null value, or with headers of these names."""
        match self.predicate:
            case RecordIsTombstone():
                return tombstone != self.negate
            case HasHeaderKey(name):
                return (name in headers) != self.negate
            case TopicNameMatches():
                raise AssertionError("a chain is narrowed to one topic before it is applied")
        return True


@dataclass(frozen=True, slots=True)
class Chain:
    """Say what a flow makes of records, or of those of one topic, in this order; an empty chain changes nothing."""

    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def drops(self) -> bool:
        """Say whether the chain can take a record out of the copy."""
        return any(isinstance(step.transform, Filter) for step in self.steps)

    @property
    def header_names(self) -> frozenset[str]:
        """The names of headers that matter to the chain."""
        asked = (step.predicate.name for step in self.steps if isinstance(step.predicate, HasHeaderKey))
        dropped = (
            name
            for step in self.steps
            if isinstance(step.transform, DropHeaders)
            for name in step.transform.names
        )
        return frozenset((*asked, *dropped))

    @property
    def print(self) -> str:
        """Identify the chain: two chains that do the same have the same print; "" for an empty chain."""
        if not self:
            return ""
        text = json.dumps([_described(step) for step in self.steps], separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def of(self, remote_topic: str) -> Chain:
        """Return the chain of one topic, by its name on the target: without what can never apply to it."""
        steps: list[Step] = []
        for step in self.steps:
            narrowed = step
            if isinstance(step.predicate, TopicNameMatches):
                if step.predicate.matches(remote_topic) == step.negate:
                    continue
                narrowed = Step(step.transform)
            steps.append(narrowed)
            if narrowed == Step(Filter()):
                break  # nothing reaches what is behind it
        return Chain(tuple(steps))

    def kept(self, tombstone: bool, headers: Sequence[str]) -> tuple[int, ...] | None:
        """Return which headers the steps keep of a record, by their indices; None if they drop the record."""
        indices = tuple(range(len(headers)))
        for step in self.steps:
            if not step.applies(tombstone, [headers[index] for index in indices]):
                continue
            if isinstance(step.transform, Filter):
                return None
            gone = step.transform.names
            indices = tuple(index for index in indices if headers[index] not in gone)
        return indices


def _described(step: Step) -> list[object]:
    match step.transform:
        case Filter():
            transform: list[object] = ["Filter"]
        case DropHeaders(names):
            transform = ["DropHeaders", *sorted(set(names))]
    match step.predicate:
        case None:
            return [transform]
        case RecordIsTombstone():
            predicate = ["RecordIsTombstone"]
        case HasHeaderKey(name):
            predicate = ["HasHeaderKey", name]
        case TopicNameMatches(pattern):
            predicate = ["TopicNameMatches", pattern]
    return [transform, predicate, step.negate]


NO_CHAIN = Chain()
"""The chain of a flow without transforms."""
