"""A configuration value with the place where it was written and the rule that selected it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

DEFAULT = "default"
AS_WRITTEN = "as written"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from.

    `key` is the key as written in the file and `line` its first line (from 1; 0 if nothing was written).  `rule` names
    the rule of MM2's precedence that won (precedence.py), in the words that `twinlog explain` prints.
    """

    rule: str
    file: str = ""
    line: int = 0
    key: str = ""

    @property
    def place(self) -> str:
        """Return `mm2.properties:12`, or the rule if no line was written."""
        return f"{self.file}:{self.line}" if self.line else self.rule

    def __str__(self) -> str:
        return f"{self.place} {self.key} ({self.rule})" if self.line else self.rule


@dataclass(frozen=True, slots=True)
class Property:
    """One value as written (placeholders such as `${env:X}` not yet replaced) and its origin."""

    text: str
    origin: Origin

    def by(self, rule: str) -> Property:
        """Return the same value, selected by one more rule; a default stays a default."""
        origin = self.origin
        if origin.rule == DEFAULT:
            return self
        chain = rule if origin.rule == AS_WRITTEN else f"{rule}: {origin.rule}"
        return replace(self, origin=replace(origin, rule=chain))


Properties = Mapping[str, Property]
"""Keys with their values, at one stage of the precedence."""


def given(text: str, rule: str = DEFAULT) -> Property:
    """Return a value that is not in the file: a default, or one that a rule derived."""
    return Property(text, Origin(rule))
