"""The user's own rules: what a file may say, and what is said of one that cannot be used."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path

import pytest

from twinlog.data_rules.suite import RuleResult, TopicRules, read_suite, severity_of
from twinlog.errors import ConfigError
from twinlog.judge.check import Severity


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", 'has no list of "expectations"'),
        ('{"expectations": []}', 'has no list of "expectations"'),
        ('{"expectations": [{"type": "a"}, {"kwargs": {}}]}', 'expectation 2 has no "type"'),
    ],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    """The file is named, and the rule."""
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_suite(path)
    assert f"{path}: {said}" in raised.value.message


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """One line."""
    with pytest.raises(ConfigError, match="No such file"):
        read_suite(tmp_path / "none.json")


def test_the_suite_that_comes_along(repository: Path) -> None:
    """It can be read."""
    path = repository / "include" / "config" / "suites" / "sane-records.json"
    assert json.loads(path.read_text()) == read_suite(path)


@pytest.mark.parametrize(
    ("expected", "severity", "passed"),
    [
        (True, Severity.CRITICAL, False),
        (False, Severity.WARNING, False),
        (False, Severity.CRITICAL, True),
    ],
)
def test_only_a_critical_rule_breaks_a_topic(expected: bool, severity: Severity, passed: bool) -> None:
    """Warnings are told."""
    rule = RuleResult("r", severity, passed, 0, (), "")
    assert expected == TopicRules("t", 1, (rule,)).broken


class Told(str, Enum):  # noqa: UP042
    """As Great Expectations has it."""

    CRITICAL = "critical"
    INFO = "info"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (None, Severity.CRITICAL),
        ("critical", Severity.CRITICAL),
        (Told.CRITICAL, Severity.CRITICAL),
        ("warning", Severity.WARNING),
        (Told.INFO, Severity.WARNING),
    ],
)
def test_severity(told: object, expected: Severity) -> None:
    """An enum whose text is something else than its value, or text; critical unless it says less."""
    assert expected is severity_of(told)
