"""Define a check as data, two columns of a row and the relation that must hold between them, and judge rows by it.

`judge` takes milliseconds.  `twinlog.judge.great_expectations` gives the same verdicts through Great Expectations, with
pages, and takes seconds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeGuard

from twinlog.fact import Total, Unknown
from twinlog.facts.topic import FOREVER
from twinlog.formats.ledger.accepted import Offence, short_by
from twinlog.grouped import grouped
from twinlog.visible import and_more, first_few

Cell = str | int | float | tuple[str, ...] | Total | Unknown | None
Row = Mapping[str, Cell]
"""One line of facts: text in the columns that identify it, numbers elsewhere; None where there is nothing to judge.

A Total is a number of which only a part is known: it fails as what is unknown does, and says what there is at least.
"""


class Severity(StrEnum):
    """Say whether a failed check forbids relying on the copy, or only asks for a look."""

    CRITICAL = "critical"
    WARNING = "warning"


class Mode(StrEnum):
    """Say whether both clusters are asked, or only the state on the target is left."""

    PLANNED = "planned"
    SOURCE_DEAD = "source-dead"


class Use(StrEnum):
    """Say what the checks are asked for.

    A cycle; a planned failover, or whether one could begin while producers still write; a failover without the source.
    """

    CYCLE = "cycle"
    PLANNED = "planned"
    STILL_WRITING = "still-writing"
    SOURCE_DEAD = "source-dead"


_LETTERS = {"F": Severity.CRITICAL, "w": Severity.WARNING}


class Relation(StrEnum):
    """The relation of the left column to the right side."""

    EQUAL = "="
    AT_LEAST = ">="
    AT_MOST = "<="


HOLDS = {Relation.EQUAL: operator.eq, Relation.AT_LEAST: operator.ge, Relation.AT_MOST: operator.le}


class Seen(StrEnum):
    """The age of the facts a check looks at: seen now, by the last cycle, the last audit, or the last checkpoint."""

    NOW = "now"
    CYCLE = "cycle"
    AUDIT = "audit"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True)
class Check:
    """`left` `relation` `right`; `meaning` is said if it holds, `advice` if it does not.

    `right` is a column or a number.  A row in which a side is None has nothing to judge: the check does not apply to
    it.  A row in which a side is unknown fails, and so does one that lacks the column: nobody has looked.  The column
    `lines`, if there is one, says more about a row that fails.  `uses` are the letters of judge/table.py.
    """

    name: str
    severity: Severity
    left: str
    relation: Relation
    right: str | int
    meaning: str
    advice: str
    seen: Seen = Seen.NOW
    lines: str = ""
    uses: str = ""

    @property
    def expected(self) -> str:
        """Return the check as an expression over the columns."""
        return f"{self.left} {self.relation} {self.right}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns it compares."""
        return (self.left, self.right) if isinstance(self.right, str) else (self.left,)

    def severity_for(self, use: Use) -> Severity | None:
        """Return what a failure means to a use; None if it does not ask."""
        return _LETTERS.get(self.uses[list(Use).index(use)])


def row(asked: str, meaning: str, advice: str, lines: str = "") -> Check:
    """Make a check; `asked` is like `wFF- name: left >= right cycle`, without the age of facts that are seen now."""
    uses, name, left, relation, right, *seen = asked.split()
    side = int(right) if right.isdecimal() else right
    severity = Severity.CRITICAL  # until it is asked for a use
    name = name.removesuffix(":")
    age = Seen(*seen or [Seen.NOW])
    return Check(name, severity, left, Relation(relation), side, meaning, advice, age, lines, uses)


