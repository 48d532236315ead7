"""Judge rows by a suite in plain Python: milliseconds, while Great Expectations takes seconds to import.

Every cycle runs this.  `twinlog.checks.great_expectations` gives the same verdicts through Great Expectations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TypeGuard

from twinlog.checks.check import (
    FOREVER,
    NOT_APPLICABLE,
    Cell,
    Check,
    CheckResult,
    Relation,
    Row,
    Suite,
    cell,
    sides,
)
from twinlog.fact import Unknown
from twinlog.formats.ledger.accepted import Offence, short_by
from twinlog.visible import and_more, first_few

NAMED_IN_MESSAGE = 5

HOLDS: dict[Relation, Callable[[float, float], bool]] = {
    Relation.EQUAL: operator.eq,
    Relation.AT_LEAST: operator.ge,
    Relation.AT_MOST: operator.le,
}


def judge(suite: Suite, rows: Sequence[Row]) -> tuple[CheckResult, ...]:
    """Judge every row by every check, in the order of the suite."""
    return tuple(
        result_of(suite, check, [row for row in rows if not _holds(check, row)], rows)
        for check in suite.checks
    )


def _holds(check: Check, row: Row) -> bool:
    left, right = sides(check, row)
    if left is None or right is None:
        return True
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return False
    return HOLDS[check.relation](float(left), float(right))


def result_of(suite: Suite, check: Check, failed: Sequence[Row], rows: Collection[Row]) -> CheckResult:
    """Say in words which of `rows` failed and what to do."""
    subject = suite.identity[0]
    if not failed:
        judged = sum(None not in sides(check, row) for row in rows)
        observed, message = _passed(suite, check, judged, len(rows))
        return CheckResult(check.name, check.severity, True, observed, check.expected, message)
    named = "; ".join(_offence(suite, check, row) for row in failed[:NAMED_IN_MESSAGE])
    named += and_more(len(failed), NAMED_IN_MESSAGE, " and {} more")
    return CheckResult(
        check.name,
        check.severity,
        False,
        named,
        check.expected,
        f"does not hold: {check.meaning}. Found: {named}; {check.advice}",
        tuple(sorted({str(row[subject]) for row in failed})),
        tuple(_short(suite, check, row) for row in failed),
    )


def _number(value: Cell) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _short(suite: Suite, check: Check, row: Row) -> Offence:
    """Say by how much a row fails a check."""
    left, right = sides(check, row)
    partition = row.get("partition")
    return Offence(
        str(row[suite.identity[0]]),
        partition if isinstance(partition, int) else None,
        short_by(left, right) if _number(left) and _number(right) else None,
    )


def with_lines(
    results: Iterable[CheckResult], names: Collection[str], lines: Sequence[str], what: str
) -> tuple[CheckResult, ...]:
    """Add lines about `what` to the messages of those of the named checks that failed."""
    text = "; ".join(["", *first_few(lines, NAMED_IN_MESSAGE, f"and {{}} {what} more")])
    return tuple(
        replace(it, message=it.message + text) if not it.passed and it.name in names else it for it in results
    )


def _passed(suite: Suite, check: Check, judged: int, total: int) -> tuple[str, str]:
    if not judged:
        none = f"there is no {' or no '.join(check.columns)}, {_on_all(suite, total)}"
        why = none if total else f"there is no {suite.noun}"
        return NOT_APPLICABLE, f"does not apply: {check.meaning}. Reason: {why}"
    if judged < total:
        others = f"the others have no {' or '.join(check.columns)}"
        return "as expected", f"{check.meaning}, on {judged:,} of {total:,} {suite.noun}s; {others}"
    return "as expected", f"{check.meaning}, {_on_all(suite, total)}"


def _on_all(suite: Suite, total: int) -> str:
    return f"on all {total:,} {suite.noun}s" if total != 1 else f"on the one {suite.noun}"


def _offence(suite: Suite, check: Check, row: Row) -> str:
    first, *others = suite.identity
    where = " ".join([str(row[first]), *(f"{name} {row[name]}" for name in others)])
    return f"{where}: {', '.join(f'{column} {_shown(row, column)}' for column in check.columns)}"


def _shown(row: Row, column: str) -> str:
    value = cell(row, column)
    if isinstance(value, Unknown):
        return f"not known ({value.why})"
    if value is None or value == FOREVER:
        return "none" if value is None else "no limit"
    return str(round(float(value), 1)).removesuffix(".0")
