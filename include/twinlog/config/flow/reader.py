"""Turn properties into typed values, as Kafka's ConfigDef parses them, and record each for `plan --explain`.

A value that cannot be read becomes a finding and the default takes its place, so that one pass over a file finds all
its mistakes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import TypeVar

from twinlog.config.file.keys import Key, is_secret, whole_number
from twinlog.config.file.origin import Findings, Origin, Properties, Property, given, is_elsewhere
from twinlog.config.file.providers import MASK, Providers, Secret
from twinlog.errors import ConfigError

Choice = TypeVar("Choice", bound=StrEnum)
Parsed = TypeVar("Parsed")

UNRESOLVED = "[unresolved]"
"""Shown for a value that is not on this machine."""

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_CONNECT_OPTION = re.compile(r"(;(?!use_ssl=|user_id=|session_id=)[^=;\s]+=)[^;\s]+")
"""An option of a Spark Connect address: a token, or a header that may hold one."""
_SPLIT_BRACES = re.compile(r"\{\d*\s*,\s*\d*\}")


@dataclass(frozen=True, slots=True)
class ResolvedValue:
    """One typed value: its key, its text as it may be shown (secrets masked), and its origin."""

    key: str
    shown: str
    origin: Origin


def shown(key: str, text: str, *, indirect: bool = False) -> str:
    """Return a value as it may be shown: without secrets, resolved references, or a URL's login or token."""
    if text and (indirect or is_secret(key)):
        return MASK
    hidden = _USER_INFO.sub(f"{MASK}@", text)
    return _CONNECT_OPTION.sub(rf"\1{MASK}", hidden) if hidden.startswith("sc://") else hidden


@cache
def _by_default(key: str, text: str) -> ResolvedValue:
    """Return the value of a key that is not written: one for all flows, since a default refers to nothing."""
    return ResolvedValue(key, shown(key, text), given(text).origin)