@dataclass(frozen=True, slots=True)
class Suite:
    """Checks over rows that are each one `noun`, identified by the columns `identity`; the first is the subject."""

    name: str
    noun: str
    identity: tuple[str, ...]
    checks: tuple[Check, ...]


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


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts on a suite and the number of its rows; `outcome` is what Great Expectations draws its page from."""

    suite: Suite
    rows: int
    results: tuple[CheckResult, ...]
    outcome: Any = None


Validator = Callable[[Suite, Sequence[Row]], Judged]
"""Judges rows by a suite: `judge`, or `judge.great_expectations.validate`."""

NOT_APPLICABLE = "n/a"
"""Observed by a check that had nothing to judge in any row; it forbids nothing, and proves nothing."""

NOT_LOOKED_AT = Unknown("nobody looked")

NAMED_IN_MESSAGE = 5


def judge(suite: Suite, rows: Sequence[Row]) -> Judged:
    """Judge every row by every check, in the order of the suite."""
    results = (
        result_of(suite, check, [row for row in rows if not _holds(check, row)], rows)
        for check in suite.checks
    )
    return Judged(suite, len(rows), tuple(results))


def cell(row: Row, column: str) -> Cell:
    """Return what a row has in a column; what it lacks is unknown."""
    return row.get(column, NOT_LOOKED_AT)


def sides(check: Check, row: Row) -> tuple[Cell, Cell]:
    """Return what a check compares in a row; both sides are None if it does not apply there."""
    left = cell(row, check.left)
    right = cell(row, check.right) if isinstance(check.right, str) else check.right
    return (None, None) if left is None or right is None else (left, right)


def _number(value: Cell) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _holds(check: Check, row: Row) -> bool:
    left, right = sides(check, row)
    if left is None or right is None:
        return True
    return _number(left) and _number(right) and HOLDS[check.relation](float(left), float(right))


def result_of(suite: Suite, check: Check, failed: Sequence[Row], rows: Collection[Row]) -> CheckResult:
    """Say in words which of `rows` failed and what to do."""
    if not failed:
        judged = sum(None not in sides(check, row) for row in rows)
        observed, message = _passed(suite, check, judged, len(rows))
        return CheckResult(check.name, check.severity, True, observed, check.expected, message)
    named = "; ".join(_offence(suite, check, row) for row in failed[:NAMED_IN_MESSAGE])
    named += and_more(len(failed), NAMED_IN_MESSAGE, " and {} more")
    lines = [line for row in failed for line in lines_of(check, row)]
    found = "; ".join([named, *first_few(lines, NAMED_IN_MESSAGE, "and {} more")])
    return CheckResult(
        check.name,
        check.severity,
        False,
        named,
        check.expected,
        f"{found}. Asked: {check.meaning}. To do: {check.advice}",
        tuple(sorted({str(row[suite.identity[0]]) for row in failed})),
        tuple(offence for row in failed for offence in _short(suite, check, row)),
    )


def lines_of(check: Check, row: Row) -> tuple[str, ...]:
    """Return what a row says of itself beside the numbers that a check compares."""
    lines = row.get(check.lines, ())
    return lines if isinstance(lines, tuple) else ()


def _short(suite: Suite, check: Check, row: Row) -> Iterator[Offence]:
    """Say by how much a row fails a check; of what is known in part, the part that is not known fails besides."""
    left, right = sides(check, row)
    partition = row.get("partition")
    at = str(row[suite.identity[0]]), partition if isinstance(partition, int) else None
    if isinstance(left, Total) and _number(right):
        yield Offence(*at, short_by(left.least, right))
        left = left.fact
    why = next((it.why for it in (left, right) if isinstance(it, Unknown)), "")
    yield Offence(*at, short_by(left, right) if _number(left) and _number(right) else None, why)


def in_lines(failed: Iterable[CheckResult]) -> Iterator[str]:
    """Say what failed, a line a check; checks that compare with one fact which nobody knows share a line.  Pure."""
    by_why = grouped((tuple(offence.why for offence in check.offences), check) for check in failed)
    for whys, checks in by_why.items():
        if len(checks) > 1 and all(whys):
            more = and_more(len(whys), 1, ", and {} more")
            yield f"{', '.join(check.name for check in checks)}: not known ({whys[0]}{more})"
        else:
            yield from (f"{check.name}: {check.message}" for check in checks)


def _passed(suite: Suite, check: Check, judged: int, total: int) -> tuple[str, str]:
    on_all = f"on all {total:,} {suite.noun}s" if total != 1 else f"on the one {suite.noun}"
    columns = " or no ".join(check.columns)
    if not judged:
        why = f"there is no {columns}, {on_all}" if total else f"there is no {suite.noun}"
        return NOT_APPLICABLE, f"does not apply: {check.meaning}. Reason: {why}"
    if judged < total:
        some = f"on {judged:,} of {total:,} {suite.noun}s; the others have no {' or '.join(check.columns)}"
        return "as expected", f"{check.meaning}, {some}"
    return "as expected", f"{check.meaning}, {on_all}"


def _offence(suite: Suite, check: Check, row: Row) -> str:
    first, *others = suite.identity
    where = " ".join([str(row[first]), *(f"{name} {row[name]}" for name in others)])
    found = ", ".join(f"{column.replace('_', ' ')} {_shown(row, column)}" for column in check.columns)
    asked = (
        "" if isinstance(check.right, str) or not check.right else f" (asked {check.relation} {check.right})"
    )
    return f"{where}: {found}{asked}"


def _shown(row: Row, column: str) -> str:
    value = cell(row, column)
    if isinstance(value, Total):
        return f"at least {value.least:,} ({value.doubt})"
    if isinstance(value, Unknown):
        return f"not known ({value.why})"
    if not _number(value) or value == FOREVER:
        return "none" if value is None else "no limit"
    return str(round(float(value), 1)).removesuffix(".0")
