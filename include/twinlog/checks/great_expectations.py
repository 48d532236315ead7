"""Judge rows by a suite with Great Expectations, for the Data Docs of Airflow's `validate` and `failover_readiness`.

Great Expectations takes seconds to import, so the functions import it.  It gets one small pandas frame and an
ephemeral context, and writes nothing.  `twinlog.checks.data_docs` makes pages of the outcome.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from twinlog.checks.check import Check, CheckResult, Relation, Row, Suite
from twinlog.checks.evaluate import judge, result_of
from twinlog.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Validated:
    """The verdicts of Great Expectations on one suite: our results, and its own, from which it draws its page."""

    suite: Suite
    rows: int
    results: tuple[CheckResult, ...]
    outcome: Any


def require_installed() -> None:
    """Raise UsageError if Great Expectations is not installed: only Airflow's tasks and data rules ask it."""
    if find_spec("great_expectations") is None:
        raise UsageError(
            "Great Expectations, which judges here, is not installed",
            hint="pip install 'twinlog[gate]'",
            code="not-installed",
        )


def validate(suite: Suite, rows: Sequence[Row]) -> Validated:
    """Judge every row by every check, in the order of the suite.  Raises what `require_installed` does."""
    require_installed()
    outcome = _run(suite, frame(suite, rows))
    by_name = {result.expectation_config.meta["check"]: result for result in outcome.results}
    by_identity = {_identity(suite, _escaped(suite, row)): row for row in rows}
    results = tuple(_result(suite, check, by_name[check.name], by_identity) for check in suite.checks)
    return Validated(suite, len(rows), results, outcome)


def validate_plainly(suite: Suite, rows: Sequence[Row]) -> Validated:
    """Judge with the same verdicts as `validate`, at once and without a page: Great Expectations is not imported."""
    return Validated(suite, len(rows), judge(suite, rows), None)


def frame(suite: Suite, rows: Iterable[Row]) -> pd.DataFrame:
    """Make a table of the columns that the suite looks at; an unknown value is NaN, offsets are exact up to 2**53."""
    import pandas as pd

    # Great Expectations skips empty cells in one-column checks only, so a check that needs its value has two columns.
    constants = {_constant(it): it.right for it in suite.checks if it.needs and isinstance(it.right, int)}
    columns = [*suite.identity, *suite.numbers, *constants]
    escaped = [_escaped(suite, row) for row in rows]
    lines = [{column: row.get(column, constants.get(column)) for column in columns} for row in escaped]
    table = pd.DataFrame(lines, columns=columns)
    return table.astype(dict.fromkeys([*suite.numbers, *constants], "float64"))


def expectation(check: Check) -> Any:
    """Translate a check into an expectation of Great Expectations."""
    import great_expectations.expectations as gxe

    common = {
        "severity": check.severity.value,
        "meta": {"check": check.name, "notes": [f"{check.name}: if not, {check.advice}"]},
        "description": f"{check.name}: {check.meaning}",
    }
    if isinstance(check.right, int) and not check.needs:
        low = {"min_value": check.right} if check.relation is not Relation.AT_MOST else {}
        high = {"max_value": check.right} if check.relation is not Relation.AT_LEAST else {}
        return gxe.ExpectColumnValuesToBeBetween(column=check.left, **low, **high, **common)
    ignored = {"ignore_row_if": "neither" if check.needs else "either_value_is_missing"}
    left, right = check.left, check.right if isinstance(check.right, str) else _constant(check)
    if check.relation is Relation.EQUAL:
        return gxe.ExpectColumnPairValuesToBeEqual(column_A=left, column_B=right, **ignored, **common)
    larger, smaller = (left, right) if check.relation is Relation.AT_LEAST else (right, left)
    return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=larger, column_B=smaller, or_equal=True, **ignored, **common
    )


def _constant(check: Check) -> str:
    return f"number {check.right}"


def _run(suite: Suite, table: pd.DataFrame) -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_or_update_pandas(suite.name)
    batch = source.add_dataframe_asset(suite.name).add_batch_definition_whole_dataframe("all")
    expectations = context.suites.add_or_update(
        gx.ExpectationSuite(name=suite.name, expectations=[expectation(check) for check in suite.checks])
    )
    validation = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=suite.name, data=batch, suite=expectations)
    )
    return validation.run(
        batch_parameters={"dataframe": table},
        result_format={"result_format": "COMPLETE", "unexpected_index_column_names": list(suite.identity)},
    )


def _result(suite: Suite, check: Check, outcome: Any, rows: Mapping[tuple[str, ...], Row]) -> CheckResult:
    offenders = outcome.result.get("unexpected_index_list") or []
    if outcome.exception_info.get("raised_exception") or (not outcome.success and not offenders):
        reason = outcome.exception_info.get("exception_message") or "Great Expectations names no row"
        message = f"{check.name} could not be evaluated: {reason}"
        return CheckResult(check.name, check.severity, False, "not evaluated", check.expected, message)
    failed = [rows[_identity(suite, offender)] for offender in offenders]
    return result_of(suite, check, failed, rows.values())


def _escaped(suite: Suite, row: Row) -> Row:
    """Escape the cells: Great Expectations puts them into its pages as they are, and a group may have any name."""
    return {**row, **{column: escape(str(row[column])) for column in suite.identity}}


def _identity(suite: Suite, row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in suite.identity)
