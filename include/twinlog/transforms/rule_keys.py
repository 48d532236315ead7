"""Read the keys `twinlog.transform.rules.NAME.*`, and tell the mistakes in keys of transforms.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import permutations
from typing import Final, TypeVar

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java
from twinlog.transforms.json_fields import Path
from twinlog.transforms.rules import FieldMatches, HmacKey, NotJson, Rule


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in the value of `key`; one that is not `fatal` has no effect on what is copied."""

    key: str
    message: str
    hint: str = ""
    fatal: bool = True


RULES: Final = "twinlog.transform.rules."
LISTS: Final = (".topics", ".mask", ".hash")
"""The ends of the keys that are lists."""

LEAST_KEY: Final = 16
"""The fewest characters of a key: a shorter one could be guessed from the digest that the ledger keeps."""

_ACTIONS: Final = ("drop.if.key.matches", "drop.if.field", "mask", "hash")
SECRET: Final = "hash.key"
KNOWN: Final = ("topics", *_ACTIONS, SECRET, "not.json")
"""Names that may follow a rule's name in a key."""

_KEY: Final = re.compile(r"([A-Za-z0-9_-]+)\.(.+)")

T = TypeVar("T")


def split(key: str) -> tuple[str, str] | None:
    """Split a key of a rule into the rule's name and what follows; None for any other key."""
    found = _KEY.fullmatch(key.removeprefix(RULES)) if key.startswith(RULES) else None
    return (found[1], found[2]) if found else None


def names_in(keys: Iterable[str]) -> list[str]:
    """Return the names of the rules to which some of these keys belong, in order."""
    return sorted({found[0] for key in keys if (found := split(key)) is not None})


def read_rules(
    texts: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[Rule, ...], tuple[Mistake, ...]]:
    """Return the rules that a file describes, in the order of their names, and its mistakes.

    With a mistake the rules say nothing.  `texts` are the values of all keys below RULES, `lists` those that are lists.
    """
    mistakes = [
        Mistake(key, "is unknown", f"write {RULES}NAME.{{{', '.join(KNOWN)}}}")
        for key in texts
        if (found := split(key)) is None or found[1] not in KNOWN
    ]
    rules = []
    for name in names_in(texts):
        reading = _Reading(name, texts, lists)
        rules.append(reading.rule())
        mistakes += reading.mistakes
    return tuple(rules), tuple(mistakes)


class _Reading:
    """Reads one rule, and gathers its mistakes."""

    def __init__(self, name: str, texts: Mapping[str, str], lists: Mapping[str, tuple[str, ...]]) -> None:
        self._name = name
        self._texts, self._lists = texts, lists
        self.mistakes: list[Mistake] = []

    def rule(self) -> Rule:
        """Return the rule; with a mistake it says nothing."""
        rule = Rule(
            self._name,
            topics=self._topics(),
            drop_key=self._parsed("drop.if.key.matches", _pattern),
            drop_field=self._parsed("drop.if.field", _field),
            masked=self._paths("mask"),
            hashed=self._paths("hash"),
            key=self._hmac_key(),
            not_json=self._parsed("not.json", NotJson) or NotJson.FAIL,
        )
        if not any(self._key(it) in self._texts for it in _ACTIONS):
            self._refuse(self._written(), f"rule {self._name} does nothing", f"add {', '.join(_ACTIONS)}")
        for outer, inner in _overlapping(rule):
            key = self._key("mask" if inner in rule.masked else "hash")
            self._refuse(
                key, f"{'.'.join(inner)} lies in {'.'.join(outer)}, which the rule replaces, too", "name one"
            )
        return rule

    def _topics(self) -> tuple[str, ...]:
        key = self._key("topics")
        patterns = self._lists.get(key, ())
        if not patterns:
            hint = f"add a line such as {key} = orders, payments"
            self._refuse(self._written(), f"rule {self._name} names no topics", hint)
        for pattern in patterns:
            try:
                compile_java(pattern)
            except ConfigError as error:
                self._refuse(key, error.message, error.hint)
        return patterns

    def _paths(self, name: str) -> tuple[Path, ...]:
        key = self._key(name)
        paths = tuple(_path(it) for it in self._lists.get(key, ()))
        if key in self._texts and not paths:
            self._refuse(key, "is empty", "name fields such as customer.email")
        if any(not all(path) for path in paths):
            self._refuse(
                key, "has a path with an empty name", "write names with dots between them: customer.email"
            )
        return paths

    def _hmac_key(self) -> HmacKey | None:
        """Return the key of hashed fields, which has no effect without them."""
        key, hashed = self._key(SECRET), self._key("hash")
        if hashed in self._texts and key not in self._texts:
            self._refuse(hashed, f"needs {key}", "write a reference to a secret: ${env:NAME}")
        if key not in self._texts:
            return None
        if hashed not in self._texts:
            self._refuse(key, f"has no effect without {hashed}")
        if len(self._texts[key]) < LEAST_KEY:
            self._refuse(
                key, f"is shorter than {LEAST_KEY} characters: it could be guessed", "make it by chance"
            )
        return HmacKey(self._texts[key].encode())

    def _parsed(self, name: str, parse: Callable[[str], T]) -> T | None:
        key = self._key(name)
        if key not in self._texts:
            return None
        try:
            return parse(self._texts[key])
        except ConfigError as error:
            self._refuse(key, error.message, error.hint)
        except ValueError:
            choices = parse if isinstance(parse, type) and issubclass(parse, StrEnum) else ()
            self._refuse(key, f"{self._texts[key]!r} is none of {', '.join(choices)}")
        return None

    def _written(self) -> str:
        """Return a key of the rule that stands in the file."""
        return next(it for it in self._texts if (found := split(it)) is not None and found[0] == self._name)

    def _key(self, name: str) -> str:
        return f"{RULES}{self._name}.{name}"

    def _refuse(self, key: str, message: str, hint: str = "") -> None:
        self.mistakes.append(Mistake(key, message, hint))


def _pattern(text: str) -> str:
    compile_java(text)
    return text


def _field(text: str) -> FieldMatches:
    name, given, pattern = text.partition("=")
    path = _path(name.strip())
    if not all(path):
        raise ConfigError("names no field", hint="write customer.kind, or customer.kind=test|demo")
    return FieldMatches(path, _pattern(pattern.strip()) if given else None)


def _path(text: str) -> Path:
    return tuple(text.split("."))


def _overlapping(rule: Rule) -> Iterator[tuple[Path, Path]]:
    """Yield fields that the rule would replace twice: named twice, or one within the other."""
    both = [*rule.masked, *rule.hashed]
    yield from ((path, path) for path in sorted({path for path in both if both.count(path) > 1}))
    pairs = permutations(sorted(set(both)), 2)
    yield from ((outer, inner) for outer, inner in pairs if inner[: len(outer)] == outer)
