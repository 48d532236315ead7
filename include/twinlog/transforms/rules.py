"""Define record rules, and say what they make of a record: dropped, with fields masked or hashed.  Pure.

Only the values of the named fields change; every other byte of a record stays.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import regex

from twinlog.policy.java_regex import MOST_SECONDS, compile_java, matches
from twinlog.policy.selection import NameFilter
from twinlog.transforms.json_fields import Finder, NotJsonError, Path, TooDeepError, content, replaced


class NotJson(StrEnum):
    """Name what becomes of a record whose value a rule cannot read as JSON."""

    FAIL = "fail"
    PASS = "pass"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class HmacKey:
    """The key of hashed fields; `digest` tells it from another key, without giving it away."""

    secret: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        """Return 16 hexadecimal digits."""
        return hmac.new(self.secret, b"twinlog.transform.rules", hashlib.sha256).hexdigest()[:16]

    def of(self, text: str) -> bytes:
        """Return the HMAC-SHA256 (RFC 2104) of a text in UTF-8, as 64 hexadecimal digits."""
        return hmac.digest(self.secret, text.encode("utf-8", "surrogatepass"), "sha256").hex().encode()


@dataclass(frozen=True, slots=True)
class FieldMatches:
    """True for a record with this field, if its content matches a Java regex as a whole; without one, always."""

    path: Path
    pattern: str | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Say what becomes of the records of some source topics; `topics` are Java regexes.

    A record whose key matches `drop_key`, or with a field `drop_field`, is dropped.  In others the fields `masked`
    become empty and the fields `hashed` become their HMAC.
    """

    name: str
    topics: tuple[str, ...]
    drop_key: str | None = None
    drop_field: FieldMatches | None = None
    masked: tuple[Path, ...] = ()
    hashed: tuple[Path, ...] = ()
    key: HmacKey | None = None
    not_json: NotJson = NotJson.FAIL

    def concerns(self, topic: str) -> bool:
        """Say whether the rule is for a topic of the source."""
        return NameFilter(self.topics).accepts(topic)

    @property
    def drops(self) -> bool:
        """Say whether the rule can take a record out of the copy."""
        return bool(self.drop_key is not None or self.drop_field) or self.not_json is NotJson.DROP

    @property
    def description(self) -> list[object]:
        """Return what tells the rule from one that does something else: neither its name nor its topics."""
        return [
            self.drop_key,
            None if self.drop_field is None else [self.drop_field.path, self.drop_field.pattern],
            sorted(set(self.masked)),
            sorted(set(self.hashed)),
            self.key.digest if self.key else "",
            self.not_json.value,
        ]


class RefusedValueError(ValueError):
    """Report a record that a rule cannot be applied to; the text says why, and holds nothing of the record."""


DROPPED: Final = b"dropped"
"""Stands for a record that a rule drops; it is told by being this object."""


Applied = Callable[[bytes | None, bytes | None], bytes | None]
"""Returns the value that rules make of a key and a value: the same object if it stays, DROPPED if it is dropped.

Raises RefusedValueError.
"""


def applied(rules: Sequence[Rule]) -> Applied:
    """Return the rules of one topic, one after the other."""
    each = [_OneRule(rule) for rule in rules]

    def apply(key: bytes | None, value: bytes | None) -> bytes | None:
        """Apply every rule, up to one that drops the record."""
        for rule in each:
            try:
                value = rule.apply(key, value)
            except _TooSlowError:
                why = f"rule {rule.name}: a pattern takes longer than {MOST_SECONDS} s to match"
                raise RefusedValueError(why) from None
            if value is DROPPED:
                break
        return value

    return apply


class _Test:
    """A condition on a field of a value, ready for many records."""

    def __init__(self, test: FieldMatches) -> None:
        self._finder = Finder([test.path])
        self._pattern = compile_java(test.pattern) if test.pattern is not None else None

    def holds(self, value: bytes) -> bool:
        """Say whether it holds for one of the places where the field is found."""
        return any(
            self._pattern is None or _matched(self._pattern, content(value[it.start : it.end].decode()))
            for it in self._finder.find(value)
        )


class _OneRule:
    """A rule, ready for many records."""

    def __init__(self, rule: Rule) -> None:
        self._rule, self.name = rule, rule.name
        self._drop_key = compile_java(rule.drop_key) if rule.drop_key is not None else None
        self._dropped = _Test(rule.drop_field) if rule.drop_field is not None else None
        edited = [*rule.masked, *rule.hashed]
        self._edited = Finder(edited) if edited else None
        self._hashed = frozenset(rule.hashed)

    def apply(self, key: bytes | None, value: bytes | None) -> bytes | None:
        """Return what the rule makes of a record; a value that is null stays null."""
        if _matches(self._drop_key, key):
            return DROPPED
        if value is None or not (self._dropped or self._edited):
            return value
        try:
            if self._dropped is not None and self._dropped.holds(value):
                return DROPPED
            return self._edit_all(value)
        except TooDeepError:
            raise RefusedValueError(f"rule {self._rule.name}: the value is nested too deeply") from None
        except NotJsonError:
            return self._of_other(value)

    def _edit_all(self, value: bytes) -> bytes:
        found = self._edited.find(value) if self._edited is not None else []
        if not found:
            return value
        made = replaced(value, [(it, self._edit(value[it.start : it.end], it.path)) for it in found])
        return value if made == value else made

    def _of_other(self, value: bytes) -> bytes:
        match self._rule.not_json:
            case NotJson.PASS:
                return value
            case NotJson.DROP:
                return DROPPED
        raise RefusedValueError(f"rule {self._rule.name}: the value is no JSON")

    def _edit(self, written: bytes, path: Path) -> bytes:
        if path in self._hashed and self._rule.key is not None:
            return written if written == b"null" else b'"%s"' % self._rule.key.of(content(written.decode()))
        return _EMPTY.get(written[:1], b"0")


def _matches(pattern: regex.Pattern[str] | None, key: bytes | None) -> bool:
    if pattern is None or key is None:
        return False
    return _matched(pattern, str(key, "utf-8", "surrogateescape"))


class _TooSlowError(Exception):
    """Report a text that takes too long to match."""


def _matched(pattern: regex.Pattern[str], text: str) -> bool:
    found = matches(pattern, text)
    if found is None:
        raise _TooSlowError
    return found


_EMPTY: Final = {b'"': b'""', b"{": b"{}", b"[": b"[]", b"t": b"false", b"f": b"false", b"n": b"null"}
"""The empty value of each type, by the first character of a value, as Connect's MaskField has it; of numbers, 0."""
