"""Know of each value where it was written and which rule selected it, and collect all that is wrong with a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from twinlog.errors import ConfigError

DEFAULT = "default"
AS_WRITTEN = "as written"


@dataclass(frozen=True, slots=True)
class Origin:
    """Tell where a value comes from.

    `key` is the key as written in the file and `line` its first line (from 1; 0 if nothing was written).  `rule` names
    the rule of MM2's precedence that won (precedence.py), in the words that `twinlog plan --explain` prints.
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
        return Property(self.text, Origin(chain, origin.file, origin.line, origin.key))


Properties = Mapping[str, Property]
"""Keys with their values, at one stage of the precedence."""


def given(text: str, rule: str = DEFAULT) -> Property:
    """Return a value that is not in the file: a default, or one that a rule derived."""
    return Property(text, Origin(rule))


class Severity(StrEnum):
    """ERROR: unusable.  WARNING: likely not meant; fails under --strict.  NOTE: only `plan --explain` shows it.

    UNRESOLVED: the value is not on this machine, and nothing that depends on it was judged.
    """

    ERROR = "error"
    UNRESOLVED = "unresolved"
    WARNING = "warning"
    NOTE = "note"


_JUDGED = frozenset({Severity.ERROR, Severity.WARNING})


def is_elsewhere(error: ConfigError) -> bool:
    """Say whether an error is about a thing missing here that may exist on the machine the file is for."""
    return bool(error.data.get("elsewhere"))


@dataclass(frozen=True, slots=True)
class Finding:
    """One line for people.  It never carries a value that could be a secret."""

    severity: Severity
    origin: Origin
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.origin.place}: {self.origin.key}: " if self.origin.line else ""
        where = where or (f"{self.origin.file}: " if self.origin.file else "")
        return f"{where}{self.message}" + (f"; {self.hint}" if self.hint else "")


class Findings:
    """Collects findings; the same finding met on several paths (roles, flows) is kept once.

    If `elsewhere`, the file is read on a machine other than its own: a value that is not here is a finding of its own
    kind and no mistake, and its consequences are not judged.  If `lenient`, a key that nobody knows is a warning.
    """

    def __init__(self, file: str, *, elsewhere: bool = False, lenient: bool = False) -> None:
        self.file = file
        self.elsewhere = elsewhere
        self.lenient = lenient
        self._found: dict[Finding, None] = {}

    def add(self, severity: Severity, origin: Origin, message: str, hint: str = "") -> None:
        """Keep one finding, unless it follows from a value that is not on this machine."""
        if severity in _JUDGED and self._says(Severity.UNRESOLVED, origin):
            return
        self._found[Finding(severity, origin, message, hint)] = None

    def error(self, origin: Origin, message: str, hint: str = "") -> None:
        """Keep a mistake that makes the file unusable."""
        self.add(Severity.ERROR, origin, message, hint)

    def warn(self, origin: Origin, message: str, hint: str = "") -> None:
        """Keep a likely mistake."""
        self.add(Severity.WARNING, origin, message, hint)

    def note(self, origin: Origin, message: str, hint: str = "") -> None:
        """Keep something worth knowing that is no mistake."""
        self.add(Severity.NOTE, origin, message, hint)

    def unresolved(self, origin: Origin, error: ConfigError) -> None:
        """Keep that a value cannot be resolved, with the message of Providers.expand or a key store; never twice."""
        missing = self.elsewhere and is_elsewhere(error)
        message = error.message.removeprefix(f"{origin.place}: ").removeprefix(f"{origin.key}: ")
        self.add(Severity.UNRESOLVED if missing else Severity.ERROR, origin, message, error.hint)

    def lines(self, *severities: Severity) -> tuple[str, ...]:
        """Return the findings of these severities as lines, in the order of the file."""
        kept = (found for found in self._found if found.severity in severities)
        in_order = sorted(kept, key=lambda found: (found.origin.file, found.origin.line, found.origin.key))
        return tuple(dict.fromkeys(str(found) for found in in_order))

    def blames(self, origin: Origin) -> bool:
        """Say whether this line is known to be wrong already: its consequences are no second mistake."""
        return self._says(Severity.ERROR, origin)

    def _says(self, severity: Severity, origin: Origin) -> bool:
        return any(
            (found.severity, found.origin.line, found.origin.key) == (severity, origin.line, origin.key)
            for found in self._found
        )

    def missing(self) -> Origin:
        """Return the origin of a key that is nowhere in the file."""
        return Origin("missing", self.file)

    def raise_if_unusable(self, *, strict: bool) -> None:
        """Raise one ConfigError that lists every error, and under `strict` every warning too."""
        failing = (Severity.ERROR, Severity.WARNING) if strict else (Severity.ERROR,)
        lines = self.lines(*failing)
        if not lines:
            return
        if len(lines) == 1:
            raise ConfigError(lines[0], file=self.file, findings=list(lines))
        listing = "\n".join(f"  {line}" for line in lines)
        raise ConfigError(
            f"{self.file} has {len(lines)} mistakes:\n{listing}", file=self.file, findings=list(lines)
        )
