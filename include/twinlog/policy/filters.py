"""Name filters: MM2's include and exclude lists as one question (DefaultTopicFilter, DefaultGroupFilter)."""

from __future__ import annotations

from dataclasses import dataclass, field

import regex

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accepts a name that the include list matches as a whole and the exclude list does not.

    Each list is joined with `|` into one Java regular expression, as MM2 does: an inline flag such as `(?i)`
    in one element holds for those after it.  An empty list matches nothing.  Raises ConfigError, naming the
    element, for what is not a Java regex or cannot be given the same meaning here.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    _included: regex.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: regex.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile both lists once: thousands of elements are asked about thousands of names."""
        object.__setattr__(self, "_included", _compile(self.include))
        object.__setattr__(self, "_excluded", _compile(self.exclude))

    def accepts(self, name: str) -> bool:
        """Whether `name` is in, by both lists."""
        return self.includes(name) and not self.excludes(name)

    def includes(self, name: str) -> bool:
        """Whether the include list matches `name`."""
        return self._included is not None and self._included.match(name) is not None

    def excludes(self, name: str) -> bool:
        """Whether the exclude list matches `name`."""
        return self._excluded is not None and self._excluded.match(name) is not None


def _compile(patterns: tuple[str, ...]) -> regex.Pattern[str] | None:
    """Only the joined expression counts, but the element at fault is what a person can find in the file."""
    if not patterns:
        return None
    try:
        return compile_java("|".join(patterns))
    except ConfigError:
        for pattern in patterns:
            compile_java(pattern)
        raise
