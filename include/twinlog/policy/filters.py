"""Name filters: MM2's include and exclude lists as one question (DefaultTopicFilter, DefaultGroupFilter)."""

from __future__ import annotations

from dataclasses import dataclass

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

    def __post_init__(self) -> None:
        for patterns in (self.include, self.exclude):
            if patterns:
                _validate(patterns)

    def accepts(self, name: str) -> bool:
        """Whether `name` is in, by both lists."""
        return self.includes(name) and not self.excludes(name)

    def includes(self, name: str) -> bool:
        """Whether the include list matches `name`."""
        return _matches(self.include, name)

    def excludes(self, name: str) -> bool:
        """Whether the exclude list matches `name`."""
        return _matches(self.exclude, name)


def _matches(patterns: tuple[str, ...], name: str) -> bool:
    return bool(patterns) and compile_java("|".join(patterns)).match(name) is not None


def _validate(patterns: tuple[str, ...]) -> None:
    """Only the joined expression counts, but the element at fault is what a person can find in the file."""
    try:
        compile_java("|".join(patterns))
    except ConfigError:
        for pattern in patterns:
            compile_java(pattern)
        raise
