"""Declare and read the keys of transforms: Connect's, and record rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twinlog.config.file.keys import Key, Kind
from twinlog.config.file.providers import REFERENCE
from twinlog.config.flow.reader import Reader
from twinlog.transforms.chain import NO_CHAIN, Chain, Step
from twinlog.transforms.connect import PREDICATES, TRANSFORMS, read_steps
from twinlog.transforms.rule_keys import KNOWN, LISTS, RULES, SECRET, Mistake, names_in, read_rules, split
from twinlog.transforms.rules import Rule


@dataclass(frozen=True, slots=True)
class TransformKeys:
    """The keys from which a flow's chain is read."""

    _transforms: ClassVar = Key("transforms", Kind.LIST, "")
    """names of [transforms](transforms.md) that are applied to each record, in order. Per flow"""
    _predicates: ClassVar = Key("predicates", Kind.LIST, "")
    """names of the predicates that transforms use. Per flow"""
    _topics: ClassVar = Key(f"{RULES}NAME.topics", Kind.LIST, None)
    """source topics (names or regexes) that a [record rule](transforms.md#record-rules) is for; NAME is yours"""
    _drop_key: ClassVar = Key(f"{RULES}NAME.drop.if.key.matches", Kind.STRING, None)
    """the rule drops records whose key matches this Java regex as a whole"""
    _drop_field: ClassVar = Key(f"{RULES}NAME.drop.if.field", Kind.STRING, None)
    """the rule drops records whose value, as JSON, has this field (`customer.test`), or has it with a content that
    matches a Java regex as a whole (`customer.kind=test|demo`)"""
    _mask: ClassVar = Key(f"{RULES}NAME.mask", Kind.LIST, None)
    """JSON fields that become empty: `""`, `0`, `false`, `[]` or `{}`, by their type"""
    _hash: ClassVar = Key(f"{RULES}NAME.hash", Kind.LIST, None)
    """JSON fields that become their HMAC-SHA256, in hexadecimal digits"""
    _hash_key: ClassVar = Key(f"{RULES}NAME.hash.key", Kind.STRING, None)
    """the key of `hash`, by reference: `${env:...}`, `${file:...}`; at least 16 characters"""
    _not_json: ClassVar = Key(f"{RULES}NAME.not.json", Kind.STRING, "fail")
    """what the rule does with a value that is no JSON: `fail` (the partition stops in front of it), `pass` or `drop`"""


def read_transforms(read: Reader) -> Chain:
    """Read what a flow makes of its records; mistakes go to the reader's findings."""
    return Chain(_steps(read), _rules(read))


def _steps(read: Reader) -> tuple[Step, ...]:
    """Read Connect's transforms."""
    names = {key: read.names(key) for key in (TRANSFORMS, PREDICATES)}
    below = [key for key in read if key.startswith(tuple(f"{key}." for key in names))]
    texts = {key: read.text(key) for key in below}
    if _refers(read, (*names, *below)):
        return NO_CHAIN.steps
    steps, mistakes = read_steps(names[TRANSFORMS], names[PREDICATES], texts)
    _report(read, mistakes)
    return steps


def _rules(read: Reader) -> tuple[Rule, ...]:
    keys = [key for key in read if key.startswith(RULES)]
    secret = [key for key in keys if (found := split(key)) is not None and found[1] == SECRET]
    for name in names_in(keys):
        for it in KNOWN:
            read.text(f"{RULES}{name}.{it}")  # also if it is not written: `plan --explain` shows it
    texts = {key: read.text(key) for key in keys}
    if _refers(read, [key for key in keys if key not in secret]):
        return ()
    for key in secret:
        if not REFERENCE.search(read.written(key)):
            read.refuse(
                key,
                "is written out: who reads this file could undo what the rule does",
                "write a reference: ${env:NAME}",
            )
    if any(read.unresolved(key) for key in secret):
        return ()
    lists = {key: read.names(key) for key in keys if key.endswith(LISTS)}
    rules, mistakes = read_rules(texts, lists)
    _report(read, mistakes)
    return rules


def _refers(read: Reader, keys: list[str] | tuple[str, ...]) -> bool:
    """Report keys, already read, whose value is a reference; the audit needs what is applied as it stands."""
    hidden = [key for key in keys if read.hidden(key)]
    for key in hidden:
        read.refuse(key, "is a reference: transforms are read only as they stand in the file", "write it out")
    return bool(hidden)


def _report(read: Reader, mistakes: tuple[Mistake, ...]) -> None:
    for it in mistakes:
        if it.fatal:
            read.refuse(it.key, it.message, it.hint)
        else:
            read.findings.warn(read.origin(it.key), it.message, it.hint)
