"""The gate's checks: named once, documented, and every critical one needs to know what it judges."""

import re
from pathlib import Path

import pytest

from twinlog.checks.check import Severity
from twinlog.errors import ConfigError
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

CYCLE_ONLY_NEEDS_NOTHING = {
    "nothing-copied-twice",
    "downstream-counted-once",
    "map-not-beyond-progress",
    "progress-within-source",
    "nothing-expired-uncopied",
    "copy-not-cut-off",
    "partition-parity",
    "progress-never-goes-back",
    "audit-promised",
    "group-in-log",
    "group-lag-not-negative",
    "group-same-record",
    "group-all-there",
    "group-not-ahead",
    "schema-parity",
    "map-whole",
    "nothing-deleted-early",
    "audit-equal",
}
"""Critical checks that have nothing to judge in a partition without records, or where nothing was promised."""


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


def test_what_a_critical_check_needs_must_be_known():
    """Except where there may be nothing to judge."""
    careless = {
        check.name
        for mode in Mode
        for suite in suites(mode)
        for check in suite.checks
        if check.severity is Severity.CRITICAL and not check.needs
    }
    assert CYCLE_ONLY_NEEDS_NOTHING == careless


def test_a_configuration_raises_warnings():
    """And nothing else."""
    chosen = raised(suites(Mode.PLANNED), ["free-disk"])
    before = {check.name: check.severity for suite in suites(Mode.PLANNED) for check in suite.checks}
    after = {check.name: check.severity for suite in chosen for check in suite.checks}
    assert {"free-disk": Severity.CRITICAL} == {
        name: after[name] for name in after if after[name] != before[name]
    }


def test_what_is_raised_needs_to_be_known():
    """What is critical anyway may have nothing to judge: a flow without a schema registry."""
    named = ["config-drift", "heartbeat-age", "schema-parity"]
    needs = {
        check.name: check.needs for suite in raised(suites(Mode.PLANNED), named) for check in suite.checks
    }
    assert {"config-drift": True, "heartbeat-age": True, "schema-parity": False} == {
        it: needs[it] for it in named
    }


def test_unknown_names_are_refused():
    """They would silently block, or waive, nothing."""
    refuse_unknown([NOTHING_BLOCKED, "lag-records"], "here")
    with pytest.raises(ConfigError, match="here: 'lag' is no check of the gate"):
        refuse_unknown(["lag"], "here")


def test_ages_are_of_checks_that_exist():
    """A misspelt name would be as old as now."""
    assert set(AGES) <= set(every_check())
