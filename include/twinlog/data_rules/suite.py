"""The user's own rules of the data: a suite of expectations from a file, applied to a frame of sampled records.

The file is a Great Expectations suite as JSON, `{"name", "expectations": [{"type", "kwargs", "severity"}]}`; the frame
has the columns of `twinlog.spark.sample_task`.  Great Expectations takes seconds to import, so the functions import
it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlog.errors import ConfigError
from twinlog.judge.check import Severity
from twinlog.judge.great_expectations import require_installed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_PLACES = 5


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule applied to one topic; `places` are the first records that break it, as `partition/offset`."""

    rule: str
    severity: Severity
    passed: bool
    unexpected: int
    places: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class TopicRules:
    """All rules applied to the sample of one topic."""

    topic: str
    records: int
    rules: tuple[RuleResult, ...]

    @property
    def broken(self) -> bool:
        """Say whether a critical rule is broken."""
        return any(not it.passed and it.severity is Severity.CRITICAL for it in self.rules)


def read_suite(path: Path) -> dict[str, Any]:
    """Read a suite file.  Raises ConfigError with the file, the rule and the mistake."""
    try:
        suite = json.loads(path.read_text())
    except OSError as error:
        raise _wrong(path, f"cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise _wrong(path, f"is no JSON: {error}") from None
    rules = suite.get("expectations") if isinstance(suite, dict) else None
    if not isinstance(rules, list) or not rules:
        raise _wrong(path, 'has no list of "expectations"')
    for number, rule in enumerate(rules, 1):
        if not isinstance(rule, dict) or not isinstance(rule.get("type"), str):
            raise _wrong(path, f'expectation {number} has no "type"')
    return dict(suite)


def ask(suite: Mapping[str, Any], path: Path, topic: str, frame: DataFrame) -> TopicRules:
    """Apply every rule to one topic's sample.

    Raises ConfigError if Great Expectations does not know a rule, UsageError if it is not installed.
    """
    require_installed()
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
    import great_expectations as gx

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    rules = [_rule(path, number, it) for number, it in enumerate(suite["expectations"], 1)]
    expectations = context.suites.add(gx.ExpectationSuite(name="rules", expectations=rules))
    batch = context.data_sources.add_spark("sample").add_dataframe_asset("sample")
    validation = context.validation_definitions.add(
        gx.ValidationDefinition(
            name="rules", data=batch.add_batch_definition_whole_dataframe("all"), suite=expectations
        )
    )
    outcome = validation.run(
        batch_parameters={"dataframe": frame},
        result_format={"result_format": "COMPLETE", "unexpected_index_column_names": ["partition", "offset"]},
    )
    return TopicRules(topic, frame.count(), tuple(_result(it) for it in outcome.results))


def _rule(path: Path, number: int, rule: Mapping[str, Any]) -> Any:
    from great_expectations.expectations.registry import get_expectation_impl

    named = f"expectation {number} ({rule['type']})"
    try:
        kind = get_expectation_impl(rule["type"])
        severity = {"severity": rule["severity"]} if "severity" in rule else {}
        return kind(**rule.get("kwargs", {}), **severity)
    except Exception as error:  # noqa: BLE001  Great Expectations, pydantic and plain Python all complain in their own ways
        line = " ".join(str(error).split())[:200]
        raise _wrong(path, f"{named}: {line}") from None


def _result(outcome: Any) -> RuleResult:
    config = outcome.expectation_config
    column = config.kwargs.get("column", "")
    rule = f"{config.type}({column})" if column else str(config.type)
    severity = severity_of(config.severity)
    if outcome.exception_info.get("raised_exception"):
        reason = " ".join(str(outcome.exception_info.get("exception_message")).split())[:200]
        return RuleResult(rule, severity, False, 0, (), f"could not be asked: {reason}")
    result = outcome.result
    unexpected = int(result.get("unexpected_count") or 0)
    places = tuple(
        f"{it['partition']}/{it['offset']}"
        for it in (result.get("unexpected_index_list") or [])[:SHOWN_PLACES]
    )
    if outcome.success:
        return RuleResult(rule, severity, True, unexpected, (), "holds")
    observed = result.get("observed_value")
    message = f"{unexpected} records against it" if unexpected else f"observed {observed}"
    return RuleResult(rule, severity, False, unexpected, places, message)


def severity_of(told: object) -> Severity:
    """Read Great Expectations' severity, an enum or its text; any severity below critical only warns."""
    text = getattr(told, "value", told) or "critical"
    return Severity.CRITICAL if text == "critical" else Severity.WARNING


def _wrong(path: Path, what: str) -> ConfigError:
    return ConfigError(
        f"{path}: {what}",
        hint="see docs/audit.md, the user's own rules",
        file=str(path),
        key="twinlog.data.quality.suite",
    )
