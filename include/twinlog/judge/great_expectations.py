"""Judge rows by a suite with Great Expectations, for the Data Docs of Airflow's `validate` and `failover_readiness`.

Great Expectations takes seconds to import, so the functions import it.  It gets one small pandas frame and an
ephemeral context, and writes nothing.  `twinlog.judge.data_docs` makes pages of the outcome.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from twinlog.errors import UsageError
from twinlog.jsonable import Json
from twinlog.judge.check import Cell, Check, CheckResult, Judged, Relation, Row, Suite, result_of, sides

if TYPE_CHECKING:
    import pandas as pd


def require_installed() -> None:
    """Raise UsageError if Great Expectations is not installed: only Airflow's tasks ask it."""
    if find_spec("great_expectations") is None:
        raise UsageError(
            "Great Expectations, which judges here, is not installed",
            "pip install 'twinlog[gate] @ file:...'",
            code="not-installed",
        )


def validate(suite: Suite, rows: Sequence[Row]) -> Judged:
    """Judge every row by every check, in the order of the suite.  Raises what `require_installed` does."""
    require_installed()
    outcome = _run(suite, frame(suite, rows))
    by_name = {result.expectation_config.meta["check"]: result for result in outcome.results}
    by_identity = {_identity(suite, _escaped(suite, row)): row for row in rows}
    results = tuple(_result(suite, check, by_name[check.name], by_identity) for check in suite.checks)
    return Judged(suite, len(rows), results, outcome)


def frame(suite: Suite, rows: Sequence[Row]) -> pd.DataFrame:
    """Make a table with two columns for each check of the suite; offsets are exact up to 2**53.

    Great Expectations leaves a row out if both are empty: the check does not apply to it.  If a side is unknown, it
    alone is empty, which compares with nothing, so the row fails.
    """
    import pandas as pd

    escaped = [_escaped(suite, row) for row in rows]
    columns = {name: [row[name] for row in escaped] for name in suite.identity}
    for check in suite.checks:
        compared = [_numbers(*sides(check, row)) for row in rows]
        left, right = _sides(check)
        columns[left], columns[right] = [it for it, _ in compared], [it for _, it in compared]
    table = pd.DataFrame(columns)
    return table.astype({name: "float64" for name in table.columns if name not in suite.identity})


def _numbers(left: Cell, right: Cell) -> tuple[Cell, Cell]:
    """Turn a side that is not known, or not all of it, into an empty cell; if both are, the right one becomes 0."""
    numbers = int | float
    if left is None or isinstance(left, numbers):
        return left, right if isinstance(right, numbers) else None
    return None, right if isinstance(right, numbers) else 0


def _sides(check: Check) -> tuple[str, str]:
    """Name the two columns of a check."""
    return f"{check.name}: {check.left}", f"{check.name}: {check.right}"


def expectation(check: Check) -> Any:
    """Translate a check into an expectation of Great Expectations."""
    import great_expectations.expectations as gxe

    common = {
        "severity": check.severity.value,
        "meta": {"check": check.name, "notes": [f"{check.name}: if not, {check.advice}"]},
        "description": f"{check.name}: {check.meaning}",
    }
    ignored = {"ignore_row_if": "both_values_are_missing"}
    left, right = _sides(check)
    if check.relation is Relation.EQUAL:
        return gxe.ExpectColumnPairValuesToBeEqual(column_A=left, column_B=right, **ignored, **common)
    larger, smaller = (left, right) if check.relation is Relation.AT_LEAST else (right, left)
    return gxe.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=larger, column_B=smaller, or_equal=True, **ignored, **common
    )


def _run(suite: Suite, table: pd.DataFrame) -> Any:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    logging.getLogger("great_expectations").setLevel(logging.WARNING)  # it logs every import step
    import great_expectations as gx

    # This module of it has a level of its own, and logs the paths of temporary folders.
    logging.getLogger("great_expectations.data_context.types.base").setLevel(logging.WARNING)

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


def _identity(suite: Suite, row: Json) -> tuple[str, ...]:
    return tuple(str(row[column]) for column in suite.identity)
