"""The gate's checks: named once, documented, and none holds of what is not known."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from twinlog.checks.check import Severity
from twinlog.checks.evaluate import judge
from twinlog.errors import ConfigError
from twinlog.fact import Unknown
from twinlog.gate.suites.suites import (
    AGES,
    NOTHING_BLOCKED,
    Mode,
    every_check,
    raised,
    refuse_unknown,
    suites,
)

PAGE = (Path(__file__).parents[3] / "docs" / "gate.md").read_text()
ROWS = [
    (re.findall(r"`([a-z-]+)`", names), severity, modes)
    for names, severity, modes in re.findall(
        r"^\| (`[^|]+) \| (critical|warning) \| ([^|]+) \|", PAGE, re.MULTILINE
    )
]
DOCUMENTED = {name: (severity, modes) for names, severity, modes in ROWS for name in names}


def names(mode: Mode, **options: bool) -> set[str]:
    return {check.name for suite in suites(mode, **options) for check in suite.checks}


def test_every_check_is_documented():
    """With its severity; and no other is."""
    known = {name: check.severity.value for name, check in every_check().items()} | {
        NOTHING_BLOCKED: "critical"
    }
    assert known == {name: severity for name, (severity, _) in DOCUMENTED.items()}


def test_modes_are_documented():
    """P planned, S only without --still-writing, D source-dead."""
    planned = names(Mode.PLANNED, canary=True)
    writing, dead = names(Mode.PLANNED, still_writing=True), names(Mode.SOURCE_DEAD)
    for name in set(DOCUMENTED) - {NOTHING_BLOCKED}:
        _, modes = DOCUMENTED[name]
        assert ("P" in modes or "S" in modes) == (name in planned), name
        assert ("D" in modes) == (name in dead), name
        if "S" in modes:
            assert name not in writing, name


def test_a_configuration_raises_warnings():
    """And nothing else."""
    chosen = raised(suites(Mode.PLANNED), ["free-disk"])
    before = {check.name: check.severity for suite in suites(Mode.PLANNED) for check in suite.checks}
    after = {check.name: check.severity for suite in chosen for check in suite.checks}
    assert {"free-disk": Severity.CRITICAL} == {
        name: after[name] for name in after if after[name] != before[name]
    }


@pytest.mark.parametrize("mode", Mode, ids=lambda it: it.value)
def test_no_check_holds_of_what_is_not_known(mode):
    """Whatever one of its columns is worth: unknown, or forgotten by those who make the rows."""
    for suite in suites(mode, canary=True):
        identity = dict.fromkeys(suite.identity, "it")
        for check in suite.checks:
            for column in check.columns:
                others = dict.fromkeys(check.columns, 0) | {column: Unknown("hidden")}
                for row in (identity | others, identity | {it: 0 for it in check.columns if it != column}):
                    (result,) = judge(replace(suite, checks=(check,)), [row])
                    assert (check.name, False) == (result.name, result.passed)


def test_unknown_names_are_refused():
    """They would silently block, or waive, nothing."""
    refuse_unknown([NOTHING_BLOCKED, "lag-records"], "here")
    with pytest.raises(ConfigError, match="here: 'lag' is no check of the gate"):
        refuse_unknown(["lag"], "here")


def test_ages_are_of_checks_that_exist():
    """A misspelt name would be as old as now."""
    assert set(AGES) <= set(every_check())
