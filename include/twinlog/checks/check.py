"""What a check is: two columns of a row and how they must stand to each other, as data.

A suite is a family of checks over rows of one kind.  Two evaluators read the same suites and agree, which a test holds
them to: `twinlog.checks.evaluate` in plain Python for every cycle, `twinlog.checks.great_expectations` through Great
Expectations where a person looks at the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Cell = str | int | float | None
Row = Mapping[str, Cell]
"""One line of facts: text in the columns that identify it, numbers elsewhere, None for what is not known."""


class Severity(StrEnum):
    """Whether a failed check forbids relying on the copy, or asks to have a look."""

    CRITICAL = "critical"
    WARNING = "warning"


class Relation(StrEnum):
    """How the left column must stand to the right side."""

    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="


@dataclass(frozen=True, slots=True)
class Check:
    """`left` `relation` `right`; `meaning` is what it says when it holds, `advice` what to do when it does not.

    `right` is a column or a number.  A row where a side is not known is not judged, unless the check `needs` both:
    then what is not known counts as failed.
    """

    name: str
    severity: Severity
    left: str
    relation: Relation
    right: str | int
    meaning: str
    advice: str
    needs: bool = False

    @property
    def expected(self) -> str:
        """The check as an expression over the columns."""
        return f"{self.left} {self.relation} {self.right}"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it looks at."""
        return (self.left, self.right) if isinstance(self.right, str) else (self.left,)


@dataclass(frozen=True, slots=True)
class Suite:
    """Checks over rows that are each one `noun`, told apart by the columns `identity`; the first is its subject."""

    name: str
    noun: str
    identity: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of numbers that its checks look at, each once."""
        return tuple(dict.fromkeys(column for check in self.checks for column in check.columns))


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check over all rows; `observed` tells the failed rows apart, as many as fit a line.

    `subjects` are all topics, groups or flows in which it failed: what a waiver can name.
    """

    name: str
    severity: Severity
    passed: bool
    observed: str
    expected: str
    message: str
    subjects: tuple[str, ...] = ()
