"""Filter names by MM2's include and exclude lists (DefaultTopicFilter, DefaultGroupFilter)."""

from __future__ import annotations

from dataclasses import dataclass, field

import regex

from twinlog.errors import ConfigError
from twinlog.policy.java_regex import compile_java


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Accept a name if the include list matches it as a whole and the exclude list does not.

    Each list is joined with `|` into one Java regular expression, as MM2 does, so an inline flag such as `(?i)` in one
    element also applies to the elements after it.  An empty list matches nothing.  Raises ConfigError, naming the
    element, for an element that is not a Java regex or cannot be given the same meaning here.
    """

    include: tuple[str, ...] = (".*",)
    exclude: tuple[str, ...] = ()
    _included: regex.Pattern[str] | None = field(init=False, repr=False, compare=False)
    _excluded: regex.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile both lists once: thousands of elements are matched against thousands of names."""
        object.__setattr__(self, "_included", _compile(self.include))
        object.__setattr__(self, "_excluded", _compile(self.exclude))

    def accepts(self, name: str) -> bool:
        """Say whether both lists accept `name`."""
        return self.includes(name) and not self.excludes(name)

    def includes(self, name: str) -> bool:
        """Say whether the include list matches `name`."""
        return self._included is not None and self._included.match(name) is not None

    def excludes(self, name: str) -> bool:
        """Say whether the exclude list matches `name`."""
        return self._excluded is not None and self._excluded.match(name) is not None


def _compile(patterns: tuple[str, ...]) -> regex.Pattern[str] | None:
    """Compile the joined expression; if that fails, raise the error of the faulty element, which is in the file."""
    if not patterns:
        return None
    try:
        return compile_java("|".join(patterns))
    except ConfigError:
        for pattern in patterns:
            compile_java(pattern)
        raise
