"""Run checks over partition rows with Great Expectations, and say in words what failed where.

Great Expectations takes seconds to import, so that happens inside the functions.  One small pandas frame, an
ephemeral context: nothing is written anywhere.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twinlog.quality.checks import Check, Relation, Severity
from twinlog.quality.partitions import PartitionRow

if TYPE_CHECKING:
    import pandas as pd

NAMED_IN_MESSAGE = 5


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check over all partitions; `observed` tells the failed partitions apart, as many as fit a line."""

    name: str
    severity: Severity
    passed: bool
    observed: str
    expected: str
    message: str


def run_checks(checks: Sequence[Check], rows: Sequence[PartitionRow]) -> tuple[CheckResult, ...]:
    """Judge every row by every check, in the order of `checks`."""
    results = _validate(checks, frame(rows))
    return tuple(_result(check, results[check.name], len(rows)) for check in checks)


def frame(rows: Iterable[PartitionRow]) -> pd.DataFrame:
    """Make one line of numbers per partition; a missing value is NaN."""
    import pandas as pd

    lines = [_line(row) for row in rows]
    columns = ["topic", *NUMBERS]
    table = pd.DataFrame(lines, columns=columns)
    return table.astype(dict.fromkeys(NUMBERS, "float64"))


NUMBERS = (
    "partition",
    "source_log_start",
    "source_end",
    "next_upstream",
    "lag_records",
    "target_log_start",
    "target_stable_end",
    "source_partitions",
    "target_partitions",
    "reported_next_upstream",
    "mapped_records",
    "mapped_upstream_offsets",
    "mapped_downstream_offsets",
    "mapped_upstream_end",
    "mapped_downstream_end",
)
"""Columns of the frame beside the topic; offsets are exact in a float up to 2**53."""


def _line(row: PartitionRow) -> dict[str, Any]:
    plain = {name: getattr(row, name) for name in NUMBERS if not name.startswith("mapped_")}
    mapped = {f"mapped_{name}": value for name, value in dataclasses.asdict(row.mapped).items()}
    return {"topic": row.topic, **plain, **mapped}


def _validate(checks: Sequence[Check], table: pd.DataFrame) -> Mapping[str, Any]:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_or_update_pandas("partitions")
    batch = source.add_dataframe_asset("partitions").add_batch_definition_whole_dataframe("all")
    suite = context.suites.add_or_update(
        gx.ExpectationSuite(name="cycle", expectations=[expectation(check) for check in checks])
    )
    validation = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name="cycle", data=batch, suite=suite)
    )
    outcome = validation.run(
        batch_parameters={"dataframe": table},
        result_format={
            "result_format": "COMPLETE",
            "unexpected_index_column_names": ["topic", "partition"],
        },
    )
    return {result.expectation_config.meta["check"]: result for result in outcome.results}


def expectation(check: Check) -> Any:
    """Say a check in Great Expectations' words."""
    import great_expectations.expectations as gxe

    common = {"severity": check.severity.value, "meta": {"check": check.name}, "description": check.meaning}
    if isinstance(check.right, int):
        bounds = {"min_value": check.right}
        if check.relation is Relation.EQUAL:
            bounds["max_value"] = check.right
        return gxe.ExpectColumnValuesToBeBetween(column=check.left, **bounds, **common)
    pair = {"column_A": check.left, "column_B": check.right, "ignore_row_if": "either_value_is_missing"}
    if check.relation is Relation.EQUAL:
        return gxe.ExpectColumnPairValuesToBeEqual(**pair, **common)
    return gxe.ExpectColumnPairValuesAToBeGreaterThanB(**pair, or_equal=True, **common)


def _result(check: Check, outcome: Any, partitions: int) -> CheckResult:
    if outcome.exception_info.get("raised_exception"):
        reason = outcome.exception_info.get("exception_message")
        message = f"{check.name} could not be evaluated: {reason}"
        return CheckResult(check.name, check.severity, False, "not evaluated", check.expected, message)
    offenders = outcome.result.get("unexpected_index_list") or []
    if outcome.success:
        message = f"{check.meaning}, on all {partitions} partitions"
        return CheckResult(check.name, check.severity, True, "as expected", check.expected, message)
    observed = "; ".join(_offence(check, it) for it in offenders[:NAMED_IN_MESSAGE])
    more = f" and {len(offenders) - NAMED_IN_MESSAGE} more" if len(offenders) > NAMED_IN_MESSAGE else ""
    message = f"not so ({check.meaning}): {observed}{more}; {check.advice}"
    return CheckResult(check.name, check.severity, False, f"{observed}{more}", check.expected, message)


def _offence(check: Check, offender: Mapping[str, Any]) -> str:
    sides = [check.left, *([check.right] if isinstance(check.right, str) else [])]
    values = ", ".join(f"{side} {int(offender[side])}" for side in sides)
    return f"{offender['topic']} partition {int(offender['partition'])}: {values}"