class Reader:
    """Reads the typed values of one flow (or cluster) from its resolved properties.

    Each read leaves a ResolvedValue in `trace` and mistakes in `findings`.  `keys` are those with a default.
    """

    def __init__(
        self,
        properties: Properties,
        providers: Providers,
        findings: Findings,
        keys: Mapping[str, Key] = MappingProxyType({}),
    ) -> None:
        self._properties = properties
        self._keys = keys
        self._providers = providers
        self.findings = findings
        self.trace: dict[str, ResolvedValue] = {}
        self._unknown: set[Origin] = set()
        self._unresolved: set[Origin] = set()

    def origin(self, key: str) -> Origin:
        """Return the origin of a key's value."""
        found = self._properties.get(key)
        return found.origin if found is not None else given("").origin

    def __iter__(self) -> Iterator[str]:
        """Yield the keys that are written in the file."""
        return iter(self._properties)

    def has(self, key: str) -> bool:
        """Say whether this key is written in the file."""
        return key in self._properties

    def unresolved(self, key: str) -> bool:
        """Say whether the value of this key, already read, is not on this machine."""
        return self.origin(key) in self._unresolved

    def hidden(self, key: str) -> bool:
        """Say whether the value of this key, already read, may not be shown."""
        return self.trace[key].shown == MASK

    def text(self, key: str) -> str:
        """Return a string, trimmed; "" if neither the file nor Kafka has a value."""
        return self._text(key) or ""

    def boolean(self, key: str) -> bool:
        """Return true or false, in any case (ConfigDef BOOLEAN)."""
        return bool(self.parsed(key, _boolean, "is neither true nor false"))

    def integer(
        self, key: str, *, at_least: int | None = None, also: int | None = None, most: int = LONG_MAX
    ) -> int | None:
        """Return an integer not below `at_least`, or `also` (such as -1 for "the broker's default").

        None if nothing is written and the key has no default.
        """

        def parse(text: str) -> int:
            """Read a number as Kafka's ConfigDef does: digits only, within INT or LONG."""
            number = whole_number(text)
            if not -most - 1 <= number <= most or (
                number != also and at_least is not None and number < at_least
            ):
                raise ValueError
            return number

        allowed = "a whole number" + (f" of at least {at_least}" if at_least is not None else "")
        return self.parsed(key, parse, f"is not {allowed}{f', or {also}' if also is not None else ''}")

    def choice(self, key: str, kind: type[Choice]) -> Choice:
        """Return the member of an enumeration that the value names; the first one if there is no value."""
        return self.parsed(key, kind, f"is none of {', '.join(kind)}") or next(iter(kind))

    def parsed(self, key: str, parse: Callable[[str], Parsed], otherwise: str) -> Parsed | None:
        """Return the parsed text; if `parse` raises ValueError, report `otherwise` and return the default.

        None if there is no text, or no default in its place.
        """
        text, default = self._text(key), self.default(key)
        if text is None:
            return None
        try:
            return parse(text)
        except ValueError:
            self.refuse(key, f"{self.trace[key].shown!r} {otherwise}")
            return None if default is None else parse(default)

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list: split at commas, trimmed, empty elements dropped with a warning (ConfigDef LIST)."""
        text = self._text(key) or ""
        parts = [part.strip() for part in text.split(",")] if text else []
        if not all(parts):
            self.findings.warn(self.origin(key), "has an empty element", "remove the extra comma")
        if _SPLIT_BRACES.search(text):
            self.findings.error(
                self.origin(key),
                "a list is split at every comma, also within {m,n}",
                "write the repetition without a comma",
            )
        return tuple(filter(None, parts))

    def written(self, key: str) -> str:
        """Return the text of a key as it stands in the file, references included; "" if it is not written."""
        found = self._properties.get(key)
        return found.text if found is not None else ""

    def refuse(self, key: str, message: str, hint: str = "") -> None:
        """Keep a mistake in a value that can be parsed."""
        self.findings.error(self.origin(key), message, hint)

    def note(self, key: str, message: str) -> None:
        """Keep a note about a value that is no mistake; `plan --explain` shows it."""
        self.findings.note(self.origin(key), message)

    def client(self, label: str, properties: Properties) -> dict[str, str | Secret]:
        """Return client properties with references replaced; secrets and replaced values wrapped.

        `label` names the client in the trace (`A consumer`).
        """
        result: dict[str, str | Secret] = {}
        for key, value in properties.items():
            text, indirect = self._expanded(key, value)
            result[key] = Secret(text) if indirect or is_secret(key) else text
            name = f"{label} {key}"
            self.trace[name] = ResolvedValue(
                name, self._shown(key, text, value.origin, indirect), value.origin
            )
        return result

    def knows(self, properties: Properties) -> bool:
        """Say whether no value of these properties, already read, is known only elsewhere."""
        return self._unknown.isdisjoint(value.origin for value in properties.values())

    def plain(self, properties: Properties) -> dict[str, str]:
        """Return properties with references replaced, for readers of names and classes."""
        return {key: self._expanded(key, value)[0] for key, value in properties.items()}

    def below(self, *prefixes: str) -> dict[str, str]:
        """Return the properties whose keys begin with one of these, with references replaced."""
        return self.plain({key: value for key, value in self._properties.items() if key.startswith(prefixes)})

    def default(self, key: str) -> str | None:
        """Return the default of a key, as it would be written in a file."""
        found = self._keys.get(key)
        return found.default if found is not None else None

    def _text(self, key: str) -> str | None:
        value = self._properties.get(key)
        if value is None:
            default = self.default(key)
            self.trace[key] = _by_default(key, default or "")
            return default
        text, indirect = self._expanded(key, value)
        self.trace[key] = ResolvedValue(key, self._shown(key, text, value.origin, indirect), value.origin)
        return text

    def _shown(self, key: str, text: str, origin: Origin, indirect: bool) -> str:
        return UNRESOLVED if origin in self._unresolved else shown(key, text, indirect=indirect)

    def _expanded(self, key: str, value: Property) -> tuple[str, bool]:
        try:
            expanded = self._providers.expand(value)
        except ConfigError as error:
            self.findings.unresolved(value.origin, error)
            self._unknown.add(value.origin)
            if self.findings.elsewhere and is_elsewhere(error):
                self._unresolved.add(value.origin)
            return self.default(key) or "", True
        if not expanded.known:
            self._unknown.add(value.origin)
        return expanded.text, expanded.indirect


def _boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError
