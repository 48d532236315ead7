"""Define a check as data: two columns of a row, and the relation that must hold between them.

A suite is a family of checks over rows of one kind.  Two evaluators read the same suites, and a test checks that they
agree: `twinlog.checks.evaluate` in plain Python for every cycle, and `twinlog.checks.great_expectations` through Great
Expectations if a person looks at the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from twinlog.fact import Unknown
from twinlog.formats.ledger.accepted import Offence

Cell = str | int | float | Unknown | None
Row = Mapping[str, Cell]
"""One line of facts: text in the columns that identify it, numbers elsewhere; None where there is nothing to judge."""

FOREVER = 2**53
"""The value of "no limit", such as of -1 in retention.ms and retention.bytes; exact as a float."""


class Severity(StrEnum):
    """Say whether a failed check forbids relying on the copy, or only asks for a look."""

    CRITICAL = "critical"
    WARNING = "warning"


class Relation(StrEnum):
    """The relation of the left column to the right side."""

    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Check:
    """`left` `relation` `right`; `meaning` is said if it holds, `advice` if it does not.

    `right` is a column or a number.  A row in which a side is None has nothing to judge: the check does not apply to
    it.  A row in which a side is unknown fails, and so does one that lacks the column: nobody has looked.

    `modes` say when the gate asks it: P before a planned failover, S only once producers have stopped, C with a
    canary, D if the source is dead.
    """

    name: str
    severity: Severity
    left: str
    relation: Relation
    right: str | int
    meaning: str
    advice: str
    modes: str = "P"

    @property
    def expected(self) -> str:
        """Return the check as an expression over the columns."""
        return f"{self.left} {self.relation} {self.right}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns it looks at."""
        return (self.left, self.right) if isinstance(self.right, str) else (self.left,)


def critical(name: str, expected: str, meaning: str, advice: str, modes: str = "P") -> Check:
    """Make a check that forbids relying on the copy if it fails; `expected` is like `left >= right`."""
    left, relation, right = expected.split()
    side = int(right) if right.isdecimal() else right
    return Check(name, Severity.CRITICAL, left, Relation(relation), side, meaning, advice, modes)


def warning(name: str, expected: str, meaning: str, advice: str, modes: str = "P") -> Check:
    """Make a check that asks for a look if it fails."""
    return replace(critical(name, expected, meaning, advice, modes), severity=Severity.WARNING)


@dataclass(frozen=True, slots=True)
class Suite:
    """Checks over rows that are each one `noun`, identified by the columns `identity`; the first is the subject."""

    name: str
    noun: str
    identity: tuple[str, ...]
    checks: tuple[Check, ...]


NOT_APPLICABLE = "n/a"
"""Observed by a check that had nothing to judge in any row; it forbids nothing, and proves nothing."""

NOT_LOOKED_AT = Unknown("nobody looked")


def cell(row: Row, column: str) -> Cell:
    """Return what a row has in a column; what it lacks is unknown."""
    return row.get(column, NOT_LOOKED_AT)


def sides(check: Check, row: Row) -> tuple[Cell, Cell]:
    """Return what a check compares in a row; both sides are None if it does not apply there."""
    left = cell(row, check.left)
    right = cell(row, check.right) if isinstance(check.right, str) else check.right
    return (None, None) if left is None or right is None else (left, right)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check over all rows; `observed` names the failed rows, as many as fit a line.

    `passed` is true, too, if it did not apply to any row; `observed` then is NOT_APPLICABLE.  `subjects` are all
    topics, groups or flows in which it failed, `offences` all rows in which it did, as far as rows were judged.
    """

    name: str
    severity: Severity
    passed: bool
    observed: str
    expected: str
    message: str
    subjects: tuple[str, ...] = ()
    offences: tuple[Offence, ...] = field(default=(), repr=False)
